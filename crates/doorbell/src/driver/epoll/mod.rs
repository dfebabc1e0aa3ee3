//! The epoll driver: emulates completion by readiness, tuned for short connections.
//!
//! A new connection is read by a plain `recv(2)` before it is added to epoll, so a probe on a
//! deferred-accept listener needs only accept4, recv, send(`MSG_MORE`) and close. A connection is
//! added once, edge-triggered for both directions, and never modified. The driver stores the
//! readiness of each socket, so it makes no call that would only return `EAGAIN`. For the same
//! reason, the number of accepts after a report of a listener is limited to the number of
//! connections that recent reports yielded.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

mod datagrams;
mod listener;
mod socket;
mod source;

use self::listener::Listener;
use self::socket::Socket;
use self::source::Source;
use super::alarm::Alarm;
use super::datagrams::{Datagrams, DriverSockets};
use super::slots::FreeSlots;
use super::sock::{self, SCRATCH_LEN};
use super::{
    AcceptMode, Chunk, ChunkSource, Completion, Datagram, Driver, DriverCounters, DriverKind, Expect, Fault,
    Quick, Received, Replies, SendBuf, Sent, SentBatch, Step, WakeSource,
};
use crate::id::{ConnId, DatagramIndex, ListenerIndex, SlotIndex};
use crate::time::Time;

/// Maximum number of events that one wait returns.
const EVENTS_MAX: usize = 256;

/// The epoll driver. The [module](self) documents it.
pub struct Epoll {
    epoll: OwnedFd,
    wake: WakeSource,
    /// `None` if no descriptor was available for the timer.
    alarm: Option<Alarm>,
    listeners: Vec<Listener>,
    datagrams: Datagrams,
    /// The datagram sockets that epoll watches.
    datagrams_armed: Vec<DatagramIndex>,
    sockets: Vec<Option<Socket>>,
    /// Pending sends by slot. `Socket` has no such field, because most connections never wait.
    sends: Vec<Option<PendingSend>>,
    free: FreeSlots,
    events: Vec<Event>,
    event_next: usize,
    /// The listener whose backlog is being accepted, and the number of connections accepted since
    /// epoll reported the listener.
    accepting: Option<(ListenerIndex, u32)>,
    /// Completions produced by a call instead of an event. At most two per live connection and one
    /// per socket that listens or receives datagrams.
    made: VecDeque<Completion>,
    scratch: Box<[u8]>,
    /// Event flags of listeners and datagram sockets. Level-triggered: clients left in the backlog
    /// are reported again.
    listener_flags: EventFlags,
    counters: DriverCounters,
}

#[derive(Debug)]
struct PendingSend {
    conn: ConnId,
    buf: SendBuf,
    more: bool,
}

impl Epoll {
    /// Creates a driver for `slots_max` connections of `sockets` (non-blocking, listening).
    ///
    /// # Errors
    /// The failed call and its errno, usually `EMFILE`.
    pub fn new(sockets: impl Into<DriverSockets>, slots_max: u32, wake: WakeSource) -> Result<Self, Fault> {
        Self::in_place_of(sockets.into(), DriverCounters::default(), slots_max, wake)
    }

