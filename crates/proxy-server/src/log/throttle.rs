//! Rate limit for log lines that clients can cause: one line per second and kind, with the number
//! of suppressed lines.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Rate limit of one kind of line.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Earliest time of the next line.
    next_ms: AtomicU64,
    suppressed: AtomicU64,
}

/// Minimum time between two lines of a kind.
const PAUSE_MS: u64 = 1000;

impl Throttle {
    pub(crate) const fn new() -> Self {
        Self { next_ms: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Returns the number of lines suppressed since the last logged line; `None` if the current
    /// line is suppressed too.
    #[expect(clippy::disallowed_methods, reason = "lines are not logged on the data path")]
    pub(crate) fn turn(&self) -> Option<u64> {
        static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        self.turn_at(u64::try_from(ORIGIN.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn turn_at(&self, now_ms: u64) -> Option<u64> {
        let next = self.next_ms.load(Ordering::Relaxed);
        let is_first = now_ms >= next
            && self
                .next_ms
                .compare_exchange(next, now_ms + PAUSE_MS, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_first {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_passes_with_the_number_of_suppressed_ones() {
        let throttle = Throttle::new();
        let turns = [0, 1, 999, 1000, 1001, 5000, 6000].map(|now_ms| throttle.turn_at(now_ms));
        assert_eq!(turns, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }
}
