//! The simulated world: virtual time, pending events, listeners, slots and peers.
//!
//! A seed and a plan determine the run.
//!
//! The driver's `wait` advances the time here (`step_until`); tests add peers and examine their
//! logs.

use core::time::Duration;
use std::collections::VecDeque;

use doorbell::driver::{AcceptMode, Errno, SendBuf};
use doorbell::id::{ConnId, ListenerIndex, SlotIndex};

use super::datagrams::{DatagramPlan, DatagramWorld};
use super::events::{Event, EventQueue, Ready};
use super::faults::{FaultCounts, FaultKind, FaultPlan};
use super::peer::{Peer, PeerIndex, PeerLog, PeerPlan, PeerState, ResetCause};
use super::rng::Rng;
use crate::clock::VirtualClock;

/// Configuration of a simulation.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Seed of all random decisions.
    pub seed: u64,
    /// Probabilities of faults.
    pub plan: FaultPlan,
    /// Number of listeners.
    pub listeners: u16,
    /// Number of slots: the worker's `conns_max` plus the margin for connections accepted during a
    /// disarm.
    pub slots: u32,
    /// Probability in millionths that an operation completes immediately if it can: 1,000,000 is
    /// like epoll, 0 like io_uring.
    pub at_once_millionths: u32,
    /// Maximum bytes per receive.
    pub recv_buf_len: usize,
    /// Maximum number of connections per listener that are reported and not yet taken by the
    /// worker.
    pub accept_batch_max: u32,
    /// When the driver knows the number of bytes that a peer has not acknowledged.
    pub unsent: Unsent,
    /// The datagram sockets, each with the maximum size of a datagram.
    pub datagram_sizes: Vec<usize>,
    /// Probabilities of faults of datagrams.
    pub datagram_plan: DatagramPlan,
    /// Whether [`World::trace`] is recorded.
    pub traced: bool,
}

impl SimConfig {
    /// A world with one listener and no faults; no operation completes immediately.
    pub fn quiet(seed: u64, slots: u32) -> Self {
        Self {
            seed,
            plan: FaultPlan::none(),
            listeners: 1,
            slots,
            at_once_millionths: 0,
            recv_buf_len: 2048,
            accept_batch_max: 16,
            unsent: Unsent::Known,
            datagram_sizes: Vec::new(),
            datagram_plan: DatagramPlan::default(),
            traced: false,
        }
    }
}

/// When [`Driver::unsent`](doorbell::driver::Driver::unsent) is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// Never, as on a kernel that cannot turn a direct descriptor into an ordinary one.
    Hidden,
    /// Always, as with ordinary descriptors.
    Known,
    /// After a call of [`find_unsent`](doorbell::driver::Driver::find_unsent) and a wait, as with
    /// direct descriptors.
    OnDemand,
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) open: bool,
    pub(super) accept: AcceptState,
    pub(super) mode: AcceptMode,
    pub(super) backlog: VecDeque<PeerIndex>,
    pub(super) scheduled: bool,
    /// Connections that are reported and not yet taken by the worker.
    pub(super) batch: u32,
    /// Delivery time of the last completion. The next is delivered no earlier, so that completions
    /// keep their order.
    pub(super) deliver_at: u64,
    pub(super) arms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptState {
    Armed,
    Disarming,
    Idle,
    Stalled,
}

/// One slot of the driver.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) peer: Option<PeerIndex>,
    /// The worker's id for the connection, from its first operation.
    pub(super) conn: Option<ConnId>,
    /// Requested and not yet reported to the worker (I-2).
    pub(super) recv_busy: bool,
    pub(super) send_busy: bool,
    pub(super) close_busy: bool,
    pub(super) recv: Option<PendingRecv>,
    pub(super) send: Option<PendingSend>,
    /// Time from which the unsent bytes are known, with [`Unsent::OnDemand`].
    pub(super) unsent_from: Option<u64>,
    /// Ids of earlier uses, for late completions.
    pub(super) past: VecDeque<ConnId>,
}

#[derive(Debug)]
pub(super) struct PendingRecv {
    pub(super) conn: ConnId,
    pub(super) serial: u64,
}

#[derive(Debug)]
pub(super) struct PendingSend {
    pub(super) conn: ConnId,
    pub(super) serial: u64,
    pub(super) buf: SendBuf,
    pub(super) more: bool,
    pub(super) not_before: u64,
}