    /// Creates a driver with the open sockets and the counters of the driver that it replaces.
    ///
    /// # Errors
    /// The failed call and its errno, usually `EMFILE`.
    pub fn in_place_of(
        sockets: DriverSockets,
        counters: DriverCounters,
        slots_max: u32,
        wake: WakeSource,
    ) -> Result<Self, Fault> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| fault("epoll_create1", errno))?;
        epoll::add(&epoll, wake.as_fd(), Source::Waker.pack(), EventFlags::IN)
            .map_err(|errno| fault("epoll_ctl", errno))?;
        let alarm = Alarm::new().ok().filter(|alarm| {
            let flags = EventFlags::IN | EventFlags::ET;
            epoll::add(&epoll, alarm.fd(), Source::Alarm.pack(), flags).is_ok()
        });
        Ok(Self {
            epoll,
            wake,
            alarm,
            listeners: sockets.listeners.into_iter().map(Listener::new).collect(),
            datagrams: Datagrams::new(sockets.datagrams),
            datagrams_armed: Vec::new(),
            sockets: Vec::new(),
            sends: Vec::new(),
            free: FreeSlots::new(slots_max),
            events: Vec::with_capacity(EVENTS_MAX),
            event_next: 0,
            accepting: None,
            made: VecDeque::new(),
            scratch: vec![0; SCRATCH_LEN].into_boxed_slice(),
            // `EXCLUSIVE`: the kernel wakes only one worker of a shared listener.
            listener_flags: EventFlags::IN | EventFlags::EXCLUSIVE,
            counters,
        })
    }

    /// Makes listeners report every client, without `EXCLUSIVE`. This is needed after a ring has
    /// failed: until the ring is closed, its pending accept may consume the only wake-up.
    #[must_use]
    pub fn hearing_all(mut self) -> Self {
        self.listener_flags = EventFlags::IN;
        self
    }

    #[inline(always)]
    fn socket(&mut self, conn: ConnId) -> &mut Socket {
        self.sockets[conn.slot.index()].as_mut().expect("I-3: an operation names a live slot")
    }

    /// Adds a waiting connection to epoll. The kernel reports existing readiness at once.
    fn register(&mut self, conn: ConnId) -> Result<(), Errno> {
        let socket = self.sockets[conn.slot.index()].as_mut().expect("I-3: an operation names a live slot");
        if socket.registered {
            return Ok(());
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &socket.fd, Source::Conn(conn.slot).pack(), flags)?;
        socket.registered = true;
        Ok(())
    }

    /// Accepts from the listener whose backlog is being emptied. If an accept fails,
    /// [`Completion::AcceptEnded`] is added to `made`.
    #[inline(always)]
    fn accept_one(&mut self) -> Option<(ListenerIndex, SlotIndex)> {
        let (listener, taken) = self.accepting?;
        let state = &mut self.listeners[listener.index()];
        let Some(fd) = state.fd.as_ref().filter(|_| state.armed) else {
            self.accepting = None;
            return None;
        };
        if taken == state.expected {
            state.take_more();
            self.accepting = None;
            return None;
        }
        match accept_with(fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => {
                self.accepting = Some((listener, taken + 1));
                let Some(slot) = self.free.take() else {
                    // The worker disarms accept before all slots are used. If a client is accepted
                    // without a free slot anyway, its connection is closed.
                    self.counters.accepts_dropped += 1;
                    return self.end_accept(listener, Errno::NFILE);
                };
                self.install(slot, fd);
                Some((listener, slot))
            }
            Err(Errno::AGAIN) => {
                state.take_fewer(taken);
                self.accepting = None;
                None
            }
            Err(errno) => self.end_accept(listener, errno),
        }
    }

    #[cold]
    fn end_accept(&mut self, listener: ListenerIndex, errno: Errno) -> Option<(ListenerIndex, SlotIndex)> {
        self.accepting = None;
        self.unwatch_listener(listener);
        self.made.push_back(Completion::AcceptEnded { listener, errno: Some(errno) });
        None
    }

    #[inline(always)]
    fn install(&mut self, slot: SlotIndex, fd: OwnedFd) {
        let socket = Socket::new(fd);
        if slot.index() == self.sockets.len() {
            self.sockets.push(Some(socket));
        } else {
            debug_assert!(self.sockets[slot.index()].is_none(), "D-1: a slot is given once");
            self.sockets[slot.index()] = Some(socket);
        }
    }

    fn unwatch_listener(&mut self, listener: ListenerIndex) {
        let state = &mut self.listeners[listener.index()];
        if let (true, Some(fd)) = (state.armed, &state.fd) {
            // Deleting cannot fail, because an armed listener is registered with epoll.
            let _not_there = epoll::delete(&self.epoll, fd);
        }
        state.armed = false;
    }

    /// Returns the completion caused by an event; a second completion is added to `made`.
    fn on_ready(&mut self, slot: SlotIndex, flags: EventFlags) -> Option<Completion> {
        // The connection of this event may already be closed and its slot reused. The readiness
        // recorded here is then wrong; the next system call on the socket corrects it.
        let socket = self.sockets.get_mut(slot.index())?.as_mut()?;
        socket.note(flags);
        if socket.sending
            && let pending = &mut self.sends[slot.index()]
            && let Some(send) = pending.as_ref()
            && let Some(result) = socket.try_send(send.buf.remaining(), send.more)
            && let Some(PendingSend { conn, buf, .. }) = pending.take()
        {
            socket.sending = false;
            self.made.push_back(Completion::Sent { conn, sent: Sent { result, buf } });
        }
        if let Some(conn) = socket.recv
            && let Some(received) = socket.try_recv(&mut self.scratch)
        {
            socket.recv = None;
            return Some(Completion::Received { conn, received });
        }
        self.made.pop_front()
    }
}

