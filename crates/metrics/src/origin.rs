//! Converts times of a monotonic clock to Unix timestamps. An [`Origin`] is the Unix time at which
//! the clock was 0.

use std::time::Duration;

use crate::family::as_f64;

/// The Unix time at which a clock was 0. Stored between scrapes, so that unchanged timestamps do
/// not vary; updated after steps of the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin(Duration);

impl Origin {
    /// Minimum difference that counts as a step. Smaller differences arise because the clocks are
    /// read one after the other.
    pub const STEP_MIN: Duration = Duration::from_millis(500);

    /// The origin of a clock whose time is `since_zero` when the Unix time is `time_of_day`.
    #[must_use]
    pub const fn found(time_of_day: Duration, since_zero: Duration) -> Self {
        Self(time_of_day.saturating_sub(since_zero))
    }

    /// Returns `previous`, unless it differs by a step.
    #[must_use]
    pub fn or_previous(self, previous: Self) -> Self {
        if previous.0.abs_diff(self.0) < Self::STEP_MIN { previous } else { self }
    }

    /// Seconds since 1970, with milliseconds.
    #[must_use]
    pub fn secs(self, since_zero: Duration) -> f64 {
        let since_1970 = self.0.saturating_add(since_zero);
        as_f64(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)) / 1e3
    }
}
