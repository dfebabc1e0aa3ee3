//! Counters of the scheduler.

use crate::scheduler::lag::Lag;
use crate::stats::StatsByCheck;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the scheduler of checks since the start of the process.
#[derive(Debug, Default)]
pub struct SchedulerCounters {
    /// Completed runs.
    pub(crate) runs: AtomicU64,
    /// Runs with the outcome error, failure or timeout.
    pub(crate) failed: AtomicU64,
    /// Number of times that the limit of concurrent runs delayed due runs.
    pub(crate) waited: AtomicU64,
    /// Runs that lasted longer than their interval.
    pub(crate) overruns: AtomicU64,
    /// Delays between due time and start of runs.
    pub lag: Lag,
    /// Runs requested by probes; requests for the same run count once.
    pub(crate) asked: AtomicU64,
    /// Requests refused because the queue was full.
    pub(crate) calls_refused: AtomicU64,
    /// Pushed results.
    pub(crate) pushed: AtomicU64,
    /// Pushed results refused because the queue was full.
    pub(crate) pushes_refused: AtomicU64,
    /// Pushed results refused because a reload had removed the check.
    pub(crate) pushes_without_check: AtomicU64,
    /// Counters of each check.
    pub by_check: StatsByCheck,
}

impl SchedulerCounters {
    /// The counters with their names; `lag_us` is the mean delay of a start in microseconds.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, u64); 10] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let runs = read(&self.runs);
        [
            ("asked", read(&self.asked)),
            ("calls_refused", read(&self.calls_refused)),
            ("failed", read(&self.failed)),
            ("lag_us", self.lag.counts().mean_us()),
            ("overruns", read(&self.overruns)),
            ("pushed", read(&self.pushed)),
            ("pushes_refused", read(&self.pushes_refused)),
            ("pushes_without_check", read(&self.pushes_without_check)),
            ("runs", runs),
            ("waited", read(&self.waited)),
        ]
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
