//! The delay between due time and start of runs, as a histogram.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in microseconds of all buckets but the last, which is unbounded.
pub const LAG_BOUNDS_US: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// Histogram of the delays, shared by all checks.
#[derive(Debug, Default)]
pub struct Lag {
    buckets: [AtomicU64; LAG_BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// A snapshot of the histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagCounts {
    /// Counts per bucket, not cumulative; the last bucket is unbounded.
    pub buckets: [u64; LAG_BOUNDS_US.len() + 1],
    /// Sum of all delays in microseconds.
    pub sum_us: u64,
}

impl Lag {
    pub(crate) fn add(&self, lag: Duration) {
        let lag_us = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        let bucket = LAG_BOUNDS_US.partition_point(|bound| *bound < lag_us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(lag_us, Ordering::Relaxed);
    }

    /// Takes a snapshot.
    #[must_use]
    pub fn counts(&self) -> LagCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LagCounts { buckets: self.buckets.each_ref().map(read), sum_us: read(&self.sum_us) }
    }
}

impl LagCounts {
    /// Mean delay in microseconds.
    #[must_use]
    pub fn mean_us(&self) -> u64 {
        self.sum_us.checked_div(self.total()).unwrap_or(0)
    }

    /// Number of starts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The quantile `permille` / 1000 of all delays, as the upper bound of its bucket; `None` for
    /// the last bucket.
    #[must_use]
    pub fn at_permille(&self, permille: u64) -> Option<Duration> {
        let wanted = (self.total() * permille).div_ceil(1000);
        let mut seen = 0;
        let bounds = LAG_BOUNDS_US.iter().zip(&self.buckets).find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        bounds.map(|(bound, _)| Duration::from_micros(*bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_fall_into_their_buckets() {
        let lag = Lag::default();
        for micros in [0, 100, 101, 50_000, 50_001, 2_000_000] {
            lag.add(Duration::from_micros(micros));
        }
        let counts = lag.counts();
        assert_eq!(counts.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1]);
        assert_eq!((counts.total(), counts.sum_us), (6, 2_100_202));
        assert_eq!(counts.at_permille(500), Some(Duration::from_micros(250)));
        assert_eq!(counts.at_permille(600), Some(Duration::from_millis(50)));
        assert_eq!(counts.at_permille(990), None);
        assert_eq!(LagCounts::default().at_permille(990), Some(Duration::from_micros(100)));
    }
}
