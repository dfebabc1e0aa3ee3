//! The one place that reads the clock: nanoseconds since the run began, the same beginning for every thread.
//!
//! Does not know about: who asks, how often.

use std::time::{Duration, Instant};

/// Nanoseconds since the run began.
pub(crate) type Nanos = u64;

/// Never: later than any run.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// A clock that can be given to other threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { began: instant() }
    }

    pub(crate) fn now(self) -> Nanos {
        nanos(instant().duration_since(self.began))
    }
}

/// A duration as nanoseconds, cut at [`NEVER`].
pub(crate) fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

#[expect(clippy::disallowed_methods, reason = "the clock of this program")]
fn instant() -> Instant {
    Instant::now()
}
