//! Datagram sockets of the io_uring driver: multishot receives into a pool of buffers, or a poll
//! and system calls where the kernel has no such receive.
//!
//! Buffers return to the kernel in the next wait. So the number of buffers limits the datagrams
//! between two waits (D-16); further ones stay in the queue of the socket. Replies are sent by
//! system call: one call for a batch costs less than an operation per reply.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;

use doorbell_ring::{Errno as RingErrno, Op, RecvBuf, Ring, Token};
use rustix::io::Errno;

use super::super::datagrams::{Datagrams, size_max};
use super::super::{AcceptMode, Completion, DATAGRAMS_MAX, Datagram, DatagramSocket, Replies, SentBatch};
use super::{Arm, Uring, errno_of};
use crate::id::DatagramIndex;

/// Slot number of the first datagram socket in tokens. Slot numbers of connections are far smaller.
const TOKENS_FROM: u32 = 0xFFFE_0000;

/// Maximum number of buffers for datagrams. If they would need more than [`POOL_BYTES_MAX`], there
/// are as many as fit, but at least [`BUFS_MIN`].
const BUFS_MAX: u16 = 256;
const BUFS_MIN: u16 = 16;
const POOL_BYTES_MAX: usize = 1 << 20;

/// The datagram sockets of the driver, and the batch that is lent.
#[derive(Debug)]
pub(super) struct RingDatagrams {
    io: Datagrams,
    states: Vec<State>,
    /// The socket and the buffers of the lent batch of a multishot receive.
    lent: (DatagramIndex, Vec<RecvBuf>),
    /// Buffers of earlier batches, which the next wait returns to the kernel.
    spent: Vec<RecvBuf>,
    /// Sockets whose receive has ended and is pushed again by the next wait.
    again: Vec<DatagramIndex>,
    /// Readable sockets in [`AcceptMode::Readiness`].
    readable: VecDeque<DatagramIndex>,
    /// Readable sockets from which a full batch was received since the last wait.
    more: Vec<DatagramIndex>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    mode: AcceptMode,
    arm: Arm,
    /// Error of a system call, until the ring confirms the end of the poll.
    failed: Option<Errno>,
}

/// The number of buffers for these sockets.
pub(super) fn bufs_for(sockets: &[Option<DatagramSocket>]) -> u16 {
    if sockets.is_empty() {
        return 0;
    }
    let bufs = POOL_BYTES_MAX / size_max(sockets).max(1);
    u16::try_from(bufs).unwrap_or(BUFS_MAX).clamp(BUFS_MIN, BUFS_MAX)
}

/// The length of the longest datagram that these sockets receive.
pub(super) fn len_for(sockets: &[Option<DatagramSocket>]) -> u32 {
    u32::try_from(size_max(sockets)).expect("a datagram has less than 64 KiB")
}

const fn token_of(socket: DatagramIndex) -> Token {
    Token::new(TOKENS_FROM + socket.0 as u32, 0)
}

/// The datagram socket of a token.
pub(super) fn index_of(token: Token) -> Option<DatagramIndex> {
    let index = token.slot.checked_sub(TOKENS_FROM)?;
    u16::try_from(index).ok().map(DatagramIndex)
}

impl RingDatagrams {
    /// `mode` is the initial mode. [`AcceptMode::SingleShot`] means multishot, because there is no
    /// single-shot receive.
    pub(super) fn new(sockets: Vec<Option<DatagramSocket>>, mode: AcceptMode) -> Self {
        let state = State { mode, arm: Arm::Off, failed: None };
        let bufs = usize::from(bufs_for(&sockets));
        Self {
            states: vec![state; sockets.len()],
            lent: (DatagramIndex(0), Vec::with_capacity(bufs.min(DATAGRAMS_MAX))),
            spent: Vec::with_capacity(bufs),
            again: Vec::new(),
            readable: VecDeque::new(),
            more: Vec::new(),
            io: Datagrams::new(sockets),
        }
    }