impl Driver for Epoll {
    fn kind(&self) -> DriverKind {
        DriverKind::Epoll
    }

    fn arm_accept(&mut self, listener: ListenerIndex) {
        let state = &mut self.listeners[listener.index()];
        let Some(fd) = state.fd.as_ref().filter(|_| !state.armed) else { return };
        match epoll::add(&self.epoll, fd, Source::Listener(listener).pack(), self.listener_flags) {
            Ok(()) => state.armed = true,
            Err(errno) => {
                self.made.push_back(Completion::AcceptEnded { listener, errno: Some(errno) });
            }
        }
    }

    fn disarm_accept(&mut self, listener: ListenerIndex) {
        if self.listeners[listener.index()].armed {
            self.unwatch_listener(listener);
            self.made.push_back(Completion::AcceptEnded { listener, errno: None });
        }
    }

    fn close_listener(&mut self, listener: ListenerIndex) {
        debug_assert!(
            !self.listeners[listener.index()].armed,
            "a listener is closed only while accept is not armed"
        );
        self.listeners[listener.index()].fd = None;
    }

    fn is_listening(&self, listener: ListenerIndex) -> bool {
        self.listeners[listener.index()].fd.is_some()
    }

    fn accept_backlogged(&mut self, listener: ListenerIndex) -> bool {
        self.listeners[listener.index()].fd.as_ref().is_some_and(sock::readable)
    }

    fn downgrade_accept(&mut self, _listener: ListenerIndex) -> Option<AcceptMode> {
        None
    }

    #[inline(always)]
    fn recv(&mut self, conn: ConnId, _expect: Expect) -> Step<Received> {
        let socket = self.sockets[conn.slot.index()].as_mut().expect("I-3: an operation names a live slot");
        debug_assert!(socket.recv.is_none(), "I-2: one recv in flight");
        if let Some(received) = socket.try_recv(&mut self.scratch) {
            return Step::Done(received);
        }
        socket.recv = Some(conn);
        if socket.registered {
            return Step::Pending;
        }
        match self.register(conn) {
            Ok(()) => Step::Pending,
            Err(errno) => {
                self.socket(conn).recv = None;
                Step::Done(Received::Failed(errno))
            }
        }
    }

    fn send(&mut self, conn: ConnId, buf: SendBuf, more: bool) -> Step<Sent> {
        let socket = self.socket(conn);
        debug_assert!(!socket.sending, "I-2: one send in flight");
        if let Some(result) = socket.try_send(buf.remaining(), more) {
            return Step::Done(Sent { result, buf });
        }
        if let Err(errno) = self.register(conn) {
            return Step::Done(Sent { result: Err(errno), buf });
        }
        self.socket(conn).sending = true;
        if self.sends.len() <= conn.slot.index() {
            self.sends.resize_with(conn.slot.index() + 1, || None);
        }
        self.sends[conn.slot.index()] = Some(PendingSend { conn, buf, more });
        Step::Pending
    }