/// The whole state of a simulation outside the driver.
#[derive(Debug)]
pub struct World {
    pub(super) clock: VirtualClock,
    pub(super) rng: Rng,
    pub(super) plan: FaultPlan,
    pub(super) config: SimConfig,
    pub(super) faults: FaultCounts,
    pub(super) listeners: Vec<Listener>,
    pub(super) datagrams: DatagramWorld,
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<SlotIndex>,
    /// Slots that have been used before.
    pub(super) used: Vec<SlotIndex>,
    pub(super) peers: Vec<Peer>,
    pub(super) ready: VecDeque<Ready>,
    /// Completions that a wait did not report. The next waits report them first.
    pub(super) unreported: VecDeque<Ready>,
    pub(super) violations: Vec<String>,
    pub(super) overruns: Vec<(u64, u64)>,
    /// Whether the driver's current or next wait must end, so that the test can act.
    pub(super) alarmed: bool,
    /// Error of the next disarm's confirmation.
    pub(super) disarm_fails_with: Option<Errno>,
    events: EventQueue,
    trace: Vec<String>,
}

impl World {
    pub(super) fn new(config: SimConfig, clock: VirtualClock) -> Self {
        let listener = || Listener {
            open: true,
            accept: AcceptState::Idle,
            mode: AcceptMode::Multishot,
            backlog: VecDeque::new(),
            scheduled: false,
            batch: 0,
            deliver_at: 0,
            arms: 0,
        };
        Self {
            clock,
            rng: Rng::new(config.seed),
            plan: config.plan.clone(),
            faults: FaultCounts::default(),
            listeners: (0..config.listeners).map(|_| listener()).collect(),
            datagrams: DatagramWorld::new(config.seed, config.datagram_plan, &config.datagram_sizes),
            slots: (0..config.slots).map(|_| Slot::default()).collect(),
            free: (0..config.slots).rev().map(SlotIndex).collect(),
            used: Vec::new(),
            peers: Vec::new(),
            ready: VecDeque::new(),
            unreported: VecDeque::new(),
            violations: Vec::new(),
            overruns: Vec::new(),
            alarmed: false,
            disarm_fails_with: None,
            events: EventQueue::default(),
            trace: Vec::new(),
            config,
        }
    }

    /// Adds a peer that will connect and run its script.
    pub fn add_peer(&mut self, plan: PeerPlan) -> PeerIndex {
        let index = PeerIndex(self.peers.len());
        let connect_after = plan.connect_after;
        self.note(|| format!("{index:?} planned: {plan:?}"));
        self.peers.push(Peer::new(plan));
        self.schedule(connect_after, Event::PeerNext(index));
        index
    }

    /// Ends the driver's wait after `time`, so that a test can act at this moment.
    pub fn alarm_after(&mut self, time: Duration) {
        self.schedule(time, Event::Alarm);
    }

    /// The log of a peer.
    pub fn log(&self, peer: PeerIndex) -> &PeerLog {
        &self.peers[peer.0].log
    }

    /// Number of peers.
    pub fn peers_len(&self) -> usize {
        self.peers.len()
    }

    /// Whether all peers have finished.
    pub fn peers_are_done(&self) -> bool {
        self.peers.iter().all(|peer| peer.script.is_empty() && peer.log.connected_at.is_some())
    }

    /// Number of free slots.
    pub fn slots_free(&self) -> usize {
        self.free.len()
    }

    /// Number of clients in a listener's backlog.
    pub fn backlog_len(&self, listener: ListenerIndex) -> usize {
        self.listeners[listener.index()].backlog.len()
    }

    /// Number of times accept was armed on a listener.
    pub fn accept_arms(&self, listener: ListenerIndex) -> u64 {
        self.listeners[listener.index()].arms
    }

    /// Whether no event is pending.
    pub fn is_quiet(&self) -> bool {
        self.events.is_empty() && self.ready.is_empty() && self.unreported.is_empty()
    }

    /// Violations of the contract that only the driver can detect.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Fault counts so far.
    pub const fn faults(&self) -> &FaultCounts {
        &self.faults
    }

    /// Counts a fault injected by the test itself.
    pub fn count_fault(&mut self, kind: FaultKind) {
        self.faults.count(kind);
    }

    /// Replaces the fault plan.
    pub fn set_plan(&mut self, plan: FaultPlan) {
        self.plan = plan;
    }

    /// Whether a wait overran in this time span: a deadline in it may be noticed late.
    pub fn overran_within(&self, from_nanos: u64, to_nanos: u64) -> bool {
        self.overruns.iter().any(|(start, end)| *start <= to_nanos && *end >= from_nanos)
    }

