//! The io_uring driver: multishot accept, one multishot poll per waiting connection, and system
//! calls where they are cheaper.
//!
//! With ordinary descriptors, an operation that should complete at once (the first receive after a
//! deferred accept, a reply into an empty socket, a close) is a plain system call. Only an
//! operation that must wait goes to the ring: a multishot poll, armed once for all requests of a
//! connection, signals input. With direct descriptors no system call is possible, so every
//! operation goes to the ring, and receives use its buffer pool.

mod datagrams;
mod detach;
mod events;
mod options;
mod socket;

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use doorbell_ring::{Op, Ring, Setup, SetupError, SetupReport, Token};
use rustix::io::Errno;

use self::datagrams::RingDatagrams;
pub use self::options::UringOptions;
use self::socket::{HalfClose, Handle, Installed, Poll, Socket};
use super::alarm::Alarm;
use super::datagrams::DriverSockets;
use super::slots::FreeSlots;
use super::sock::{self, SCRATCH_LEN};
use super::{
    AcceptMode, Chunk, ChunkSource, Completion, Datagram, Driver, DriverCounters, DriverKind, Expect, Fault,
    Quick, Received, Replies, SendBuf, Sent, SentBatch, Step, WakeSource,
};
use crate::id::{ConnId, DatagramIndex, Generation, ListenerIndex, SlotIndex};
use crate::time::Time;
use crate::tuning::{Receiving, Tuning};

/// Number of buffers of the receive pool. The worker recycles each chunk before it takes the next
/// completion, so the pool limits the receives that complete between two waits, not the
/// connections.
const RECV_BUFS: u16 = 256;

/// Length of a pool buffer. Probes are below 1 KiB; a request longer than a buffer takes several
/// receives.
const RECV_BUF_LEN: u32 = 4096;

/// Slot number that marks the waker in tokens.
const WAKER: u32 = u32::MAX;

/// Slot number that marks the alarm in tokens.
const ALARM: u32 = u32::MAX - 1;

/// Number of completions after which a gathering wait ([`Tuning::wait_min`]) ends.
const GATHER_MAX: u32 = 64;

/// Maximum number of connections accepted by system call before other events of the turn are
/// handled.
const ACCEPTS_A_TURN_MAX: u32 = 256;

/// The io_uring driver. The [module](self) documents it.
#[derive(Debug)]
pub struct Uring {
    // Dropped first, which cancels all operations in flight, so that closing a descriptor below
    // closes the connection.
    ring: Ring,
    direct: bool,
    tuning: Tuning,
    listeners: Vec<Listener>,
    datagrams: RingDatagrams,
    sockets: Vec<Option<Socket>>,
    free: FreeSlots,
    wake: WakeSource,
    /// `None` if no descriptor was available for the timer.
    alarm: Option<Alarm>,
    /// Completions produced by a call instead of an event. At most one per listener, one per
    /// datagram socket and one per live connection.
    made: VecDeque<Completion>,
    /// Listeners in [`AcceptMode::Readiness`] whose backlog may contain clients, without
    /// duplicates. The poll reports a backlog only once, so a listener stays here until its backlog
    /// is found empty.
    backlogged: VecDeque<ListenerIndex>,
    /// Connections accepted since the last wait.
    gathered: u32,
    /// Connections that may still be accepted by system call in this turn.
    accepts_left: u32,
    scratch: Box<[u8]>,
    accepts_dropped: u64,
    recv_bufs_starved: u64,
}

#[derive(Debug)]
struct Listener {
    fd: Option<OwnedFd>,
    mode: AcceptMode,
    arm: Arm,
    /// Whether other workers or processes accept from the same socket (D-13).
    is_shared: bool,
    /// For [`AcceptMode::Readiness`]: number of connections accepted since the last report of the
    /// poll. For a shared listener the number starts at one, so that `poll(2)` precedes the first
    /// accept: another process may have accepted the reported client.
    taken: u32,
    /// Error of a system call that ended accepting, until the ring confirms the end.
    failed: Option<Errno>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Armed,
    /// Cancelled; the operation has not ended yet.
    Ending,
    Off,
}

