//! What every probe looks at: is the process draining, has a worker failed?
//!
//! Does not know about: routes, replies, who changes it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Read by every probe and written a few times in a life.
#[derive(Debug, Default)]
pub(super) struct State {
    degraded: AtomicBool,
    draining: AtomicBool,
}

/// What a health endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Degraded,
    Down,
    Draining,
    Up,
}

impl State {
    pub(super) fn set_degraded(&self) {
        self.degraded.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// The verdict of an endpoint that is about taking traffic.
    pub(super) fn readiness(&self) -> Verdict {
        if self.draining.load(Ordering::Relaxed) {
            Verdict::Draining
        } else if self.degraded.load(Ordering::Relaxed) {
            Verdict::Degraded
        } else {
            Verdict::Up
        }
    }
}
