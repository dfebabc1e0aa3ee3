//! Commands to a board, from operators and from the program itself.

use super::index::{CheckIndex, EndpointIndex};
use super::{Board, Changes};
use crate::endpoint::Forced;
use crate::maintenance::Maintenance;
use crate::reason::Reason;
use crate::time::Time;

/// The endpoints that a command applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// All endpoints.
    All,
    /// One endpoint.
    One(EndpointIndex),
}

/// A command to a board.
///
/// Commands are idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins a drain or, with `None`, ends it. A drain of all endpoints and a drain of one
    /// endpoint are independent: an endpoint drains while at least one of the two lasts.
    Drain {
        /// The endpoints.
        target: Target,
        /// The reason; may be empty.
        reason: Option<Reason>,
    },
    /// Forces a state or, with `None`, returns control to the checks.
    Force {
        /// The endpoints.
        target: Target,
        /// The forced state.
        forced: Option<Forced>,
    },
    /// Begins maintenance of endpoints or, with `None`, ends it.
    Maintain {
        /// The endpoints.
        target: Target,
        /// Reason and duration.
        maintenance: Option<Maintenance>,
    },
    /// Begins maintenance of one check or, with `None`, ends it.
    MaintainCheck {
        /// The check.
        check: CheckIndex,
        /// Reason and duration.
        maintenance: Option<Maintenance>,
    },
}

impl Board {
    /// Executes a command. A command for a check or endpoint that is not on this board is counted
    /// and ignored.
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

    pub(super) fn drain_all(&mut self, reason: Option<Reason>) {
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
