//! The simulated driver: implements the contract of [`Driver`] over a [`World`], as the epoll and
//! io_uring drivers do over a kernel.

use core::cell::{Ref, RefCell, RefMut};
use core::net::SocketAddr;
use core::time::Duration;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use doorbell::driver::{
    AcceptMode, Chunk, Completion, Datagram, Driver, DriverCounters, DriverKind, Errno, Expect, Fault,
    Payload, Received, Replies, SendBuf, Sent, SentBatch, Step, WakeSource,
};
use doorbell::id::{ConnId, DatagramIndex, ListenerIndex, SlotIndex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::datagrams::SimDatagram;
use super::events::Ready;
use super::faults::FaultKind;
use super::socket::Found;
use super::world::{SimConfig, World};
use crate::clock::VirtualClock;

/// Number of completions that a partial wait ([`FaultKind::WaitPartial`]) reports, unless fewer are
/// ready or it was interrupted.
const REPORTED_MIN: usize = 16;

/// A simulation from the test's side: the world, its clock, and the driver for a worker.
#[derive(Clone, Debug)]
pub struct Sim {
    world: Rc<RefCell<World>>,
    clock: VirtualClock,
}

impl Sim {
    /// Creates a world without peers.
    pub fn new(config: SimConfig) -> Self {
        let clock = VirtualClock::new();
        Self { world: Rc::new(RefCell::new(World::new(config, clock.clone()))), clock }
    }

    /// The driver. Only one per simulation: a second driver would use the same slots.
    pub fn driver(&self) -> SimDriver {
        SimDriver {
            world: Rc::clone(&self.world),
            chunk: None,
            chunk_number: 0,
            batch: None,
            wake: None,
            enters: 0,
        }
    }

    /// The clock.
    pub fn clock(&self) -> VirtualClock {
        self.clock.clone()
    }

    /// Borrows the world.
    pub fn world(&self) -> Ref<'_, World> {
        self.world.borrow()
    }

    /// Borrows the world mutably.
    pub fn world_mut(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }
}

/// A [`Driver`] over the world of its [`Sim`].
///
/// Dropping it ends the server's process: the kernel resets open connections.
#[derive(Debug)]
pub struct SimDriver {
    world: Rc<RefCell<World>>,
    /// The chunk that is lent to the worker, with its number. Only one may be lent at a time.
    chunk: Option<(u32, Vec<u8>)>,
    chunk_number: u32,
    /// The batch of datagrams that is lent to the worker, and its socket.
    batch: Option<(DatagramIndex, Vec<SimDatagram>)>,
    wake: Option<WakeSource>,
    enters: u64,
}

impl SimDriver {
    /// Makes a wait end when the waker of `wake` was used. Virtual time does not wait for other
    /// threads: the waker is polled once per wait.
    #[must_use]
    pub fn with_wake(mut self, wake: WakeSource) -> Self {
        self.wake = Some(wake);
        self
    }

    fn hand_out(&mut self, bytes: Vec<u8>, drained: bool) -> Received {
        assert!(self.chunk.is_none(), "D-8: a chunk is returned before the next one is lent");
        self.chunk_number += 1;
        let chunk_len = u32::try_from(bytes.len()).expect("a chunk is small");
        self.chunk = Some((self.chunk_number, bytes));
        Received::Data { chunk: Chunk::scratch(self.chunk_number, chunk_len), drained }
    }

    fn take_wake(&self) -> bool {
        let Some(wake) = &self.wake else { return false };
        let fd = wake.as_fd();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let woken = matches!(poll(&mut fds, Some(&now)), Ok(ready) if ready > 0);
        if woken {
            wake.clear();
        }
        woken
    }

