//! Maps events of the ring to connections and listeners.

use std::os::fd::OwnedFd;

use doorbell_ring::{Accepted, Event, EventKind, Op, Ready, Token};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::socket::{HalfClose, Handle, Installed, Poll, Socket};
use super::{ALARM, Arm, RECV_BUF_LEN, Uring, WAKER, conn_of, datagrams, errno_of, listener_of};
use crate::driver::{AcceptMode, Chunk, ChunkSource, Completion, Driver as _, Received, Sent, Step, sock};
use crate::id::{ConnId, ListenerIndex, SlotIndex};

/// Number of accepts per report of the ring's poll that are made only if `poll(2)` shows another
/// client: the second and the third, or the first two if the listener is shared. The others are
/// made without `poll(2)`.
const ASK_BEFORE_ACCEPTS: u32 = 2;

impl Uring {
    pub(super) fn on_event(&mut self, event: Event) -> Option<Completion> {
        let Event { token, kind, more } = event;
        match kind {
            EventKind::Accepted(result) => self.on_accepted(token, result, more),
            EventKind::Closed(_) => self.on_closed(token),
            EventKind::Datagram(result) => self.on_datagram(token, result, more),
            EventKind::Installed(result) => self.on_installed(token, result),
            EventKind::Ready(result) => self.on_ready(token, result, more),
            EventKind::Readable(result) => self.on_readable(token, result, more),
            EventKind::Received(result) => self.on_received(token, result),
            EventKind::Sent { result, buf } => {
                if let Some(socket) = self.sockets.get_mut(token.slot as usize).and_then(Option::as_mut) {
                    socket.send = false;
                }
                let result = result.map(|sent_len| sent_len as usize).map_err(errno_of);
                Some(Completion::Sent { conn: conn_of(token), sent: Sent { result, buf } })
            }
            EventKind::ShutDown(_) => self.on_shut_down(token),
        }
    }

    fn on_accepted(
        &mut self,
        token: Token,
        result: Result<Accepted, doorbell_ring::Errno>,
        more: bool,
    ) -> Option<Completion> {
        let listener = listener_of(token);
        let arm = self.listeners[listener.index()].arm;
        let accepted = match result {
            Ok(accepted) => self.admit(listener, accepted),
            Err(errno) => {
                self.listeners[listener.index()].arm = Arm::Off;
                let errno = (arm == Arm::Armed).then(|| errno_of(errno));
                return Some(Completion::AcceptEnded { listener, errno });
            }
        };
        if !more {
            if arm == Arm::Armed && self.listeners[listener.index()].mode == AcceptMode::SingleShot {
                self.push_accept(listener);
            } else {
                self.listeners[listener.index()].arm = Arm::Off;
                self.made.push_back(Completion::AcceptEnded { listener, errno: None });
            }
        }
        accepted
    }

    fn admit(&mut self, listener: ListenerIndex, accepted: Accepted) -> Option<Completion> {
        let slot = match accepted {
            Accepted::Fixed(index) => {
                let slot = SlotIndex(index);
                self.install(slot, Handle::Direct(Installed::None));
                slot
            }
            Accepted::Fd(fd) => self.admit_fd(fd)?,
        };
        Some(Completion::Accepted { listener, slot })
    }

    /// Takes a slot for an accepted descriptor.
    #[inline(always)]
    pub(super) fn admit_fd(&mut self, fd: OwnedFd) -> Option<SlotIndex> {
        let Some(slot) = self.free.take() else {
            // All backlogs together have fewer clients than there are slots beyond `conns_max`, so
            // a slot should be free. If none is free, the connection is closed.
            self.accepts_dropped += 1;
            return None;
        };
        self.gathered += 1;
        self.install(slot, Handle::Ordinary(fd));
        Some(slot)
    }

    fn on_readable(
        &mut self,
        token: Token,
        result: Result<(), doorbell_ring::Errno>,
        more: bool,
    ) -> Option<Completion> {
        if token.slot == WAKER {
            self.wake.clear();
            if !more {
                self.ring.poll_readable(token, self.wake.as_fd());
            }
            return None;
        }
        if token.slot == ALARM {
            if let Some(alarm) = &mut self.alarm {
                alarm.set_expired();
                if !more {
                    self.ring.poll_readable(token, alarm.fd());
                }
            }
            return None;
        }
        if let Some(socket) = datagrams::index_of(token) {
            return self.on_datagrams_readable(socket, result, more);
        }
        let listener = listener_of(token);
        let state = &mut self.listeners[listener.index()];
        if more && result.is_ok() {
            // On a shared listener, another process may have accepted the reported client; a count
            // of 1 causes a `poll(2)` before the next accept.
            state.taken = u32::from(state.is_shared);
            if !self.backlogged.contains(&listener) {
                self.backlogged.push_back(listener);
            }
            return None;
        }
        let errno = result.err().filter(|_| state.arm == Arm::Armed).map(errno_of);
        let errno = state.failed.take().or(errno);
        state.arm = Arm::Off;
        Some(Completion::AcceptEnded { listener, errno })
    }