impl Uring {
    /// Creates a driver for `sockets` (non-blocking, listening) with slots for `slots_max`
    /// connections.
    ///
    /// # Errors
    /// The step of the ring's set-up that failed, with its likely cause. The sockets are returned.
    pub fn new(
        sockets: impl Into<DriverSockets>,
        slots_max: u32,
        wake: WakeSource,
        options: &UringOptions,
    ) -> Result<Self, (SetupError, DriverSockets)> {
        let sockets = sockets.into();
        // Only an accept by the ring creates a direct descriptor. A shared listener is polled
        // instead.
        let direct = options.direct && !options.shared.contains(&true);
        let setup = Setup {
            sq_entries: options.sq_entries,
            cq_entries: slots_max.saturating_mul(2).saturating_add(1024).min(CQ_ENTRIES_MAX),
            slots: slots_max,
            fixed_files: if direct { slots_max } else { 0 },
            recv_bufs: RECV_BUFS,
            recv_buf_len: RECV_BUF_LEN,
            datagram_bufs: datagrams::bufs_for(&sockets.datagrams),
            datagram_len: datagrams::len_for(&sockets.datagrams),
            levers: options.tuning.levers(),
            ..Setup::default()
        };
        let mut ring = match Ring::open(&setup) {
            Ok(ring) => ring,
            Err(error) => return Err((error, sockets)),
        };
        let DriverSockets { listeners, datagrams } = sockets;
        ring.poll_readable(Token::new(WAKER, 0), wake.as_fd());
        let alarm = Alarm::new().ok();
        if let Some(alarm) = &alarm {
            ring.poll_readable(Token::new(ALARM, 0), alarm.fd());
        }
        let listener = |(index, fd)| {
            let is_shared = options.shared.get(index).copied().unwrap_or(false);
            // The kernel gives each client to one of the pending accepts. If the accepts stay
            // armed, the kernel always chooses the first one, even if the thread of its ring is
            // busy. A poll is reported to all rings, and the first idle thread accepts.
            let mode = if is_shared { AcceptMode::Readiness } else { options.accept_mode };
            Listener { fd, mode, arm: Arm::Off, is_shared, taken: 0, failed: None }
        };
        // Without a fixed-file table, whose size is limited by `RLIMIT_NOFILE`, the ring accepts
        // ordinary descriptors.
        let direct = direct && ring.report().fixed_files > 0;
        Ok(Self {
            ring,
            direct,
            tuning: options.tuning.bounded(),
            listeners: listeners.into_iter().enumerate().map(listener).collect(),
            datagrams: RingDatagrams::new(datagrams, options.accept_mode),
            sockets: Vec::new(),
            free: FreeSlots::new(slots_max),
            wake,
            alarm,
            made: VecDeque::new(),
            backlogged: VecDeque::new(),
            gathered: 0,
            accepts_left: ACCEPTS_A_TURN_MAX,
            scratch: vec![0; SCRATCH_LEN].into_boxed_slice(),
            accepts_dropped: 0,
            recv_bufs_starved: 0,
        })
    }

    /// The effective settings of the ring.
    pub fn report(&self) -> &SetupReport {
        self.ring.report()
    }

    /// True if accepted connections are in the ring's fixed-file table.
    pub const fn is_direct(&self) -> bool {
        self.direct
    }

    /// Returns the sockets for use by another driver. All connections end.
    pub fn into_sockets(self) -> DriverSockets {
        DriverSockets {
            listeners: self.listeners.into_iter().map(|listener| listener.fd).collect(),
            datagrams: self.datagrams.into_sockets(),
        }
    }

    #[inline(always)]
    fn socket(&mut self, conn: ConnId) -> &mut Socket {
        self.sockets[conn.slot.index()].as_mut().expect("I-3: an operation names a live slot")
    }

    #[inline(always)]
    fn install(&mut self, slot: SlotIndex, handle: Handle) {
        while self.sockets.len() <= slot.index() {
            self.sockets.push(None);
        }
        debug_assert!(self.sockets[slot.index()].is_none(), "I-4: an accepted index is not in use");
        self.sockets[slot.index()] = Some(Socket::new(handle));
    }

    fn push_recv(&mut self, conn: ConnId) {
        let socket = self.sockets[conn.slot.index()].as_mut().expect("I-3: an operation names a live slot");
        socket.recv = true;
        self.ring.recv(token_of(conn), socket.target(conn.slot), self.tuning.poll_first);
    }

