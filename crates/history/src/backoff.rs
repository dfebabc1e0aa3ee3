//! Delays between attempts: they double up to a maximum, and each is shortened by a random share.
//!
//! Does not know about: the source of random numbers, what is attempted.

use std::time::Duration;

/// Maximum delay after the first failure.
pub const FIRST: Duration = Duration::from_millis(500);
/// Maximum delay after any failure.
pub const LAST: Duration = Duration::from_secs(30);

/// Delays of one series of failures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the delay after a further failure: a random time between half of the current maximum
    /// and the maximum, so that many instances do not return to a store at the same time.
    pub fn next(&mut self, random: u64) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(16)).min(LAST);
        self.failures = self.failures.saturating_add(1);
        let half = longest / 2;
        let span = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_nanos(random % span)
    }

    /// Begins a new series, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
