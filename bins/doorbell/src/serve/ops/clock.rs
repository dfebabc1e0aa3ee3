//! The time of day, and a time that nobody sets.
//!
//! Does not know about: what happens when.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Times since it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "what operators do happens in real time")]
    pub(super) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Since the start.
    pub(super) fn now(self) -> Duration {
        self.origin.elapsed()
    }
}

/// Milliseconds since 1970; 0 before.
#[expect(clippy::disallowed_methods, reason = "events and views have the time of day")]
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(since)
}

/// Whole milliseconds, as many as there is room for.
pub(in crate::serve) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