    /// The recorded trace.
    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    /// Current virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.clock.now_nanos()
    }

    /// Processes events until an event yields a completion or an alarm, `limit` is reached or,
    /// without a limit, no event is left.
    pub(super) fn step_until(&mut self, limit: Option<u64>) {
        loop {
            self.step_to_now();
            if core::mem::take(&mut self.alarmed) || !self.ready.is_empty() {
                return;
            }
            match self.events.next_at() {
                Some(at) if limit.is_none_or(|limit| at <= limit) => self.clock.advance_to(at),
                _ => {
                    if let Some(limit) = limit {
                        self.clock.advance_to(limit);
                    }
                    return;
                }
            }
        }
    }

    /// Processes every event until `until`, while the worker does not run.
    pub(super) fn step_through(&mut self, until: u64) {
        while let Some(at) = self.events.next_at().filter(|at| *at <= until) {
            self.clock.advance_to(at);
            self.step_to_now();
        }
        self.clock.advance_to(until);
    }

    /// Processes every event that is due.
    pub(super) fn step_to_now(&mut self) {
        while self.events.next_at().is_some_and(|at| at <= self.now()) {
            let Some((_, event)) = self.events.take() else { return };
            self.play(event);
        }
    }

    fn play(&mut self, event: Event) {
        match event {
            Event::AcceptOne(listener) => self.accept_one(listener),
            Event::Alarm => self.alarmed = true,
            Event::Cancel { slot, serial } => self.cancel_now(slot, serial),
            Event::CloseNow { slot } => self.close_now(slot),
            Event::CorkTimer { peer, serial } => self.cork_timeout(peer, serial),
            Event::DatagramToClient { datagram } => self.datagram_at_client(datagram),
            Event::DatagramToServer { socket, datagram } => self.datagram_at_server(socket, datagram),
            Event::DatagramsDisarmed { socket } => self.datagrams_disarmed(socket, None),
            Event::Deliver(ready) => self.ready.push_back(ready),
            Event::DetachNow { conn } => self.detach_now(conn),
            Event::DisarmNow { listener } => self.disarm_now(listener),
            Event::PeerNext(peer) => self.peer_next(peer),
            Event::PeerRead(peer) => self.peer_read(peer),
            Event::RecvTry(slot) => self.recv_try(slot),
            Event::SendTry(slot) => self.send_try(slot),
            Event::ToPeer { peer, bytes, fin } => self.arrive_at_peer(peer, &bytes, fin),
            Event::ToServer { peer, bytes, end } => self.arrive_at_server(peer, &bytes, end),
        }
    }

    pub(super) fn schedule(&mut self, after: Duration, event: Event) {
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.schedule_at(self.now().saturating_add(nanos), event);
    }

    pub(super) fn schedule_at(&mut self, at: u64, event: Event) {
        self.events.put(at, event);
    }

    pub(super) const fn next_serial(&mut self) -> u64 {
        self.events.next_serial()
    }

    /// Delivers a completion now, or later if the plan delays it.
    pub(super) fn complete(&mut self, ready: Ready) {
        let delayed = self.injects(FaultKind::CompletionDelayed);
        let after = if delayed { self.micros(1..20_000) } else { Duration::ZERO };
        self.schedule(after, Event::Deliver(ready));
    }

    /// Returns whether the plan injects this fault here, and counts the fault if it does.
    pub(super) fn injects(&mut self, kind: FaultKind) -> bool {
        let injects = self.rng.hits(self.plan.millionths(kind));
        if injects {
            self.faults.count(kind);
            self.note(|| format!("FAULT {kind}"));
        }
        injects
    }

    /// Like [`Self::injects`], and records the fault in the peer's log, because the connection may
    /// fail.
    pub(super) fn injects_at_peer(&mut self, kind: FaultKind, peer: PeerIndex) -> bool {
        let injects = self.injects(kind);
        if injects {
            self.peers[peer.0].log.faults.push(kind);
            self.note(|| format!("  of {peer:?}"));
        }
        injects
    }

    pub(super) fn micros(&mut self, range: core::ops::Range<u64>) -> Duration {
        Duration::from_micros(self.rng.range(range))
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.config.traced {
            let now = self.now();
            let line = text();
            self.trace.push(format!("{:>12.6} {line}", (now - crate::clock::START_NANOS) as f64 / 1e9));
        }
    }

    /// The kernel's actions when the process ends: every connection and every waiting client is
    /// reset.
    pub(super) fn server_gone(&mut self) {
        let now = self.now();
        for peer in &mut self.peers {
            // A handed-over connection survives its worker.
            if peer.place != PeerState::Handed
                && peer.log.connected_at.is_some()
                && !peer.log.is_over()
                && !peer.tx_fin
            {
                peer.log.reset = Some((now, ResetCause::ServerGone));
                peer.log.bytes_lost += peer.unread_len;
                peer.script.clear();
                peer.broken = Some(Errno::CONNRESET);
                peer.place = PeerState::Closed;
            }
        }
        self.listeners.iter_mut().for_each(|listener| listener.open = false);
        self.ready.clear();
        self.unreported.clear();
        // Segments that left the server earlier still arrive.
        while let Some((at, event)) = self.events.take() {
            self.clock.advance_to(at);
            let is_on_its_way = matches!(
                event,
                Event::ToPeer { .. }
                    | Event::ToServer { .. }
                    | Event::PeerRead(_)
                    | Event::DatagramToClient { .. }
            );
            if is_on_its_way {
                self.play(event);
            }
        }
    }
}