    pub(super) fn into_sockets(self) -> Vec<Option<DatagramSocket>> {
        self.io.into_sockets()
    }

    pub(super) fn is_open(&self, socket: DatagramIndex) -> bool {
        self.io.get(socket).is_some()
    }

    pub(super) fn is_queued(&self, socket: DatagramIndex) -> bool {
        self.io.is_queued(socket)
    }

    pub(super) fn downgrade(&mut self, socket: DatagramIndex) -> Option<AcceptMode> {
        let state = &mut self.states[socket.index()];
        if state.mode == AcceptMode::Readiness {
            return None;
        }
        state.mode = AcceptMode::Readiness;
        Some(state.mode)
    }

    #[inline]
    pub(super) fn datagram<'a>(&'a self, ring: &'a Ring, index: usize) -> Option<Datagram<'a>> {
        let (socket, bufs) = &self.lent;
        match bufs.get(index) {
            Some(buf) => Some(self.io.cut(*socket, ring.datagram(buf)?)),
            None if bufs.is_empty() => self.io.datagram(index),
            None => None,
        }
    }

    pub(super) fn send(&mut self, socket: DatagramIndex, replies: &mut Replies) -> SentBatch {
        self.io.send(socket, replies)
    }

    pub(super) fn end(&mut self) {
        self.spent.append(&mut self.lent.1);
        self.io.end();
    }

    pub(super) fn close(&mut self, socket: DatagramIndex, is_last: bool) -> u64 {
        debug_assert_eq!(self.states[socket.index()].arm, Arm::Off, "D-19: closed only while not armed");
        self.io.close(socket, is_last)
    }
}

impl Uring {
    pub(super) fn arm_socket(&mut self, socket: DatagramIndex) {
        if self.datagrams.states[socket.index()].arm == Arm::Off && self.datagrams.is_open(socket) {
            self.datagrams.states[socket.index()].arm = Arm::Armed;
            self.push_datagrams(socket);
        }
    }

    pub(super) fn disarm_socket(&mut self, socket: DatagramIndex) {
        let state = &mut self.datagrams.states[socket.index()];
        if state.arm != Arm::Armed {
            return;
        }
        if let Some(at) = self.datagrams.again.iter().position(|again| *again == socket) {
            // No operation is in the ring.
            self.datagrams.again.swap_remove(at);
            state.arm = Arm::Off;
            self.made.push_back(Completion::DatagramsEnded { socket, errno: None });
            return;
        }
        state.arm = Arm::Ending;
        self.cancel_datagrams(socket);
    }

    fn cancel_datagrams(&mut self, socket: DatagramIndex) {
        let op = match self.datagrams.states[socket.index()].mode {
            AcceptMode::Readiness => Op::PollReadable,
            AcceptMode::Multishot | AcceptMode::SingleShot => Op::RecvDatagrams,
        };
        self.ring.cancel(op, token_of(socket));
    }

    fn push_datagrams(&mut self, socket: DatagramIndex) {
        let Some(open) = self.datagrams.io.get(socket) else { return };
        match self.datagrams.states[socket.index()].mode {
            AcceptMode::Readiness => self.ring.poll_readable(token_of(socket), open.fd.as_fd()),
            AcceptMode::Multishot | AcceptMode::SingleShot => {
                self.ring.recv_datagrams(token_of(socket), open.fd.as_fd());
            }
        }
    }

    /// Called before each wait: returns buffers, and then re-arms receives that have ended. True if
    /// datagrams are available without a wait.
    #[inline]
    pub(super) fn begin_datagrams(&mut self) -> bool {
        if self.datagrams.states.is_empty() {
            return false;
        }
        for buf in self.datagrams.spent.drain(..) {
            self.ring.recycle_datagram(buf);
        }
        while let Some(socket) = self.datagrams.again.pop() {
            self.push_datagrams(socket);
        }
        let Self { datagrams: RingDatagrams { readable, more, .. }, .. } = self;
        readable.extend(more.drain(..));
        !readable.is_empty()
    }