    /// Waits for bytes with a poll that stays armed.
    fn poll_for_bytes(&mut self, conn: ConnId) {
        let socket = self.sockets[conn.slot.index()].as_mut().expect("I-3: an operation names a live slot");
        socket.recv = true;
        socket.generation = conn.generation;
        if let (Poll::Off, Handle::Ordinary(fd)) = (socket.poll, &socket.handle) {
            socket.poll = Poll::Armed;
            self.ring.poll_conn(token_of(conn), fd.as_fd());
        }
    }

    fn push_accept(&mut self, listener: ListenerIndex) {
        let state = &self.listeners[listener.index()];
        let Some(fd) = &state.fd else { return };
        let token = Token::new(u32::from(listener.0), 0);
        match state.mode {
            AcceptMode::Multishot => self.ring.accept(token, fd.as_fd(), true, self.direct),
            AcceptMode::SingleShot => self.ring.accept(token, fd.as_fd(), false, self.direct),
            AcceptMode::Readiness => self.ring.poll_readable(token, fd.as_fd()),
        }
    }
}

impl Driver for Uring {
    fn kind(&self) -> DriverKind {
        DriverKind::IoUring
    }

    fn arm_accept(&mut self, listener: ListenerIndex) {
        if self.listeners[listener.index()].arm == Arm::Off {
            self.listeners[listener.index()].arm = Arm::Armed;
            self.push_accept(listener);
        }
    }

    fn disarm_accept(&mut self, listener: ListenerIndex) {
        let state = &mut self.listeners[listener.index()];
        if state.arm == Arm::Armed {
            state.arm = Arm::Ending;
            let op = if state.mode == AcceptMode::Readiness { Op::PollReadable } else { Op::Accept };
            self.ring.cancel(op, Token::new(u32::from(listener.0), 0));
        }
    }

    fn close_listener(&mut self, listener: ListenerIndex) {
        debug_assert!(
            self.listeners[listener.index()].arm == Arm::Off,
            "closed only while accept is not armed"
        );
        self.listeners[listener.index()].fd = None;
    }

    fn is_listening(&self, listener: ListenerIndex) -> bool {
        self.listeners[listener.index()].fd.is_some()
    }

    fn accept_backlogged(&mut self, listener: ListenerIndex) -> bool {
        self.listeners[listener.index()].fd.as_ref().is_some_and(sock::readable)
    }

    fn downgrade_accept(&mut self, listener: ListenerIndex) -> Option<AcceptMode> {
        let state = &mut self.listeners[listener.index()];
        state.mode = match state.mode {
            AcceptMode::Multishot => AcceptMode::SingleShot,
            AcceptMode::SingleShot if !self.direct => AcceptMode::Readiness,
            AcceptMode::SingleShot | AcceptMode::Readiness => return None,
        };
        Some(state.mode)
    }

    #[inline(always)]
    fn recv(&mut self, conn: ConnId, expect: Expect) -> Step<Received> {
        let socket = self.sockets[conn.slot.index()].as_mut().expect("I-3: an operation names a live slot");
        debug_assert!(!socket.recv, "I-2: one recv in flight");
        if !self.tuning.direct_calls {
            self.push_recv(conn);
            return Step::Pending;
        }
        if self.tuning.receive == Receiving::SingleShot {
            socket.readable = expect == Expect::Now;
        }
        if let Some(received) = socket.try_recv(&mut self.scratch) {
            return Step::Done(received);
        }
        if socket.poll == Poll::Armed {
            socket.recv = true;
        } else if self.direct || self.tuning.receive == Receiving::SingleShot {
            self.push_recv(conn);
        } else {
            self.poll_for_bytes(conn);
        }
        Step::Pending
    }

    fn send(&mut self, conn: ConnId, buf: SendBuf, more: bool) -> Step<Sent> {
        let socket = self.sockets[conn.slot.index()].as_mut().expect("I-3: an operation names a live slot");
        debug_assert!(!socket.send, "I-2: one send in flight");
        if self.tuning.direct_calls
            && let Handle::Ordinary(fd) = &socket.handle
            && let Some(result) = sock::send_now(fd.as_fd(), buf.remaining(), more)
        {
            return Step::Done(Sent { result, buf });
        }
        socket.send = true;
        self.ring.send(token_of(conn), socket.target(conn.slot), buf, more);
        Step::Pending
    }

