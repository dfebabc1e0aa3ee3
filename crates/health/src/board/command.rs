//! What an operator or the life cycle says to a board.
//!
//! Does not know about: who may say it, or where it is kept across restarts.

use super::index::{CheckIndex, EndpointIndex};
use super::{Board, Changes};
use crate::endpoint::Forced;
use crate::maintenance::Maintenance;
use crate::note::Note;
use crate::time::Time;

/// Which endpoints are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// All of them.
    All,
    /// This one.
    One(EndpointIndex),
}

/// One command. Saying it again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins or, with `None`, ends a drain. One of all and one of an endpoint are two: it drains while either lasts.
    Drain {
        /// Of which endpoints.
        target: Target,
        /// Why; may be empty.
        reason: Option<Note>,
    },
    /// Forces a state or, with `None`, leaves it to the checks again.
    Force {
        /// Of which endpoints.
        target: Target,
        /// Which state.
        forced: Option<Forced>,
    },
    /// Begins or, with `None`, ends maintenance of endpoints.
    Maintain {
        /// Of which endpoints.
        target: Target,
        /// Why and for how long.
        maintenance: Option<Maintenance>,
    },
    /// Begins or, with `None`, ends maintenance of one check.
    MaintainCheck {
        /// Of which check.
        check: CheckIndex,
        /// Why and for how long.
        maintenance: Option<Maintenance>,
    },
}

impl Board {
    /// Carries out a command. One for a check or endpoint that is not here is counted and ignored.
    pub fn command(&mut self, command: Command, now: Time) -> Changes<'_> {
        let now = self.advance(now);
        match command {
            Command::Drain { target: Target::All, reason } => self.drain_all(reason),
            Command::Drain { target, reason } => {
                self.each(target, |endpoint| endpoint.set_drain(reason.clone()));
            }
            Command::Force { target, forced } => {
                self.each(target, |endpoint| endpoint.set_forced(forced.clone()));
            }
            Command::Maintain { target, maintenance } => {
                self.each(target, |endpoint| endpoint.set_maintenance(maintenance.clone()));
            }
            Command::MaintainCheck { check, maintenance } => {
                if let Some(slot) = self.slots.get_mut(check.as_usize()) {
                    let moved = slot.check.set_maintenance(maintenance, now);
                    self.follow(check, [moved, None], true, now);
                } else {
                    self.counters.ignored += 1;
                }
            }
        }
        self.settle(now);
        self.changes()
    }

    pub(super) fn drain_all(&mut self, reason: Option<Note>) {
        self.each(Target::All, |endpoint| endpoint.set_drain_of_all(reason.clone()));
        self.drain_of_all = reason;
    }

    fn each(&mut self, target: Target, act: impl Fn(&mut crate::endpoint::Endpoint)) {
        let all = 0..self.endpoints.len();
        let range = match target {
            Target::All => all,
            Target::One(endpoint) if all.contains(&endpoint.as_usize()) => {
                endpoint.as_usize()..endpoint.as_usize() + 1
            }
            Target::One(_) => {
                self.counters.ignored += 1;
                return;
            }
        };
        for at in range {
            act(&mut self.endpoints[at]);
            self.mark(at);
        }
    }
}
