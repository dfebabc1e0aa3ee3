//! The simulated world: virtual time, the events waiting in it, listeners, slots and peers.
//!
//! Does not know about: the worker and its protocols. One seed and one plan give one run, always the same.
//!
//! The driver lets time pass here (`step_until`) from its `wait`; tests add peers and look at what they saw.

use core::time::Duration;
use std::collections::VecDeque;

use doorbell::driver::{AcceptMode, Errno, SendBuf};
use doorbell::id::{ConnId, ListenerIndex, SlotIndex};

use super::events::{Event, EventQueue, Ready};
use super::faults::{FaultCounts, FaultKind, FaultPlan};
use super::peer::{Peer, PeerIndex, PeerLog, PeerPlan, Place, ResetCause};
use super::rng::Rng;
use crate::clock::VirtualClock;

/// What a simulation is made of.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Decides everything that is random.
    pub seed: u64,
    /// What goes wrong, and how often.
    pub plan: FaultPlan,
    /// Listeners.
    pub listeners: u16,
    /// Slots: the worker's `conns_max` and the margin for connections accepted while a disarm is under way.
    pub slots: u32,
    /// How likely an operation that could complete at once does, in millionths: 1,000,000 is epoll's way, 0 io_uring's.
    pub at_once_millionths: u32,
    /// Bytes one receive can bring.
    pub recv_buf_len: usize,
    /// Connections reported between two looks of the worker.
    pub accept_batch_max: u32,
    /// What the driver can tell of bytes that a peer has not taken.
    pub unsent: Unsent,
    /// True to record [`World::trace`].
    pub traced: bool,
}

impl SimConfig {
    /// A quiet world: one listener, no faults, operations complete later.
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
            traced: false,
        }
    }
}

/// Whether [`Driver::unsent`](doorbell::driver::Driver::unsent) is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// As on a kernel that makes no ordinary descriptor of a direct one.
    Hidden,
    /// As with ordinary descriptors.
    Known,
    /// As with direct descriptors: once [`find_unsent`](doorbell::driver::Driver::find_unsent) was asked and a wait is over.
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
    /// Reported since the worker last looked.
    pub(super) batch: u32,
    /// Its completions keep their order: the next is delivered no earlier than this.
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
    /// The worker's name for it, from its first operation.
    pub(super) conn: Option<ConnId>,
    /// Asked and not yet reported to the worker (I-2).
    pub(super) recv_busy: bool,
    pub(super) send_busy: bool,
    pub(super) close_busy: bool,
    pub(super) recv: Option<PendingRecv>,
    pub(super) send: Option<PendingSend>,
    /// From when on [`Unsent::OnDemand`] is known.
    pub(super) unsent_from: Option<u64>,
    /// Names of earlier uses, for completions that come too late.
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