    #[inline(always)]
    fn send_now(&mut self, conn: ConnId, bytes: &[u8], more: bool) -> Option<Result<usize, Errno>> {
        let direct_calls = self.tuning.direct_calls;
        match &self.socket(conn).handle {
            Handle::Direct(_) => None,
            Handle::Ordinary(_) if !direct_calls => None,
            Handle::Ordinary(fd) => sock::send_now(fd.as_fd(), bytes, more),
        }
    }

    fn shutdown_write(&mut self, conn: ConnId) {
        let socket = self.sockets[conn.slot.index()].as_mut().expect("I-3: an operation names a live slot");
        match &socket.handle {
            Handle::Direct(_) => {
                socket.half_close = HalfClose::Requested;
                self.ring.shutdown_fixed(token_of(conn), conn.slot.0);
            }
            Handle::Ordinary(fd) => sock::shutdown_write(fd.as_fd()),
        }
    }

    fn reset_on_close(&mut self, conn: ConnId) {
        if let Some(fd) = self.socket(conn).fd() {
            sock::reset_on_close(fd);
        }
    }

    fn cancel(&mut self, conn: ConnId) {
        let socket = self.socket(conn);
        socket.cancelled = true;
        let (recv, send, polls) = (socket.recv, socket.send, socket.poll != Poll::Off);
        if recv && polls {
            // Only the receive is cancelled; the poll stays armed.
            socket.recv = false;
            let received = Received::Failed(Errno::CANCELED);
            self.made.push_back(Completion::Received { conn, received });
        } else if recv {
            self.ring.cancel(Op::Recv, token_of(conn));
        }
        if send {
            self.ring.cancel(Op::Send, token_of(conn));
        }
    }

    #[inline(always)]
    fn close(&mut self, conn: ConnId) -> Step<()> {
        let cell = &mut self.sockets[conn.slot.index()];
        let socket = cell.as_mut().expect("I-3: a close names a live slot");
        debug_assert!(!socket.recv && !socket.send, "D-6: nothing is in flight at a close");
        if let Handle::Direct(installed) = &mut socket.handle {
            if matches!(installed, Installed::Requested) {
                *installed = Installed::Closing;
                return Step::Pending;
            }
            if socket.half_close != HalfClose::None {
                socket.half_close = HalfClose::Closing;
                return Step::Pending;
            }
            *installed = Installed::None;
            if self.tuning.skip_success {
                // The slot is reused only for a connection accepted after the close.
                *cell = None;
                self.ring.close_fixed_quietly(token_of(conn), conn.slot.0);
                return Step::Done(());
            }
            self.ring.close_fixed(token_of(conn), conn.slot.0);
            return Step::Pending;
        }
        if socket.poll == Poll::Armed {
            socket.poll = Poll::Ending;
            self.ring.cancel(Op::PollConn, token_of(conn));
            return Step::Pending;
        }
        if let Some(Socket { handle: Handle::Ordinary(fd), .. }) = cell.take() {
            doorbell_ring::close(fd);
        }
        self.free.give_back(conn.slot);
        Step::Done(())
    }

    fn detach(&mut self, conn: ConnId) -> Step<Result<OwnedFd, Errno>> {
        self.begin_detach(conn)
    }

    fn release(&mut self, slot: SlotIndex) -> Option<OwnedFd> {
        self.take_new(slot)
    }

    fn adopt(&mut self, fd: OwnedFd) -> Option<SlotIndex> {
        self.admit_passed(fd)
    }

    fn has_input(&self, conn: ConnId) -> Option<bool> {
        let socket = self.sockets[conn.slot.index()].as_ref()?;
        let receives = socket.recv && socket.poll == Poll::Off;
        socket.fd().filter(|_| !receives).map(sock::readable)
    }

    fn unsent(&self, conn: ConnId) -> Option<u32> {
        sock::unsent(self.sockets[conn.slot.index()].as_ref()?.fd()?)
    }

    fn find_unsent(&mut self, conn: ConnId) -> bool {
        self.install_ordinary(conn)
    }

