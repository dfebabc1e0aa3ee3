//! Draining and stopping: what a worker does on a command, and when it is over.
//!
//! Does not know about: signals, other workers.

use core::time::Duration;

use super::Worker;
use crate::config::Limits;
use crate::control::Command;
use crate::driver::{Driver, Errno, Fault};
use crate::error::CloseReason;
use crate::id::ConnId;
use crate::time::{Clock, Time};

/// How far the end of a worker has come.
#[derive(Debug, Default)]
pub(crate) enum Drain {
    /// Not draining.
    #[default]
    Off,
    /// Connections in progress are finished until the deadline; the backlog is served.
    Draining(Time),
    /// Nothing is accepted, connections are closed.
    Stopping,
}

impl Drain {
    pub(crate) const fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    pub(crate) const fn stops_accepting(&self) -> bool {
        matches!(self, Self::Stopping)
    }

    pub(crate) const fn deadline(&self) -> Option<Time> {
        match self {
            Self::Draining(deadline) => Some(*deadline),
            Self::Off | Self::Stopping => None,
        }
    }
}

impl<D: Driver, C: Clock> Worker<D, C> {
    pub(super) fn take_commands(&mut self) {
        for command in self.shared.inbox.take() {
            match command {
                Command::Drain { timeout } => self.begin_drain(timeout),
                Command::Fail => self.drill = Some(Fault { call: "a drill", errno: Errno::IO }),
                Command::Stop => self.begin_stop(),
            }
        }
        if self.drain.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.begin_stop();
        }
    }

    fn begin_drain(&mut self, timeout: Duration) {
        if self.drain.is_on() {
            return;
        }
        self.drain = Drain::Draining(self.now.after(timeout));
        self.gates_changed = true;
        self.for_each_live(Self::finish_if_idle);
    }

    fn begin_stop(&mut self) {
        if self.drain.stops_accepting() {
            return;
        }
        self.drain = Drain::Stopping;
        self.disarm_gates();
        self.for_each_live(|worker, id| worker.close_now(id, CloseReason::Drain));
    }

    /// Calls `f` for each connection that lives when its slot comes up.
    pub(super) fn for_each_live(&mut self, f: impl Fn(&mut Self, ConnId)) {
        let mut from = 0;
        while let Some(id) = self.table.next_live(from) {
            from = id.slot.0 + 1;
            f(self, id);
        }
    }

    /// The linger that this worker's limits allow, from now.
    pub(super) fn linger_until(&self) -> (Time, u32) {
        let Limits { linger_timeout, linger_bytes_max, .. } = self.server.limits;
        (self.now.after(linger_timeout), linger_bytes_max)
    }
}
