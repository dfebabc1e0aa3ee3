//! A worker: the driver, connections, deadlines and listeners of one thread, run turn by turn.
//!
//! # A turn
//!
//! 1. **wait** for the driver, at most until the nearest deadline;
//! 2. **clock**: read it once; this is the time of the whole turn;
//! 3. **apply** each completion to its connection (`apply.rs`), then continue postponed
//!    connections;
//! 4. **inbox**: commands of other threads, connections that other workers have accepted
//!    (`pass.rs`), messages for connections (`streams.rs`) and results of jobs (`jobs.rs`);
//! 5. **timers**: connections whose deadline has passed, if the turn is not late (`pause.rs`); then
//!    hand over the connections that were detached in this turn (`hand_over.rs`);
//! 6. **listeners**: arm, disarm and watch accept (`tend.rs`) and datagram sockets
//!    (`datagrams.rs`);
//! 7. **publish** the counters.
//!
//! Operations that a turn puts into the ring reach the kernel with the wait of the next turn.
//!
//! # Invariants (asserted in debug builds and after each turn of the simulator)
//!
//! - **I-1** The kernel accesses only memory owned by `doorbell-ring`, and returns that memory with
//!   the final completion.
//! - **I-2** A slot has at most one recv, one send and one close in flight.
//! - **I-3** A slot is freed only when nothing is in flight and its close has completed.
//! - **I-4** On io_uring with direct descriptors, the slot index is the fixed-file index.
//! - **I-5** A completion whose generation does not match is counted and dropped, never applied.
//! - **I-6** Accept is not armed, or is being disarmed, while the table is full: clients wait in
//!   the backlog and are not reset.
//! - **I-7** Every queue, pool, table and retry has a cap; after the start nothing grows beyond its
//!   cap.
//! - **I-8** opened − closed = live slots.
//! - **I-9** A byte of one connection's reply never reaches another connection.
//! - **I-10** The result of a job reaches only the request that submitted it: slot, generation and
//!   job number must match; otherwise the result is dropped.

mod accept;
mod admit;
mod apply;
mod arrival;
mod balancer;
mod buffers;
mod datagram_sockets;
mod datagrams;
mod drain;
mod exchange;
mod expire;
mod hand_over;
mod handler_call;
mod ip_cap;
mod jobs;
mod pass;
mod pause;
mod server;
mod streams;
mod tend;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use doorbell_http::{Date, Misuses, Next};

pub(crate) use arrival::Arrival;
pub(crate) use balancer::Balancer;
pub(crate) use ip_cap::IpTable;
pub use server::ServerShared;
pub(crate) use server::accept_margin;

use self::accept::{Admission, Gate, WatchTimer};
use self::balancer::Membership;
use self::buffers::{Buffers, InputMemory};
use self::datagram_sockets::DatagramSockets;
use self::drain::Drain;
use self::exchange::InHandler;

use self::hand_over::Departures;
use self::ip_cap::IpCap;
use self::jobs::Jobs;
use self::pause::Pause;
use crate::conn::{AfterSend, Arriving, Phase, Table};
use crate::control::WorkerShared;
use crate::driver::{Driver, Expect, Fault, Quick, Received, SendBuf, Sent};
use crate::error::CloseReason;
use crate::id::{ConnId, ListenerIndex};
use crate::panics::caught;
use crate::protocol::{ListenerProtocol, Local, Protocol as _, ProtocolConn};
use crate::stats::ListenerCounters;
use crate::time::{Clock, Time, Wheel};

/// Interval at which the wall clock is read for the `Date` field, which has a resolution of one
/// second.
const DATE_EVERY: Duration = Duration::from_millis(500);

/// Shortest wait for a deadline. After a shorter wait the coarse clock may show the same time, and
/// the worker would spin.
const CLOCK_RESOLUTION: Duration = Duration::from_millis(1);

/// Whether the worker continues after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Run another turn.
    Continue,
    /// A drain or stop is complete: no listener and no connection is open.
    Finished,
}

/// The next step for one connection.
enum Todo {
    AfterSend,
    Close(CloseReason),
    Flush,
    HandOver,
    Next(Next),
    Park,
    ParkBriefly,
    Received(Received),
    Recv(Expect),
    Resume,
    Send(SendBuf),
    Sent(Sent),
}