    /// Handles a datagram, and takes the following ones of the same socket.
    pub(super) fn on_datagram(
        &mut self,
        token: Token,
        result: Result<RecvBuf, RingErrno>,
        more: bool,
    ) -> Option<Completion> {
        let socket = index_of(token).expect("the driver put the index of a socket there");
        let first = match result {
            Ok(first) => first,
            Err(errno) => return self.datagrams_failed(socket, errno_of(errno)),
        };
        let (lent_to, bufs) = &mut self.datagrams.lent;
        debug_assert!(bufs.is_empty(), "D-17: one batch is lent at a time");
        *lent_to = socket;
        bufs.push(first);
        while more
            && bufs.len() < DATAGRAMS_MAX
            && let Some(buf) = self.ring.next_datagram(token)
        {
            bufs.push(buf);
        }
        let len = u16::try_from(bufs.len()).expect("a batch is short");
        if !more {
            self.rearm_datagrams(socket);
        }
        Some(Completion::Datagrams { socket, len })
    }

    /// Re-arms a receive that ended with a datagram, or reports the end if the socket is being
    /// disarmed.
    fn rearm_datagrams(&mut self, socket: DatagramIndex) {
        let state = &mut self.datagrams.states[socket.index()];
        if state.arm == Arm::Armed {
            self.datagrams.again.push(socket);
        } else {
            state.arm = Arm::Off;
            self.made.push_back(Completion::DatagramsEnded { socket, errno: None });
        }
    }

    fn datagrams_failed(&mut self, socket: DatagramIndex, errno: Errno) -> Option<Completion> {
        let state = &mut self.datagrams.states[socket.index()];
        let is_armed = state.arm == Arm::Armed;
        if is_armed && matches!(errno, Errno::NOBUFS | Errno::INTR | Errno::AGAIN) {
            self.recv_bufs_starved += u64::from(errno == Errno::NOBUFS);
            self.datagrams.again.push(socket);
            return None;
        }
        let errno = state.failed.take().or_else(|| Some(errno).filter(|_| is_armed));
        state.arm = Arm::Off;
        Some(Completion::DatagramsEnded { socket, errno })
    }

    /// Handles an event of the poll of a socket in [`AcceptMode::Readiness`].
    pub(super) fn on_datagrams_readable(
        &mut self,
        socket: DatagramIndex,
        result: Result<(), RingErrno>,
        more: bool,
    ) -> Option<Completion> {
        if more && result.is_ok() {
            let RingDatagrams { readable, more, .. } = &mut self.datagrams;
            if !readable.contains(&socket) && !more.contains(&socket) {
                readable.push_back(socket);
            }
            return self.recv_polled_datagrams();
        }
        match result {
            Ok(()) => self.datagrams_failed(socket, Errno::AGAIN),
            Err(errno) => self.datagrams_failed(socket, errno_of(errno)),
        }
    }

    /// Receives a batch from a readable socket. After a full batch, the socket is read again only
    /// after the next wait.
    #[inline]
    pub(super) fn recv_polled_datagrams(&mut self) -> Option<Completion> {
        while let Some(socket) = self.datagrams.readable.pop_front() {
            if self.datagrams.states[socket.index()].arm != Arm::Armed {
                continue;
            }
            match self.datagrams.io.recv(socket) {
                None => {}
                Some(Ok((len, is_full))) => {
                    if is_full {
                        // The poll reports only datagrams that arrive later.
                        self.datagrams.more.push(socket);
                    }
                    return Some(Completion::Datagrams { socket, len });
                }
                Some(Err(errno)) => {
                    let state = &mut self.datagrams.states[socket.index()];
                    state.arm = Arm::Ending;
                    state.failed = Some(errno);
                    self.cancel_datagrams(socket);
                }
            }
        }
        None
    }
}
