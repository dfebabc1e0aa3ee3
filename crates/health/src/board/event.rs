//! What a board says has happened.
//!
//! Does not know about: logs or metrics.

use super::index::{CheckIndex, EndpointIndex};
use crate::check::Move;
use crate::endpoint::Verdict;
use crate::time::Time;

/// One transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A check changed its state.
    Check {
        /// When.
        at: Time,
        /// Which.
        check: CheckIndex,
        /// From which state to which.
        moved: Move,
    },
    /// An endpoint changed its state, or has the same one by another rule.
    Endpoint {
        /// When.
        at: Time,
        /// Which.
        endpoint: EndpointIndex,
        /// What it was.
        from: Verdict,
        /// What it is.
        to: Verdict,
    },
}

/// What one call changed. Lives in the board's own memory until the next call.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// The transitions, in order.
    pub events: &'a [Event],
    /// The endpoints whose replies are different now; each once.
    pub rendered: &'a [EndpointIndex],
    /// The checks whose own replies are different now; each once.
    pub checks: &'a [CheckIndex],
}

impl Changes<'_> {
    /// Whether nothing is different.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.rendered.is_empty() && self.checks.is_empty()
    }
}
