//! Drain and stop: the steps of a worker after these commands, and the condition for its end.

use core::time::Duration;

use super::handler_call::Input;
use super::pause::PAUSE_MIN;
use super::{Todo, Worker};
use crate::config::Limits;
use crate::conn::{AfterSend, Arriving, Phase};
use crate::control::Command;
use crate::driver::{Driver, Errno, Fault};
use crate::error::CloseReason;
use crate::id::ConnId;
use crate::protocol::Protocol;
use crate::time::{Clock, Time};

/// How long a closing listener accepts clients that are already connecting. The time is longer than
/// a round trip, and shorter than one second, after which a client retransmits its dropped SYN.
const LAST_CALL: Duration = Duration::from_millis(100);

/// Shutdown state of a worker.
#[derive(Debug, Default)]
pub(crate) enum Drain {
    /// Not draining.
    #[default]
    Off,
    /// Requests in progress are finished until this deadline; clients in the backlog are served.
    Draining(Time),
    /// A successor accepts. Each connection may get one more reply, until its usual deadline or
    /// `until`.
    Retiring {
        /// Time at which the drain of the remaining connections begins.
        until: Time,
        /// Timeout of that drain.
        timeout: Duration,
    },
    /// The worker accepts no clients; connections are closed.
    Stopping,
}

impl Drain {
    pub(crate) const fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    /// True when connections no longer get their full timeouts.
    pub(crate) const fn shortens_timeouts(&self) -> bool {
        matches!(self, Self::Draining(_) | Self::Stopping)
    }

    pub(crate) const fn stops_accepting(&self) -> bool {
        matches!(self, Self::Stopping)
    }

    pub(crate) const fn deadline(&self) -> Option<Time> {
        match self {
            Self::Draining(deadline) | Self::Retiring { until: deadline, .. } => Some(*deadline),
            Self::Off | Self::Stopping => None,
        }
    }
}

impl<D: Driver, C: Clock> Worker<D, C> {
    pub(super) fn take_commands(&mut self) {
        for command in self.shared.inbox.take() {
            match command {
                Command::Adopt => self.adopt(),
                Command::Deliver => self.deliver_messages(),
                Command::Drain { timeout } => self.begin_drain(timeout),
                Command::Fail => self.drill = Some(Fault { call: "a simulated call", errno: Errno::IO }),
                Command::Relisten => self.relisten(),
                Command::Retire { patience, timeout } => self.begin_retire(patience, timeout),
                Command::Stop => self.begin_stop(),
            }
        }
        if self.drain.deadline().is_some_and(|deadline| deadline <= self.now) {
            match self.drain {
                Drain::Retiring { timeout, .. } => self.begin_drain(timeout),
                Drain::Draining(_) | Drain::Off | Drain::Stopping => self.begin_stop(),
            }
        }
    }

    fn begin_retire(&mut self, patience: Duration, timeout: Duration) {
        if self.drain.is_on() {
            return;
        }
        self.last_call = self.now.after(LAST_CALL);
        self.drain = Drain::Retiring { until: self.now.after(patience), timeout };
        self.gates_changed = true;
        self.leave_balancer();
        if let Some(successors) = self.shared.successors.get() {
            // The successors serve the clients in the backlog, so this worker need not empty it.
            let gates = self.gates.iter_mut().chain(&mut self.datagrams.gates);
            gates
                .zip(&successors.inherited)
                .filter(|(_, inherited)| **inherited)
                .for_each(|(gate, _)| gate.exclusive = false);
        }
    }

    fn begin_drain(&mut self, timeout: Duration) {
        let deadline = self.now.after(timeout);
        if let Drain::Draining(before) = &mut self.drain {
            *before = deadline.min(*before);
        }
        if self.drain.shortens_timeouts() {
            return;
        }
        if !self.drain.is_on() {
            self.last_call = self.now.after(LAST_CALL);
        }
        self.drain = Drain::Draining(deadline);
        self.gates_changed = true;
        self.leave_balancer();
        self.note_lent_sockets();
        self.finish_idle();
    }

    fn note_lent_sockets(&mut self) {
        if let Some(lent) = self.shared.lent.get() {
            let gates = self.gates.iter_mut().chain(&mut self.datagrams.gates);
            gates.zip(&**lent).for_each(|(gate, is_lent)| gate.lent = *is_lent);
        }
    }

    /// Puts the shutdown in progress into the inbox, for the worker that replaces this worker.
    pub(super) fn pass_on(&self) {
        let command = match self.drain {
            Drain::Off => return,
            Drain::Draining(deadline) => Command::Drain { timeout: deadline.since(self.now) },
            Drain::Retiring { until, timeout } => {
                Command::Retire { patience: until.since(self.now), timeout }
            }
            Drain::Stopping => Command::Stop,
        };
        self.shared.send(command);
    }

    /// Ends idle connections, including those that arrived since the drain began and sent nothing.
    pub(super) fn finish_idle(&mut self) {
        self.for_each_live(Self::finish_if_idle);
    }

    fn begin_stop(&mut self) {
        if self.drain.stops_accepting() {
            return;
        }
        self.drain = Drain::Stopping;
        self.close_queue();
        self.note_lent_sockets();
        self.disarm_gates();
        self.for_each_live(|worker, id| worker.close_now(id, CloseReason::Drain));
    }

    /// Closes a connection without a further reply.
    fn close_now(&mut self, id: ConnId, reason: CloseReason) {
        let conn = self.table.live_mut(id);
        if matches!(conn.phase(), Phase::Closing | Phase::Leaving) {
            return;
        }
        if conn.send_in_flight || conn.has_output() || self.has_begun_reply(id) {
            // A partial reply must not look complete to the peer.
            self.driver.reset_on_close(id);
        }
        self.drive(id, Todo::Close(reason));
    }