/// A worker. The [module](self) documents it.
#[derive(Debug)]
pub struct Worker<D, C> {
    driver: D,
    clock: C,
    server: Arc<ServerShared>,
    shared: Arc<WorkerShared>,
    now: Time,
    date: Date,
    date_due: Time,
    table: Table<ProtocolConn>,
    wheel: Wheel,
    pause: Pause,
    gates: Vec<Gate>,
    datagrams: DatagramSockets,
    /// True if a gate may have to be armed or closed.
    gates_changed: bool,
    /// Time of the next check of the gates if nothing changes.
    gates_due: Time,
    admission: Admission,
    watch: WatchTimer,
    ip_cap: IpCap,
    /// Requests that wait for the result of a job.
    jobs: Jobs,
    buffers: Buffers,
    input_memory: InputMemory,
    /// Connections that have used up their calls in [`Self::drive`] and continue after other
    /// connections, in this turn or the next. At most one entry per connection.
    postponed: VecDeque<ConnId>,
    drain: Drain,
    /// During a drain or retirement, closing listeners accept late clients until this time.
    last_call: Time,
    /// True once the successors, if any, were notified that only they accept.
    has_left: bool,
    departures: Departures,
    /// `None` if the server balances no connections itself.
    membership: Option<Membership>,
    /// The connection whose protocol is being called directly, without [`Self::handler_call`].
    in_handler: Option<InHandler>,
    /// Number of opened connections at the last update of the counters.
    opened_published: u64,
    /// Counters by [`ListenerIndex`].
    by_listener: Arc<[ListenerCounters]>,
    /// Invalid replies that were replaced by a 500 in this turn and are not reported yet.
    misuses: Misuses,
    /// A failure injected by a command.
    drill: Option<Fault>,
}

impl<D: Driver, C: Clock> Worker<D, C> {
    /// Creates a worker with a driver that has the server's listeners, in order, and
    /// [`ServerShared::slots_max`] slots.
    pub fn new(driver: D, mut clock: C, server: Arc<ServerShared>, shared: Arc<WorkerShared>) -> Self {
        let now = clock.now();
        let limits = &server.limits;
        let notify = shared.delivery();
        let memory = |protocol: &ListenerProtocol| protocol.memory(server.slots_max(), &notify);
        let counters = shared.counters.datagrams(server.datagrams.len());
        let local = Local::of(server.protocols.iter().map(memory).collect());
        let gate = |(index, is_ours): (u16, &bool)| {
            let mut gate = Gate::new(*is_ours, limits.accept_backoff_min, limits.accept_backoff_max);
            if !driver.is_listening(ListenerIndex(index)) {
                gate.close();
            }
            gate
        };
        Self {
            now,
            date: Date::new(clock.unix_secs()),
            date_due: now.after(DATE_EVERY),
            table: Table::new(server.slots_max()),
            wheel: Wheel::new(now),
            pause: Pause::new(now),
            gates: (0..).zip(&server.listener_is_ours).map(gate).collect(),
            datagrams: DatagramSockets::new(&server, counters, &driver),
            gates_changed: true,
            gates_due: now,
            admission: Admission::new(limits.conns_max_of_worker(server.workers)),
            watch: WatchTimer::new(now),
            ip_cap: IpCap::new(),
            jobs: Jobs::new(&shared),
            buffers: Buffers::new(local),
            input_memory: InputMemory::new(limits.input_bytes_max / usize::from(server.workers)),
            postponed: VecDeque::new(),
            drain: Drain::default(),
            last_call: now,
            has_left: false,
            departures: Departures::new(server.hand_over.as_ref()),
            membership: Membership::of(&shared, server.balancer.as_ref()),
            in_handler: None,
            opened_published: 0,
            by_listener: shared.counters.listeners(server.listener_is_shared.len()),
            misuses: Misuses::default(),
            drill: None,
            driver,
            clock,
            server,
            shared,
        }
    }

    /// Arms accept on every listener, as the first turn also does.
    pub fn open(&mut self) {
        self.tend_gates();
    }

    /// Runs one turn, which first waits for events.
    ///
    /// # Errors
    /// The driver failed. Its connections are lost; its listeners are kept.
    pub fn turn(&mut self) -> Result<Flow, Fault> {
        let mut wait = self.wait_max();
        if let Some(until) = wait.as_mut().filter(|until| !until.is_zero()) {
            *until = CLOCK_RESOLUTION.max(*until);
            if self.driver.wake_by(self.now, self.now.after(*until)) {
                wait = None;
            }
        }
        if self.jobs.expects_answers() && !self.jobs.may_sleep() {
            wait = Some(Duration::ZERO);
        }
        self.driver.wait(wait)?;
        self.jobs.awake();
        self.read_clock();
        while let Err(panic) = caught(|| self.apply_all()) {
            self.on_panic(panic);
        }
        self.run_postponed();
        self.take_commands();
        self.take_answers();
        self.expire();
        if self.departures.busy {
            self.flush_departures();
        }
        self.tend();
        self.publish();
        match self.drill.take() {
            Some(fault) => Err(fault),
            None => Ok(self.flow()),
        }
    }

    fn apply_all(&mut self) {
        loop {
            while let Some(quick) = self.driver.next_quick() {
                match quick {
                    Quick::Accepted(listener, slot) => self.on_accepted(listener, slot),
                    Quick::Ready(conn) => self.on_ready(conn),
                }
            }
            let Some(completion) = self.driver.next() else {
                return;
            };
            self.apply(completion);
        }
    }

    /// Number of open connections.
    pub fn conns_live(&self) -> u32 {
        self.table.live()
    }

