//! Counters and latencies of one thread, and their totals.

mod failure;

use hdrhistogram::Histogram;

pub use failure::{FailureKind, Failures};

use crate::clock::Nanos;

/// Latencies in nanoseconds, with three significant digits. Allocates only at creation.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

/// Minimum latency. Shorter latencies count as this value.
const LATENCY_MIN_NS: u64 = 1_000;
/// Maximum latency. Longer latencies count as this value.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// Counters and latencies of one thread since the end of the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Time from the start of a connection until its handshake is complete and, if a request is
    /// sent at once, the kernel has accepted bytes of this request.
    pub connect: Latencies,
    /// Time from the intended start of a request to the first byte of its reply. Measured once per
    /// pipelined batch, for its first reply.
    pub first_byte: Latencies,
    /// Time from the intended start of a request to the end of its reply, or to the end of the
    /// connection if the server closes it.
    pub total: Latencies,
    /// Established connections.
    pub connects: u64,
    /// Connections established before the end of the measured time.
    pub connects_in_time: u64,
    /// Requests with the expected reply.
    pub requests: u64,
    /// Requests with the expected reply before the end of the measured time. Rates are computed
    /// from these.
    pub requests_in_time: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Wrong bytes in place of the request's id.
    pub foreign_bytes: u64,
    /// Kept connections that the server closed between two requests, or announced that it would
    /// close.
    pub reconnects: u64,
    /// Requests that failed, by kind.
    pub failures: Failures,
    /// Replies by the first digit of their status. Other digits count under 0.
    pub statuses: [u64; 6],
    /// Requests that were due at the requested rate and never started.
    pub unstarted: u64,
    /// Requests that were unfinished when the user stopped the run.
    pub unfinished: u64,
    /// Time of the end of the last request, good or failed.
    pub last_done: Nanos,
}

impl Latencies {
    /// Records a latency.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos.max(LATENCY_MIN_NS));
    }

    /// Number of recorded latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency at `quantile` (0 to 1) in nanoseconds, or 0 if nothing was recorded.
    #[must_use]
    pub fn at(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile)
    }

    /// The maximum in nanoseconds.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.histogram.max()
    }

    /// The mean in nanoseconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.histogram.mean()
    }

    fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("the same bounds everywhere");
    }
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(LATENCY_MIN_NS, LATENCY_MAX_NS, 3);
        Self { histogram: histogram.expect("the bounds are valid") }
    }
}

impl Stats {
    /// Removes all recorded values.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Adds the statistics of another thread.
    pub fn add(&mut self, other: &Self) {
        self.connect.add(&other.connect);
        self.first_byte.add(&other.first_byte);
        self.total.add(&other.total);
        self.connects += other.connects;
        self.connects_in_time += other.connects_in_time;
        self.requests += other.requests;
        self.requests_in_time += other.requests_in_time;
        self.bytes_in += other.bytes_in;
        self.foreign_bytes += other.foreign_bytes;
        self.reconnects += other.reconnects;
        self.failures.add(&other.failures);
        for (ours, theirs) in self.statuses.iter_mut().zip(other.statuses) {
            *ours += theirs;
        }
        self.unstarted += other.unstarted;
        self.unfinished += other.unfinished;
        self.last_done = self.last_done.max(other.last_done);
    }

    pub(crate) fn count_status(&mut self, status: u16) {
        let class = usize::from(status / 100);
        self.statuses[if class < self.statuses.len() { class } else { 0 }] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_keep_three_digits_and_add_up() {
        let mut one = Latencies::default();
        for micros in 1..=1_000_u64 {
            one.record(micros * 1_000);
        }
        let mut two = Latencies::default();
        two.record(5_000_000_000);
        two.add(&one);
        assert_eq!(two.count(), 1_001);
        for (quantile, want) in [(0.5, 501_000.0), (0.9, 901_000.0), (0.99, 991_000.0)] {
            let got = two.at(quantile) as f64;
            assert!((got - want).abs() / want < 0.003, "{quantile}: {got}");
        }
        assert!((two.max() as f64 - 5e9).abs() / 5e9 < 0.001);
    }

    #[test]
    fn extremes_are_counted_and_cut() {
        let mut latencies = Latencies::default();
        latencies.record(0);
        latencies.record(u64::MAX);
        assert_eq!(latencies.count(), 2);
        assert!(latencies.at(0.0) <= 2_000 && latencies.max() >= LATENCY_MAX_NS);
    }

    #[test]
    fn a_reset_leaves_nothing_behind() {
        let mut stats = Stats { requests: 3, last_done: 9, ..Stats::default() };
        stats.total.record(1_000);
        stats.count_status(204);
        stats.failures.count(FailureKind::Short, None);
        stats.reset();
        assert_eq!((stats.requests, stats.last_done, stats.total.count()), (0, 0, 0));
        assert_eq!((stats.statuses, stats.failures.total()), ([0; 6], 0));
    }

    #[test]
    fn threads_add_up() {
        let mut sum = Stats::default();
        for (status, last_done) in [(200, 7), (503, 5), (999, 6)] {
            let mut stats = Stats { requests: 2, last_done, unstarted: 1, ..Stats::default() };
            stats.count_status(status);
            stats.failures.count(FailureKind::Timeout, None);
            sum.add(&stats);
        }
        assert_eq!((sum.requests, sum.last_done, sum.unstarted), (6, 7, 3));
        assert_eq!(sum.statuses, [1, 0, 1, 0, 0, 1]);
        assert_eq!(sum.failures.of(FailureKind::Timeout), 3);
    }
}