    fn translate(&mut self, ready: Ready) -> Completion {
        match ready {
            Ready::Plain(completion) => {
                self.world.borrow_mut().seen(&completion);
                completion
            }
            Ready::Data { conn, bytes, drained } => {
                self.world.borrow_mut().recv_seen(conn);
                Completion::Received { conn, received: self.hand_out(bytes, drained) }
            }
            Ready::StaleData { conn, bytes } => {
                Completion::Received { conn, received: self.hand_out(bytes, true) }
            }
            Ready::Stale(completion) => completion,
            Ready::Datagrams(_) => unreachable!("`next` handles it"),
        }
    }

    fn lend_datagrams(&mut self, socket: DatagramIndex) -> Option<Completion> {
        let batch = self.world.borrow_mut().take_datagrams(socket)?;
        let len = u16::try_from(batch.len()).expect("a batch is short");
        self.batch = Some((socket, batch));
        Some(Completion::Datagrams { socket, len })
    }
}

impl Drop for SimDriver {
    fn drop(&mut self) {
        if let Ok(mut world) = self.world.try_borrow_mut() {
            world.server_gone();
        }
    }
}

impl Driver for SimDriver {
    fn kind(&self) -> DriverKind {
        DriverKind::Simulated
    }

    fn arm_accept(&mut self, listener: ListenerIndex) {
        self.world.borrow_mut().arm(listener);
    }

    fn disarm_accept(&mut self, listener: ListenerIndex) {
        self.world.borrow_mut().disarm(listener);
    }

    fn close_listener(&mut self, listener: ListenerIndex) {
        self.world.borrow_mut().stop_listening(listener);
    }

    fn accept_backlogged(&mut self, listener: ListenerIndex) -> bool {
        self.world.borrow().backlog_len(listener) > 0
    }

    fn downgrade_accept(&mut self, listener: ListenerIndex) -> Option<AcceptMode> {
        self.world.borrow_mut().downgrade(listener)
    }

    fn recv(&mut self, conn: ConnId, expect: Expect) -> Step<Received> {
        let step = self.world.borrow_mut().recv(conn, expect);
        match step {
            Step::Done(Found::Bytes { bytes, drained }) => Step::Done(self.hand_out(bytes, drained)),
            Step::Done(Found::End) => Step::Done(Received::Eof),
            Step::Done(Found::Error(errno)) => Step::Done(Received::Failed(errno)),
            Step::Pending => Step::Pending,
        }
    }

    fn send(&mut self, conn: ConnId, buf: SendBuf, more: bool) -> Step<Sent> {
        self.world.borrow_mut().send(conn, buf, more)
    }

    fn send_now(&mut self, conn: ConnId, bytes: &[u8], more: bool) -> Option<Result<usize, Errno>> {
        self.world.borrow_mut().send_now(conn, bytes, more)
    }

    fn shutdown_write(&mut self, conn: ConnId) {
        self.world.borrow_mut().shutdown_write(conn);
    }

    fn cancel(&mut self, conn: ConnId) {
        self.world.borrow_mut().cancel(conn);
    }

    fn reset_on_close(&mut self, conn: ConnId) {
        self.world.borrow_mut().reset_on_close(conn);
    }

    fn close(&mut self, conn: ConnId) -> Step<()> {
        self.world.borrow_mut().close(conn)
    }

    fn detach(&mut self, conn: ConnId) -> Step<Result<OwnedFd, Errno>> {
        self.world.borrow_mut().detach(conn)
    }

    fn release(&mut self, slot: SlotIndex) -> Option<OwnedFd> {
        Some(self.world.borrow_mut().release_new(slot))
    }

    fn adopt(&mut self, fd: OwnedFd) -> Option<SlotIndex> {
        self.world.borrow_mut().adopt(fd)
    }

    fn has_input(&self, conn: ConnId) -> Option<bool> {
        self.world.borrow().has_input(conn)
    }

    fn unsent(&self, conn: ConnId) -> Option<u32> {
        self.world.borrow().unsent(conn)
    }

    fn find_unsent(&mut self, conn: ConnId) -> bool {
        self.world.borrow_mut().find_unsent(conn)
    }