    #[inline(always)]
    fn send_now(&mut self, conn: ConnId, bytes: &[u8], more: bool) -> Option<Result<usize, Errno>> {
        self.socket(conn).try_send(bytes, more)
    }

    fn shutdown_write(&mut self, conn: ConnId) {
        sock::shutdown_write(self.socket(conn).fd.as_fd());
    }

    fn cancel(&mut self, conn: ConnId) {
        let socket = self.socket(conn);
        let recv = socket.recv.take();
        let sending = core::mem::replace(&mut socket.sending, false);
        if let Some(conn) = recv {
            self.made.push_back(Completion::Received { conn, received: Received::Failed(Errno::CANCELED) });
        }
        if sending && let Some(PendingSend { conn, buf, .. }) = self.sends[conn.slot.index()].take() {
            self.made.push_back(Completion::Sent { conn, sent: Sent { result: Err(Errno::CANCELED), buf } });
        }
    }

    fn has_input(&self, conn: ConnId) -> Option<bool> {
        self.sockets[conn.slot.index()].as_ref().map(|socket| sock::readable(&socket.fd))
    }

    fn unsent(&self, conn: ConnId) -> Option<u32> {
        sock::unsent(self.sockets[conn.slot.index()].as_ref()?.fd.as_fd())
    }

    fn reset_on_close(&mut self, conn: ConnId) {
        sock::reset_on_close(self.socket(conn).fd.as_fd());
    }

    #[inline(always)]
    fn close(&mut self, conn: ConnId) -> Step<()> {
        let socket = self.sockets[conn.slot.index()].take().expect("I-3: a close names a live slot");
        debug_assert!(socket.recv.is_none() && !socket.sending, "D-6: nothing is in flight at a close");
        // Closing the only descriptor of a socket also removes it from epoll (epoll(7)).
        doorbell_ring::close(socket.fd);
        self.free.give_back(conn.slot);
        Step::Done(())
    }

    fn detach(&mut self, conn: ConnId) -> Step<Result<OwnedFd, Errno>> {
        let socket = self.sockets[conn.slot.index()].take().expect("I-3: a detach names a live slot");
        debug_assert!(socket.recv.is_none() && !socket.sending, "D-11: nothing is in flight at a detach");
        if socket.registered {
            // The descriptor is open and registered with epoll, so this cannot fail.
            let _there = epoll::delete(&self.epoll, &socket.fd);
        }
        self.free.give_back(conn.slot);
        Step::Done(Ok(socket.fd))
    }

    fn release(&mut self, slot: SlotIndex) -> Option<OwnedFd> {
        let socket = self.sockets[slot.index()].take()?;
        debug_assert!(!socket.registered && socket.recv.is_none() && !socket.sending, "D-20: not used yet");
        self.free.give_back(slot);
        Some(socket.fd)
    }

    fn adopt(&mut self, fd: OwnedFd) -> Option<SlotIndex> {
        let Some(slot) = self.free.take() else {
            self.counters.accepts_dropped += 1;
            return None;
        };
        // This cannot fail on an open descriptor.
        let _done = sock::set_non_blocking(fd.as_fd(), true);
        self.install(slot, fd);
        Some(slot)
    }