    /// Number of connections that have a hand-over permit and have not left the driver yet.
    pub fn conns_leaving(&self) -> usize {
        self.departures.leaving()
    }

    /// Returns the driver, so that another driver can replace it. Connections are dropped. A drain,
    /// retirement or stop in progress is sent to the inbox, where the next worker finds it.
    pub fn into_driver(mut self) -> D {
        self.lose_connections();
        self.pass_on();
        self.driver
    }

    /// Drops all connections. The connections no longer count towards the cap per address, so that
    /// their clients may connect to the next worker. Their pending jobs are cancelled.
    pub fn lose_connections(&mut self) {
        self.for_each_live(|worker, id| {
            if worker.jobs.holds(id.slot) {
                worker.give_up_job(id);
            }
            if let Some(cell) = worker.table.live_mut(id).ip_cell.take() {
                worker.server.ip_table.leave(cell);
            }
            worker.end_protocol(id, CloseReason::Lost);
        });
        self.ip_cap.on_close(&self.server.ip_table, 0);
        // The counters of the unfinished turn are published too.
        self.publish();
        self.shared.counters.lose_connections();
    }

    /// Returns the driver.
    pub const fn driver(&self) -> &D {
        &self.driver
    }

    /// Returns the driver, for a simulation whose peers act between turns.
    pub const fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Asserts the invariants that hold between turns. For tests and simulation only, because it
    /// iterates over all connections.
    pub fn check_invariants(&mut self) {
        let (opened, closed) = self.table.opened_and_closed();
        assert_eq!(opened - closed, u64::from(self.table.live()), "I-8: opened - closed = live");
        let mut from = 0;
        let (mut live, mut input_bytes) = (0, 0);
        while let Some(id) = self.table.next_live(from) {
            from = id.slot.0 + 1;
            live += 1;
            let conn = self.table.live_mut(id);
            input_bytes += conn.input.capacity();
            let has_job = conn.arriving == Arriving::JobResult;
            assert_eq!(
                has_job,
                self.jobs.holds(id.slot),
                "I-10: a connection waits for its own job: {conn:?}"
            );
            let gone = matches!(conn.phase(), Phase::Closing | Phase::Leaving | Phase::Waiting);
            assert!(!(gone && has_job), "I-10: the job of a closing connection is given up: {conn:?}");
            let has_job = has_job || conn.after_send == AfterSend::Wait;
            let waits = conn.in_flight() || gone || conn.postponed || has_job;
            assert!(waits, "every live connection waits for something: {conn:?}");
        }
        assert_eq!(live, self.table.live(), "I-8: the live count is the number of live slots");
        assert_eq!(input_bytes, self.input_memory.bytes(), "I-7: memory for input is accounted for");
        assert!(self.wheel.armed() <= live as usize, "a free slot has no deadline");
        let open = !self.admission.is_full();
        for gate in &self.gates {
            let open = open && !gate.is_held();
            assert!(open || !gate.is_open(), "I-6: a full table does not accept");
        }
    }

    fn read_clock(&mut self) {
        self.now = self.clock.now();
        if self.date_due <= self.now {
            self.date.refresh(self.clock.unix_secs());
            self.date_due = self.now.after(DATE_EVERY);
        }
    }

    fn wait_max(&self) -> Option<Duration> {
        if !self.postponed.is_empty() || self.gates_changed {
            return Some(Duration::ZERO);
        }
        let due = self.wheel.due().max(self.pause.until()).min(self.gates_due);
        (due < Time::MAX).then(|| due.since(self.now))
    }

    fn publish(&mut self) {
        let counters = &self.shared.counters;
        counters.turns.add(1);
        counters.turned.set(self.now.as_nanos());
        let (opened, _) = self.table.opened_and_closed();
        counters.conns_accepted.add(opened - core::mem::replace(&mut self.opened_published, opened));
        counters.conns_live.set(u64::from(self.table.live()));
        counters.take_driver(self.driver.counters());
        let misuses = self.buffers.reply.take_misuses();
        if misuses.count() != 0 {
            counters.handler_misuses.add(u64::from(misuses.count()));
            self.misuses.add(misuses);
        }
        for (gate, listener) in self.gates.iter_mut().zip(&*self.by_listener) {
            let (accepted, placed) = gate.take_accepted();
            listener.accepted_and_done(accepted, accepted - placed);
        }
    }

    fn flow(&self) -> Flow {
        let closed = || self.gates.iter().chain(&self.datagrams.gates).all(Gate::is_closed);
        let no_queue = || self.membership.as_ref().is_none_or(Membership::is_empty);
        let is_finished = self.drain.is_on() && closed() && self.table.live() == 0 && no_queue();
        if is_finished { Flow::Finished } else { Flow::Continue }
    }

    fn listeners(&self) -> impl Iterator<Item = ListenerIndex> + use<D, C> {
        let count = u16::try_from(self.gates.len()).expect("the builder caps the number of listeners");
        (0..count).map(ListenerIndex)
    }
}
