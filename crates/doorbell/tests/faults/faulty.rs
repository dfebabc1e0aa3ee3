//! A real driver with injected faults: it passes operations on and makes some of them fail, shrink
//! or stall.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;

use bytes::Bytes;
use doorbell::driver::{
    AcceptMode, Chunk, Completion, Datagram, Driver, DriverCounters, DriverKind, Errno, Expect, Fault,
    Payload, Received, Replies, SendBuf, Sent, SentBatch, Step,
};
use doorbell::id::{ConnId, DatagramIndex, ListenerIndex, SlotIndex};
use doorbell_testkit::sim::Rng;

/// Injected faults. Probabilities are in millionths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lies {
    /// Error of arming accept, and how often it occurs.
    pub(super) accept_errno: Option<(Errno, u32)>,
    /// How many times arming accept has no effect.
    pub(super) accept_stalls: u32,
    /// Error of a recv, and its probability.
    pub(super) recv_errno: Option<(Errno, u32)>,
    /// Error of a send, and its probability.
    pub(super) send_errno: Option<(Errno, u32)>,
    /// Probability that a send accepts only 1 to n-1 of n bytes.
    pub(super) send_short: u32,
    /// Probability that a wait returns at once without a completion.
    pub(super) wait_early: u32,
    /// Number of waits after which the driver fails.
    pub(super) waits_max: Option<u64>,
}

/// A driver with injected faults. The [module](self) documents it.
pub(super) struct Faulty<D> {
    inner: D,
    lies: Lies,
    rng: Rng,
    /// The whole buffers of shortened sends.
    cut: HashMap<ConnId, SendBuf>,
    stalled: HashSet<ListenerIndex>,
    made: VecDeque<Completion>,
    waits: u64,
}

impl<D: Driver> Faulty<D> {
    pub(super) fn new(inner: D, lies: Lies) -> Self {
        Self {
            inner,
            lies,
            rng: Rng::new(1),
            cut: HashMap::new(),
            stalled: HashSet::new(),
            made: VecDeque::new(),
            waits: 0,
        }
    }

    /// Converts the completion of a shortened send into a completion of the whole buffer.
    fn whole(&mut self, conn: ConnId, sent: Sent) -> Sent {
        match self.cut.remove(&conn) {
            Some(buf) => Sent { result: sent.result, buf },
            None => sent,
        }
    }
}

impl<D: Driver> Driver for Faulty<D> {
    fn kind(&self) -> DriverKind {
        self.inner.kind()
    }

    fn arm_accept(&mut self, listener: ListenerIndex) {
        if let Some((errno, times)) = &mut self.lies.accept_errno
            && *times > 0
        {
            *times -= 1;
            self.made.push_back(Completion::AcceptEnded { listener, errno: Some(*errno) });
        } else if self.lies.accept_stalls > 0 {
            self.lies.accept_stalls -= 1;
            self.stalled.insert(listener);
        } else {
            self.inner.arm_accept(listener);
        }
    }

    fn disarm_accept(&mut self, listener: ListenerIndex) {
        if self.stalled.remove(&listener) {
            self.made.push_back(Completion::AcceptEnded { listener, errno: None });
        } else {
            self.inner.disarm_accept(listener);
        }
    }

    fn close_listener(&mut self, listener: ListenerIndex) {
        self.inner.close_listener(listener);
    }

    fn accept_backlogged(&mut self, listener: ListenerIndex) -> bool {
        self.inner.accept_backlogged(listener)
    }

    fn downgrade_accept(&mut self, listener: ListenerIndex) -> Option<AcceptMode> {
        self.inner.downgrade_accept(listener)
    }

    fn recv(&mut self, conn: ConnId, expect: Expect) -> Step<Received> {
        match self.lies.recv_errno {
            Some((errno, millionths)) if self.rng.hits(millionths) => Step::Done(Received::Failed(errno)),
            _ => self.inner.recv(conn, expect),
        }
    }