    fn peer_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        let socket = self.sockets[conn.slot.index()].as_ref()?;
        sock::peer_addr(socket.fd.as_fd())
    }

    #[inline(always)]
    fn received(&self, chunk: &Chunk) -> &[u8] {
        &self.scratch[..chunk.len()]
    }

    #[inline(always)]
    fn recycle(&mut self, chunk: Chunk) {
        debug_assert!(
            matches!(chunk.source, ChunkSource::Scratch(_)),
            "D-8: a chunk is recycled by the driver that lent it"
        );
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Fault> {
        debug_assert!(
            self.event_next == self.events.len(),
            "a turn takes every completion before it waits again"
        );
        let timeout =
            if self.made.is_empty() && self.accepting.is_none() { timeout } else { Some(Duration::ZERO) };
        self.events.clear();
        self.event_next = 0;
        self.counters.enters += 1;
        let timespec = timeout.map(sock::timespec);
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timespec.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(fault("epoll_wait", errno)),
        }
    }

    fn wake_by(&mut self, now: Time, due: Time) -> bool {
        self.alarm.as_mut().is_some_and(|alarm| alarm.set(now, due))
    }

    #[inline(always)]
    fn next_quick(&mut self) -> Option<Quick> {
        loop {
            if !self.made.is_empty() {
                return None;
            }
            if self.accepting.is_some() {
                if let Some((listener, slot)) = self.accept_one() {
                    return Some(Quick::Accepted(listener, slot));
                }
                continue;
            }
            let event = *self.events.get(self.event_next)?;
            let Source::Conn(slot) = Source::unpack(event.data) else { return None };
            let Some(Some(socket)) = self.sockets.get_mut(slot.index()) else { return None };
            if socket.sending {
                return None;
            }
            self.event_next += 1;
            socket.note(event.flags);
            if let Some(conn) = socket.recv.take_if(|_| socket.readable) {
                return Some(Quick::Ready(conn));
            }
        }
    }

    fn next(&mut self) -> Option<Completion> {
        loop {
            if let Some(completion) = self.made.pop_front() {
                return Some(completion);
            }
            if let Some((listener, slot)) = self.accept_one() {
                return Some(Completion::Accepted { listener, slot });
            }
            if !self.made.is_empty() {
                continue;
            }
            let event = *self.events.get(self.event_next)?;
            self.event_next += 1;
            match Source::unpack(event.data) {
                Source::Alarm => self.alarm.iter_mut().for_each(Alarm::set_expired),
                Source::Conn(slot) => {
                    if let Some(completion) = self.on_ready(slot, event.flags) {
                        return Some(completion);
                    }
                }
                Source::Datagrams(socket) => {
                    if let Some(completion) = self.recv_datagrams(socket) {
                        return Some(completion);
                    }
                }
                Source::Listener(listener) => self.accepting = Some((listener, 0)),
                Source::Waker => self.wake.clear(),
            }
        }
    }

    fn counters(&self) -> DriverCounters {
        self.counters
    }

    fn arm_datagrams(&mut self, socket: DatagramIndex) {
        self.watch_datagrams(socket);
    }

    fn disarm_datagrams(&mut self, socket: DatagramIndex) {
        self.unwatch_datagrams(socket, None);
    }

    fn close_datagrams(&mut self, socket: DatagramIndex, is_last: bool) -> u64 {
        debug_assert!(!self.datagrams_armed.contains(&socket), "D-19: closed only while not armed");
        self.datagrams.close(socket, is_last)
    }

    fn is_receiving(&self, socket: DatagramIndex) -> bool {
        self.datagrams.get(socket).is_some()
    }

    fn datagrams_queued(&mut self, socket: DatagramIndex) -> bool {
        self.datagrams.is_queued(socket)
    }

    fn downgrade_datagrams(&mut self, _socket: DatagramIndex) -> Option<AcceptMode> {
        None
    }

    fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        self.datagrams.datagram(index)
    }

    fn send_datagrams(&mut self, socket: DatagramIndex, replies: &mut Replies) -> SentBatch {
        self.datagrams.send(socket, replies)
    }

    fn end_datagrams(&mut self) {
        self.datagrams.end();
    }
}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll")
            .field("listeners", &self.listeners)
            .field("events", &self.events.len())
            .field("accepting", &self.accepting)
            .field("made", &self.made)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

const fn fault(call: &'static str, errno: Errno) -> Fault {
    Fault { call, errno }
}
