//! The time of day, and a monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Measures the time since its creation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "commands of operators happen in real time")]
    pub(super) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Time since the start.
    pub(super) fn now(self) -> Duration {
        self.origin.elapsed()
    }
}

/// Time since 1970; zero if the clock is set to an earlier time. May jump, because the clock can be
/// set at any time.
#[expect(clippy::disallowed_methods, reason = "events, views and results are shown with the time of day")]
pub fn time_of_day() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    #[cfg(test)]
    let since = jump::shifted(since);
    since
}

/// Milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    millis(time_of_day())
}

/// Whole milliseconds, saturating.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Shifts the time of day in the thread of a test.
#[cfg(test)]
pub(super) mod jump {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static SHIFT_MS: Cell<i64> = const { Cell::new(0) };
    }

    /// Shifts the time of day.
    pub(in crate::operator) fn to(shift_ms: i64) {
        SHIFT_MS.set(shift_ms);
    }

    pub(super) fn shifted(since: Duration) -> Duration {
        let shift = SHIFT_MS.get();
        let by = Duration::from_millis(shift.unsigned_abs());
        if shift < 0 { since.saturating_sub(by) } else { since + by }
    }
}