    fn peer_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        match &self.sockets[conn.slot.index()].as_ref()?.handle {
            Handle::Direct(_) => None,
            Handle::Ordinary(fd) => sock::peer_addr(fd.as_fd()),
        }
    }

    #[inline(always)]
    fn received(&self, chunk: &Chunk) -> &[u8] {
        match &chunk.source {
            ChunkSource::Ring(buf) => self.ring.received(buf),
            ChunkSource::Scratch(_) => &self.scratch[..chunk.len()],
        }
    }

    #[inline(always)]
    fn recycle(&mut self, chunk: Chunk) {
        if let ChunkSource::Ring(buf) = chunk.source {
            self.ring.recycle(buf);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Fault> {
        self.accepts_left = ACCEPTS_A_TURN_MAX;
        let busy = self.begin_datagrams()
            || !self.made.is_empty()
            || !self.backlogged.is_empty()
            || timeout == Some(Duration::ZERO);
        let comes = core::mem::take(&mut self.gathered) > 0;
        let gather = self.tuning.wait_min;
        let (wait_for, timeout) = if busy {
            (0, None)
        } else if comes && !gather.is_zero() {
            (GATHER_MAX, Some(timeout.map_or(gather, |timeout| timeout.min(gather))))
        } else {
            (1, timeout)
        };
        self.ring
            .enter(wait_for, timeout)
            .map_err(|error| Fault { call: "io_uring_enter", errno: errno_of(error.errno) })
    }

    fn wake_by(&mut self, now: Time, due: Time) -> bool {
        self.alarm.as_mut().is_some_and(|alarm| alarm.set(now, due))
    }

    #[inline(always)]
    fn next_quick(&mut self) -> Option<Quick> {
        if !self.made.is_empty() {
            return None;
        }
        if !self.backlogged.is_empty() {
            return self.accept_one().map(|(listener, slot)| Quick::Accepted(listener, slot));
        }
        loop {
            match self.ring.next_quick()? {
                (token, doorbell_ring::Quick::Accepted(fd)) => {
                    return Some(Quick::Accepted(listener_of(token), self.admit_fd(fd)?));
                }
                (token, doorbell_ring::Quick::Ready(ready)) => {
                    let conn = conn_of(token);
                    if self.ready(conn, ready) {
                        return Some(Quick::Ready(conn));
                    }
                }
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
            if let Some(completion) = self.recv_polled_datagrams() {
                return Some(completion);
            }
            let event = self.ring.next()?;
            if let Some(completion) = self.on_event(event) {
                return Some(completion);
            }
        }
    }

    fn counters(&self) -> DriverCounters {
        let ring = self.ring.counters();
        DriverCounters {
            accepts_dropped: self.accepts_dropped + ring.bad_results,
            cq_overflows: ring.cq_overflows,
            enters: ring.enters,
            recv_bufs_starved: self.recv_bufs_starved,
        }
    }

    fn arm_datagrams(&mut self, socket: DatagramIndex) {
        self.arm_socket(socket);
    }

    fn disarm_datagrams(&mut self, socket: DatagramIndex) {
        self.disarm_socket(socket);
    }

    fn close_datagrams(&mut self, socket: DatagramIndex, is_last: bool) -> u64 {
        self.datagrams.close(socket, is_last)
    }

    fn is_receiving(&self, socket: DatagramIndex) -> bool {
        self.datagrams.is_open(socket)
    }

    fn datagrams_queued(&mut self, socket: DatagramIndex) -> bool {
        self.datagrams.is_queued(socket)
    }

    fn downgrade_datagrams(&mut self, socket: DatagramIndex) -> Option<AcceptMode> {
        self.datagrams.downgrade(socket)
    }

    #[inline]
    fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        self.datagrams.datagram(&self.ring, index)
    }

    fn send_datagrams(&mut self, socket: DatagramIndex, replies: &mut Replies) -> SentBatch {
        self.datagrams.send(socket, replies)
    }

    fn end_datagrams(&mut self) {
        self.datagrams.end();
    }
}

/// Maximum number of entries of the completion queue. If more completions arrive between two waits,
/// the kernel uses its overflow list.
const CQ_ENTRIES_MAX: u32 = 16 * 1024;

const fn token_of(conn: ConnId) -> Token {
    Token::new(conn.slot.0, conn.generation.raw())
}

const fn conn_of(token: Token) -> ConnId {
    ConnId { slot: SlotIndex(token.slot), generation: Generation::new(token.generation) }
}

fn listener_of(token: Token) -> ListenerIndex {
    ListenerIndex(u16::try_from(token.slot).expect("the driver put a listener's index there"))
}

fn errno_of(errno: doorbell_ring::Errno) -> Errno {
    Errno::from_raw_os_error(errno.0)
}