    fn send(&mut self, conn: ConnId, buf: SendBuf, more: bool) -> Step<Sent> {
        if let Some((errno, millionths)) = self.lies.send_errno
            && self.rng.hits(millionths)
        {
            return Step::Done(Sent { result: Err(errno), buf });
        }
        let len = buf.remaining().len();
        if len < 2 || !self.rng.hits(self.lies.send_short) {
            return self.inner.send(conn, buf, more);
        }
        let short = &buf.remaining()[..1 + self.rng.index(len - 1)];
        let part = SendBuf::new(Payload::Shared(Bytes::copy_from_slice(short)));
        self.cut.insert(conn, buf);
        match self.inner.send(conn, part, more) {
            Step::Done(sent) => Step::Done(self.whole(conn, sent)),
            Step::Pending => Step::Pending,
        }
    }

    fn send_now(&mut self, conn: ConnId, bytes: &[u8], more: bool) -> Option<Result<usize, Errno>> {
        if let Some((errno, millionths)) = self.lies.send_errno
            && self.rng.hits(millionths)
        {
            return Some(Err(errno));
        }
        let short = bytes.len() >= 2 && self.rng.hits(self.lies.send_short);
        let len = if short { 1 + self.rng.index(bytes.len() - 1) } else { bytes.len() };
        self.inner.send_now(conn, &bytes[..len], more)
    }

    fn shutdown_write(&mut self, conn: ConnId) {
        self.inner.shutdown_write(conn);
    }

    fn cancel(&mut self, conn: ConnId) {
        self.inner.cancel(conn);
    }

    fn has_input(&self, conn: ConnId) -> Option<bool> {
        self.inner.has_input(conn)
    }

    fn unsent(&self, conn: ConnId) -> Option<u32> {
        self.inner.unsent(conn)
    }

    fn find_unsent(&mut self, conn: ConnId) -> bool {
        self.inner.find_unsent(conn)
    }

    fn reset_on_close(&mut self, conn: ConnId) {
        self.inner.reset_on_close(conn);
    }

    fn close(&mut self, conn: ConnId) -> Step<()> {
        self.inner.close(conn)
    }

    fn detach(&mut self, conn: ConnId) -> Step<Result<OwnedFd, Errno>> {
        self.inner.detach(conn)
    }

    fn release(&mut self, slot: SlotIndex) -> Option<OwnedFd> {
        self.inner.release(slot)
    }

    fn adopt(&mut self, fd: OwnedFd) -> Option<SlotIndex> {
        self.inner.adopt(fd)
    }

    fn peer_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        self.inner.peer_addr(conn)
    }

    fn received(&self, chunk: &Chunk) -> &[u8] {
        self.inner.received(chunk)
    }

    fn recycle(&mut self, chunk: Chunk) {
        self.inner.recycle(chunk);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Fault> {
        self.waits += 1;
        if self.lies.waits_max.is_some_and(|waits_max| self.waits > waits_max) {
            return Err(Fault { call: "faulty_wait", errno: Errno::BADR });
        }
        let early = !self.made.is_empty() || self.rng.hits(self.lies.wait_early);
        self.inner.wait(if early { Some(Duration::ZERO) } else { timeout })
    }

    fn next(&mut self) -> Option<Completion> {
        if let Some(made) = self.made.pop_front() {
            return Some(made);
        }
        match self.inner.next()? {
            Completion::Sent { conn, sent } => Some(Completion::Sent { conn, sent: self.whole(conn, sent) }),
            other => Some(other),
        }
    }

    fn counters(&self) -> DriverCounters {
        self.inner.counters()
    }

    fn arm_datagrams(&mut self, socket: DatagramIndex) {
        self.inner.arm_datagrams(socket);
    }

    fn disarm_datagrams(&mut self, socket: DatagramIndex) {
        self.inner.disarm_datagrams(socket);
    }

    fn close_datagrams(&mut self, socket: DatagramIndex, is_last: bool) -> u64 {
        self.inner.close_datagrams(socket, is_last)
    }

    fn is_receiving(&self, socket: DatagramIndex) -> bool {
        self.inner.is_receiving(socket)
    }

    fn datagrams_queued(&mut self, socket: DatagramIndex) -> bool {
        self.inner.datagrams_queued(socket)
    }

    fn downgrade_datagrams(&mut self, socket: DatagramIndex) -> Option<AcceptMode> {
        self.inner.downgrade_datagrams(socket)
    }

    fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        self.inner.datagram(index)
    }

    fn send_datagrams(&mut self, socket: DatagramIndex, replies: &mut Replies) -> SentBatch {
        self.inner.send_datagrams(socket, replies)
    }

    fn end_datagrams(&mut self) {
        self.inner.end_datagrams();
    }
}