    fn peer_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        self.world.borrow().peer_addr(conn)
    }

    fn received(&self, chunk: &Chunk) -> &[u8] {
        let (number, bytes) = self.chunk.as_ref().expect("D-8: the chunk is lent");
        assert_eq!(chunk.scratch_number(), Some(*number), "D-8: the chunk is the one that was lent");
        bytes
    }

    fn recycle(&mut self, chunk: Chunk) {
        let number = self.chunk.take().map(|(number, _)| number);
        assert_eq!(chunk.scratch_number(), number, "D-8: a chunk is returned once");
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Fault> {
        assert!(self.chunk.is_none(), "D-8: no chunk is lent during a wait");
        assert!(self.batch.is_none(), "D-17: no batch is lent during a wait");
        self.enters += 1;
        let woken = self.take_wake();
        let timeout = if woken { Some(Duration::ZERO) } else { timeout };
        self.world.borrow_mut().wait(timeout)
    }

    fn next(&mut self) -> Option<Completion> {
        assert!(self.chunk.is_none(), "D-8: a chunk is returned before the next completion is taken");
        assert!(self.batch.is_none(), "D-17: a batch is ended before the next completion is taken");
        loop {
            let ready = self.world.borrow_mut().ready.pop_front()?;
            match ready {
                Ready::Datagrams(socket) => {
                    if let Some(completion) = self.lend_datagrams(socket) {
                        return Some(completion);
                    }
                }
                ready => return Some(self.translate(ready)),
            }
        }
    }

    fn counters(&self) -> DriverCounters {
        DriverCounters { enters: self.enters, ..DriverCounters::default() }
    }

    fn arm_datagrams(&mut self, socket: DatagramIndex) {
        self.world.borrow_mut().arm_datagrams(socket);
    }

    fn disarm_datagrams(&mut self, socket: DatagramIndex) {
        self.world.borrow_mut().disarm_datagrams(socket);
    }

    fn close_datagrams(&mut self, socket: DatagramIndex, is_last: bool) -> u64 {
        let queued = self.world.borrow_mut().close_datagrams(socket);
        if is_last { queued } else { 0 }
    }

    fn is_receiving(&self, socket: DatagramIndex) -> bool {
        self.world.borrow().is_receiving(socket)
    }

    fn datagrams_queued(&mut self, socket: DatagramIndex) -> bool {
        self.world.borrow().datagrams_queued(socket)
    }

    fn downgrade_datagrams(&mut self, _socket: DatagramIndex) -> Option<AcceptMode> {
        None
    }

    fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        let (socket, batch) = self.batch.as_ref().expect("D-17: a batch is lent");
        Some(self.world.borrow().reported(*socket, batch.get(index)?))
    }

    fn send_datagrams(&mut self, socket: DatagramIndex, replies: &mut Replies) -> SentBatch {
        let lent = self.batch.as_ref().map(|(socket, _)| *socket);
        assert_eq!(lent, Some(socket), "D-18: replies belong to the lent batch");
        self.world.borrow_mut().send_replies(replies)
    }

    fn end_datagrams(&mut self) {
        assert!(self.batch.take().is_some(), "D-17: a batch is ended once");
    }
}