    fn on_received(
        &mut self,
        token: Token,
        result: Result<doorbell_ring::Received, doorbell_ring::Errno>,
    ) -> Option<Completion> {
        let conn = conn_of(token);
        let live = self.sockets.get_mut(token.slot as usize).and_then(Option::as_mut);
        let goes_on = live.is_some_and(|socket| {
            socket.recv = false;
            !socket.cancelled
        });
        let received = match result {
            Ok(received) => match received.buf {
                Some(buf) => {
                    let len = u32::try_from(buf.len()).expect("a pool buffer is far below 4 GiB");
                    let drained = !received.more_queued && len < RECV_BUF_LEN;
                    Received::Data { chunk: Chunk { source: ChunkSource::Ring(buf), len }, drained }
                }
                None => Received::Eof,
            },
            Err(errno) => match errno_of(errno) {
                errno @ (Errno::NOBUFS | Errno::INTR | Errno::AGAIN) if goes_on => {
                    // When this receive is submitted, buffers are available again, because the
                    // worker recycles each chunk before it takes the next completion.
                    self.recv_bufs_starved += u64::from(errno == Errno::NOBUFS);
                    self.push_recv(conn);
                    return None;
                }
                Errno::NOBUFS | Errno::INTR | Errno::AGAIN => Received::Failed(Errno::CANCELED),
                errno => Received::Failed(errno),
            },
        };
        Some(Completion::Received { conn, received })
    }

    fn on_shut_down(&mut self, token: Token) -> Option<Completion> {
        let socket = self.sockets.get_mut(token.slot as usize)?.as_mut()?;
        match core::mem::replace(&mut socket.half_close, HalfClose::None) {
            HalfClose::Requested | HalfClose::None => None,
            HalfClose::Closing => match self.close(conn_of(token)) {
                Step::Done(()) => Some(Completion::Closed { conn: conn_of(token) }),
                Step::Pending => None,
            },
        }
    }

    fn on_closed(&mut self, token: Token) -> Option<Completion> {
        let socket = self.sockets.get_mut(token.slot as usize).and_then(Option::take);
        if let Some(Socket { handle: Handle::Ordinary(fd), .. }) = socket {
            // The direct descriptor is closed, and the connection continues on this ordinary
            // descriptor.
            return Some(Completion::Detached { conn: conn_of(token), result: Ok(fd) });
        }
        Some(Completion::Closed { conn: conn_of(token) })
    }

    /// Accepts by system call from the first readable listener. If an accept fails, accepting is
    /// cancelled, and [`Completion::AcceptEnded`] follows.
    #[inline]
    pub(super) fn accept_one(&mut self) -> Option<(ListenerIndex, SlotIndex)> {
        while self.accepts_left > 0 {
            let listener = *self.backlogged.front()?;
            let state = &mut self.listeners[listener.index()];
            let Some(fd) = state.fd.as_ref().filter(|_| state.arm == Arm::Armed) else {
                self.backlogged.pop_front();
                continue;
            };
            // For an accept that finds no client, the kernel allocates and frees a file and a
            // socket; `poll(2)` costs a fifth of that.
            if (1..=ASK_BEFORE_ACCEPTS).contains(&state.taken) && !sock::readable(fd) {
                self.backlogged.pop_front();
                continue;
            }
            match accept_with(fd, SocketFlags::CLOEXEC) {
                Ok(fd) => {
                    state.taken += 1;
                    self.accepts_left -= 1;
                    if let Some(slot) = self.admit_fd(fd) {
                        return Some((listener, slot));
                    }
                }
                Err(Errno::AGAIN) => {
                    self.backlogged.pop_front();
                }
                Err(errno) => self.fail_accept(listener, errno),
            }
        }
        None
    }

    #[cold]
    fn fail_accept(&mut self, listener: ListenerIndex, errno: Errno) {
        let state = &mut self.listeners[listener.index()];
        state.arm = Arm::Ending;
        state.failed = Some(errno);
        self.backlogged.pop_front();
        self.ring.cancel(Op::PollReadable, Token::new(u32::from(listener.0), 0));
    }

    /// Handles readiness signalled by a poll that stays armed. True if the connection waited for
    /// bytes.
    #[inline]
    pub(super) fn ready(&mut self, conn: ConnId, ready: Ready) -> bool {
        let Some(Some(socket)) = self.sockets.get_mut(conn.slot.index()) else {
            return false;
        };
        if socket.generation != conn.generation || socket.poll != Poll::Armed {
            return false;
        }
        socket.readable = true;
        socket.hung_up |= ready.hung_up;
        core::mem::take(&mut socket.recv)
    }

    /// Handles an event of a poll: readiness, or the end of the poll.
    fn on_ready(
        &mut self,
        token: Token,
        result: Result<Ready, doorbell_ring::Errno>,
        more: bool,
    ) -> Option<Completion> {
        let conn = conn_of(token);
        // A slot is not reused before the last event of its poll; this check guards against a
        // kernel bug.
        let cell = self.sockets.get_mut(token.slot as usize)?;
        let socket = cell.as_mut().filter(|socket| socket.generation == conn.generation)?;
        if !more && socket.poll == Poll::Ending {
            *cell = None;
            self.free.give_back(conn.slot);
            return Some(Completion::Closed { conn });
        }
        if !more && socket.poll == Poll::Leaving {
            let result = self.take_away(conn.slot);
            return Some(Completion::Detached { conn, result });
        }
        if !more {
            socket.poll = Poll::Off;
        }
        socket.readable = true;
        socket.hung_up |= result.is_ok_and(|ready| ready.hung_up);
        if !socket.recv || matches!(socket.poll, Poll::Ending | Poll::Leaving) {
            return None;
        }
        if let Err(errno) = result {
            socket.recv = false;
            return Some(Completion::Received { conn, received: Received::Failed(errno_of(errno)) });
        }
        if let Some(received) = socket.try_recv(&mut self.scratch) {
            socket.recv = false;
            return Some(Completion::Received { conn, received });
        }
        self.poll_for_bytes(conn);
        None
    }
}