/// Everything a simulation consists of, seen from outside the driver.
#[derive(Debug)]
pub struct World {
    pub(super) clock: VirtualClock,
    pub(super) rng: Rng,
    pub(super) plan: FaultPlan,
    pub(super) config: SimConfig,
    pub(super) faults: FaultCounts,
    pub(super) listeners: Vec<Listener>,
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<SlotIndex>,
    /// Slots that were used before, at least once.
    pub(super) used: Vec<SlotIndex>,
    pub(super) peers: Vec<Peer>,
    pub(super) ready: VecDeque<Ready>,
    pub(super) violations: Vec<String>,
    pub(super) overruns: Vec<(u64, u64)>,
    /// True from an alarm until a wait has returned for it.
    pub(super) alarmed: bool,
    /// What the next confirmation of a disarm says instead of nothing.
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
            slots: (0..config.slots).map(|_| Slot::default()).collect(),
            free: (0..config.slots).rev().map(SlotIndex).collect(),
            used: Vec::new(),
            peers: Vec::new(),
            ready: VecDeque::new(),
            violations: Vec::new(),
            overruns: Vec::new(),
            alarmed: false,
            disarm_fails_with: None,
            events: EventQueue::default(),
            trace: Vec::new(),
            config,
        }
    }

    /// Adds a peer that will connect and play its script.
    pub fn add_peer(&mut self, plan: PeerPlan) -> PeerIndex {
        let index = PeerIndex(self.peers.len());
        let connect_after = plan.connect_after;
        self.note(|| format!("{index:?} planned: {plan:?}"));
        self.peers.push(Peer::new(plan));
        self.schedule(connect_after, Event::PeerNext(index));
        index
    }

    /// Lets the wait of that moment return, so that a test can act then.
    pub fn alarm_after(&mut self, time: Duration) {
        self.schedule(time, Event::Alarm);
    }

    /// What a peer saw.
    pub fn log(&self, peer: PeerIndex) -> &PeerLog {
        &self.peers[peer.0].log
    }

    /// Peers added.
    pub fn peers_len(&self) -> usize {
        self.peers.len()
    }

    /// True when no peer has anything left to do.
    pub fn peers_are_done(&self) -> bool {
        self.peers.iter().all(|peer| peer.script.is_empty() && peer.log.connected_at.is_some())
    }

    /// Slots not in use.
    pub fn slots_free(&self) -> usize {
        self.free.len()
    }

    /// Clients waiting in a listener's backlog.
    pub fn backlog_len(&self, listener: ListenerIndex) -> usize {
        self.listeners[listener.index()].backlog.len()
    }

    /// How often accept was armed on a listener.
    pub fn accept_arms(&self, listener: ListenerIndex) -> u64 {
        self.listeners[listener.index()].arms
    }

    /// True when nothing will ever happen by itself.
    pub fn is_quiet(&self) -> bool {
        self.events.is_empty() && self.ready.is_empty()
    }

    /// Broken promises that only the driver can see.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// The faults so far.
    pub const fn faults(&self) -> &FaultCounts {
        &self.faults
    }

    /// Counts a fault that the test itself made.
    pub fn count_fault(&mut self, kind: FaultKind) {
        self.faults.count(kind);
    }

    /// Changes what goes wrong from now on.
    pub fn set_plan(&mut self, plan: FaultPlan) {
        self.plan = plan;
    }

    /// True when a wait overran in this span: a deadline there may be noticed late.
    pub fn overran_within(&self, from_nanos: u64, to_nanos: u64) -> bool {
        self.overruns.iter().any(|(start, end)| *start <= to_nanos && *end >= from_nanos)
    }

    /// What happened, when it was recorded.
    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    /// Virtual nanoseconds.
    pub fn now(&self) -> u64 {
        self.clock.now_nanos()
    }

    /// Plays events until one makes a completion or `limit` is reached; `None`: until nothing is left.
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

    /// Plays every event that is due.
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

    /// Makes a completion visible at this moment of a wait, or later when the plan says so.
    pub(super) fn complete(&mut self, ready: Ready) {
        let delayed = self.strikes(FaultKind::CompletionDelayed);
        let after = if delayed { self.micros(1..20_000) } else { Duration::ZERO };
        self.schedule(after, Event::Deliver(ready));
    }

    /// True when the plan lets this fault happen here; counts it.
    pub(super) fn strikes(&mut self, kind: FaultKind) -> bool {
        let strikes = self.rng.hits(self.plan.millionths(kind));
        if strikes {
            self.faults.count(kind);
            self.note(|| format!("FAULT {kind}"));
        }
        strikes
    }

    /// The same, and remembers it in the peer's log: this connection need not go well any more.
    pub(super) fn strikes_peer(&mut self, kind: FaultKind, peer: PeerIndex) -> bool {
        let strikes = self.strikes(kind);
        if strikes {
            self.peers[peer.0].log.faults.push(kind);
            self.note(|| format!("  of {peer:?}"));
        }
        strikes
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

    /// What the kernel does when the process is gone: every connection and every waiting client is reset.
    pub(super) fn server_gone(&mut self) {
        let now = self.now();
        for peer in &mut self.peers {
            // Whoever has a connection that was handed over lives on.
            if peer.place != Place::Handed
                && peer.log.connected_at.is_some()
                && !peer.log.is_over()
                && !peer.tx_fin
            {
                peer.log.reset = Some((now, ResetCause::ServerGone));
                peer.log.bytes_lost += peer.unread_len;
                peer.script.clear();
                peer.broken = Some(Errno::CONNRESET);
                peer.place = Place::Closed;
            }
        }
        self.listeners.iter_mut().for_each(|listener| listener.open = false);
        self.ready.clear();
        // What left the server before still arrives.
        while let Some((at, event)) = self.events.take() {
            self.clock.advance_to(at);
            if matches!(event, Event::ToPeer { .. } | Event::ToServer { .. } | Event::PeerRead(_)) {
                self.play(event);
            }
        }
    }
}
