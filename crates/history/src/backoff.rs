//! Delays between attempts: exponential up to a maximum, with random jitter.

use std::time::Duration;

/// Maximum delay after the first failure.
pub const FIRST: Duration = Duration::from_millis(500);
/// Maximum delay after any failure.
pub const LAST: Duration = Duration::from_secs(30);

/// Delays after consecutive failures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Records a failure and returns the delay before the next attempt: random, from half of the
    /// current maximum up to this maximum. The jitter prevents many instances from reconnecting to
    /// a store at the same time.
    pub fn next(&mut self, random: u64) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(16)).min(LAST);
        self.failures = self.failures.saturating_add(1);
        let half = longest / 2;
        let span = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_nanos(random % span)
    }

    /// Resets the delay after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
