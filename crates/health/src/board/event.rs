//! The transitions that a board reports.

use super::index::{CheckIndex, EndpointIndex};
use crate::check::Move;
use crate::endpoint::Verdict;
use crate::time::Time;

/// One transition of a check or an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A check changed its state.
    Check {
        /// The time of the change.
        at: Time,
        /// The check.
        check: CheckIndex,
        /// The old and the new state.
        moved: Move,
    },
    /// An endpoint changed its state, or only the cause of its state.
    Endpoint {
        /// The time of the change.
        at: Time,
        /// The endpoint.
        endpoint: EndpointIndex,
        /// The verdict before.
        from: Verdict,
        /// The verdict after.
        to: Verdict,
    },
}

/// The changes of one call, borrowed from the board until the next call.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// The transitions, in order.
    pub events: &'a [Event],
    /// The endpoints whose replies changed; each once.
    pub rendered: &'a [EndpointIndex],
    /// The checks whose own replies ([`Board::check_reply`](super::Board::check_reply)) changed;
    /// each once.
    pub checks: &'a [CheckIndex],
}

impl Changes<'_> {
    /// Whether nothing changed.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.rendered.is_empty() && self.checks.is_empty()
    }
}
