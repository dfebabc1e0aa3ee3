//! The only code that reads the clock. Times are nanoseconds since the start of the run, identical
//! for every thread.

use std::time::{Duration, Instant};

/// Nanoseconds since the start of the run.
pub(crate) type Nanos = u64;

/// A time later than the end of any run.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// A clock that threads can share.
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

/// A duration as nanoseconds, at most [`NEVER`].
pub(crate) fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

#[expect(clippy::disallowed_methods, reason = "the clock of this program")]
fn instant() -> Instant {
    Instant::now()
}