impl World {
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Fault> {
        assert!(self.ready.is_empty(), "a turn takes every completion before it waits again");
        // A turn takes virtual time.
        let cost = self.micros(1..20);
        self.clock.advance(cost);
        if self.injects(FaultKind::WaitFault) {
            return Err(Fault {
                call: "simulated_wait",
                errno: *self.rng.pick(&[Errno::BADR, Errno::NOMEM]),
            });
        }
        self.jump_wall_clock();
        self.ready.append(&mut self.unreported);
        self.step_to_now();
        let blocks = self.ready.is_empty() && timeout != Some(Duration::ZERO);
        if blocks && !self.injects(FaultKind::WaitEarly) {
            let before = self.now();
            let limit =
                timeout.map(|time| before.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
            self.step_until(limit);
            // A worker may close connections after a second overrun directly after the first.
            let recovered = self.overruns.last().is_none_or(|(_, end)| before >= end + 1_000_000_000);
            for (kind, secs) in [(FaultKind::WaitOverrun, 1), (FaultKind::WaitStalled, 60)] {
                if recovered && self.injects(kind) {
                    let late = self.now();
                    self.step_through(late + secs * 1_000_000_000);
                    self.overruns.push((late, self.now()));
                }
            }
        }
        self.invent_stale();
        if self.ready.len() > 1 && self.injects(FaultKind::CompletionsShuffled) {
            self.shuffle_ready();
        }
        if !self.ready.is_empty() && self.injects(FaultKind::WaitPartial) {
            // A signal can interrupt only a wait that blocks.
            let reported = if blocks && self.rng.hits(500_000) { 0 } else { REPORTED_MIN };
            self.unreported = self.ready.split_off(reported.min(self.ready.len()));
        }
        Ok(())
    }

    fn jump_wall_clock(&mut self) {
        if self.injects(FaultKind::WallClockBack) {
            self.clock.jump_wall(-3_600);
        }
        if self.injects(FaultKind::WallClockForward) {
            self.clock.jump_wall(3_600);
        }
    }

    /// Adds a completion for an earlier use of a slot.
    fn invent_stale(&mut self) {
        if self.used.is_empty() || !self.injects(FaultKind::CompletionStale) {
            return;
        }
        let slot = *self.rng.pick(&self.used);
        let past = &self.slots[slot.index()].past;
        let conn = past[self.rng.index(past.len())];
        self.note(|| format!("stale completion of {conn:?}"));
        let stale = match self.rng.range(0..4) {
            0 => Ready::StaleData { conn, bytes: b"GET /stale HTTP/1.1\r\nHost: stale\r\n\r\n".to_vec() },
            1 => Ready::Stale(Completion::Received { conn, received: Received::Failed(Errno::CONNRESET) }),
            2 => {
                let buf = SendBuf::new(Payload::Owned(b"stale".to_vec()));
                Ready::Stale(Completion::Sent { conn, sent: Sent { result: Ok(5), buf } })
            }
            _ => Ready::Stale(Completion::Closed { conn }),
        };
        let place = self.rng.index(self.ready.len() + 1);
        self.ready.insert(place, stale);
    }

    /// Shuffles completions, except that accept completions keep their order (D-2).
    fn shuffle_ready(&mut self) {
        let mut all: Vec<Ready> = self.ready.drain(..).collect();
        let (accept, mut rest): (Vec<Ready>, Vec<Ready>) = all.drain(..).partition(Ready::is_of_accept);
        self.rng.shuffle(&mut rest);
        let mut accept = accept.into_iter().peekable();
        let mut rest = rest.into_iter().peekable();
        while accept.peek().is_some() || rest.peek().is_some() {
            let from_accept = accept.peek().is_some() && (rest.peek().is_none() || self.rng.hits(500_000));
            self.ready.extend(if from_accept { accept.next() } else { rest.next() });
        }
    }

    /// Called when the worker takes a completion: frees the resources that the completion releases.
    fn seen(&mut self, completion: &Completion) {
        match *completion {
            Completion::AcceptEnded { .. }
            | Completion::Datagrams { .. }
            | Completion::DatagramsEnded { .. } => {}
            Completion::Accepted { listener, slot } => self.accept_seen(listener, slot),
            Completion::Closed { conn } | Completion::Detached { conn, result: Ok(_) } => self.release(conn),
            Completion::Detached { conn, result: Err(_) } => {
                self.slots[conn.slot.index()].close_busy = false;
            }
            Completion::Received { conn, .. } => self.recv_seen(conn),
            Completion::Sent { conn, .. } => self.slots[conn.slot.index()].send_busy = false,
        }
        for index in 0..self.listeners.len() {
            self.pump_accept(ListenerIndex(u16::try_from(index).expect("listeners are counted in 16 bits")));
        }
    }

    fn recv_seen(&mut self, conn: ConnId) {
        self.slots[conn.slot.index()].recv_busy = false;
    }
}