    /// True between the parts of a reply.
    pub(super) fn has_begun_reply(&mut self, id: ConnId) -> bool {
        let conn = self.table.live_mut(id);
        let protocol = &self.server.protocols[conn.listener.index()];
        conn.protocol.as_ref().is_some_and(|state| protocol.has_begun_reply(state))
    }

    /// Ends an idle connection without losing a request that is just arriving.
    fn finish_if_idle(&mut self, id: ConnId) {
        let conn = self.table.live_mut(id);
        // A postponed connection continues in the next turn, often with input.
        if conn.protocol.is_none() || conn.phase() != Phase::Open || conn.send_in_flight || conn.postponed {
            return;
        }
        if self.may_ask_first(id) {
            self.expire_by_linger(id);
        } else if self.is_idle(id) {
            let todo = self.end_idle(id);
            if matches!(todo, Todo::ParkBriefly) {
                self.pause.begin(self.now, self.shared.counters.turns.value(), self.table.live());
            }
            self.drive(id, todo);
        }
    }

    /// Sets the deadline of a connection that waits for its first request during a drain: if the
    /// client sends none, the connection is closed.
    fn expire_by_linger(&mut self, id: ConnId) {
        let (until, _) = self.linger_until();
        self.expire_by(id, until);
    }

    /// Shortens the deadline of a parked connection during a drain.
    #[cold]
    pub(super) fn park_in_drain(&mut self, id: ConnId) {
        if self.may_ask_first(id) {
            self.expire_by_linger(id);
        }
    }

    fn expire_by(&mut self, id: ConnId, until: Time) {
        let conn = self.table.live_mut(id);
        conn.deadline = conn.deadline.min(until);
        let deadline = conn.deadline;
        self.wheel.arm(id.slot, deadline);
    }

    /// Sends the last output of an idle connection and ends it, unless input has arrived: its
    /// pending receive reports it, and the reply then ends the connection.
    fn end_idle(&mut self, id: ConnId) -> Todo {
        match self.has_input(id) {
            Some(false) => Todo::Next(self.pass_input(id, Input::Drain)),
            Some(true) => Todo::Park,
            None => Todo::ParkBriefly,
        }
    }

    /// Waits for input for as long as the driver may need to report what has arrived.
    pub(super) fn park_briefly(&mut self, id: ConnId) {
        self.park(id);
        self.expire_by(id, self.now.after(PAUSE_MIN));
    }

    /// Whether input has arrived that a pending receive will report. `None` if the driver cannot
    /// tell.
    fn has_input(&mut self, id: ConnId) -> Option<bool> {
        let conn = self.table.live_mut(id);
        // After its end, a stream stays readable. A connection that waits for a message has no
        // receive.
        let is_read = conn.peer_finished || (conn.after_send == AfterSend::Wait && !conn.recv_in_flight);
        if is_read { Some(false) } else { self.driver.has_input(id) }
    }

    /// Ends a connection that waits for input, if the server drains and the connection became idle
    /// only after the drain began, for example when its output was sent.
    pub(super) fn drain_or_park(&mut self, id: ConnId) -> Todo {
        let ends = self.drain.shortens_timeouts()
            && self.table.live_mut(id).phase() == Phase::Open
            && self.is_idle(id)
            && !self.may_ask_first(id);
        if ends { self.end_idle(id) } else { Todo::Park }
    }

    /// Ends an idle connection whose client has sent nothing by the deadline, which a drain moves
    /// to an earlier time.
    pub(super) fn finish_silent(&mut self, id: ConnId) {
        if self.has_input(id) == Some(true) {
            return self.park(id);
        }
        let conn = self.table.live_mut(id);
        let is_greeted = self.server.arrivals[conn.listener.index()].is_greeted(conn);
        let todo = match conn.has_received || is_greeted {
            true => Todo::Next(self.pass_input(id, Input::Drain)),
            false => Todo::Close(CloseReason::Drain),
        };
        self.drive(id, todo);
    }

    /// True while the client's first request may still arrive: nothing has arrived except a PROXY
    /// header or a handshake, and no job computes a greeting.
    pub(super) fn may_ask_first(&mut self, id: ConnId) -> bool {
        let conn = self.table.live_mut(id);
        let (is_silent, has_job) = (!conn.has_received, conn.after_send == AfterSend::Wait);
        !has_job && !self.has_served(id) && (is_silent || self.is_idle(id))
    }

    fn has_served(&mut self, id: ConnId) -> bool {
        let conn = self.table.live_mut(id);
        let protocol = &self.server.protocols[conn.listener.index()];
        conn.protocol.as_ref().is_some_and(|state| protocol.has_served(state))
    }

    /// True if no part of a request has arrived. False while a PROXY header is awaited or
    /// incomplete.
    pub(super) fn is_idle(&mut self, id: ConnId) -> bool {
        let conn = self.table.live_mut(id);
        let protocol = &self.server.protocols[conn.listener.index()];
        let is_idle = conn.protocol.as_ref().is_none_or(|state| protocol.is_idle(state));
        is_idle && conn.arriving != Arriving::Header
    }

    /// Calls `f` for each connection that is still live when its slot is reached.
    pub(super) fn for_each_live(&mut self, f: impl Fn(&mut Self, ConnId)) {
        let mut from = 0;
        while let Some(id) = self.table.next_live(from) {
            from = id.slot.0 + 1;
            f(self, id);
        }
    }

    /// Returns the deadline and the byte limit of a linger that begins now.
    pub(super) fn linger_until(&self) -> (Time, u32) {
        let Limits { linger_timeout, linger_bytes_max, .. } = self.server.limits;
        (self.now.after(linger_timeout), linger_bytes_max)
    }
}
