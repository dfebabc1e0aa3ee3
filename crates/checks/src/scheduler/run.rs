//! One scheduled check: its runner and its schedule.

#[cfg(feature = "kinds")]
use crate::options::Check;
use crate::runner::Runner;
use crate::scheduler::schedule::Schedule;
use crate::stats::CheckStats;
use doorbell_health::Time;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// One scheduled check.
#[derive(Debug)]
pub struct Run {
    /// Check number that the sink uses.
    pub(crate) check: usize,
    pub(crate) runner: Arc<Runner>,
    pub(crate) schedule: Schedule,
    /// Age of the last run above which a probe triggers a run; `None` if probes never trigger
    /// runs.
    pub(crate) cache: Option<Duration>,
    /// Maximum age of a result. A check without an interval runs at least this often.
    pub(crate) max_age: Duration,
    pub(crate) is_scheduled: bool,
    /// Whether instances share the check.
    #[cfg(feature = "kinds")]
    pub(crate) is_shared: bool,
    /// Whether the runs have no schedule, because the owner of a [`RunStart`](crate::RunStart)
    /// starts them.
    pub(crate) is_started: bool,
    pub(crate) is_asked: Arc<AtomicBool>,
    pub(crate) is_changed: Arc<AtomicBool>,
    pub(crate) stats: Arc<CheckStats>,
}

impl Run {
    /// The due time of the next run, unless a run is requested earlier. The last run started at
    /// `start` and ended at `now`.
    pub(crate) fn next(&mut self, start: Time, interval: Duration, now: Time) -> Time {
        if self.is_started {
            return Time::MAX;
        }
        if self.is_scheduled {
            return self.schedule.next(start, interval, now);
        }
        // If probes arrive at intervals longer than `max_age`, they must not always find an expired
        // result.
        let earliest = start.after(self.cache.unwrap_or_default()).max(now);
        self.schedule.renew(start, self.max_age).max(earliest)
    }

    /// The scheduler's entry for a configured check. `position` is the sink's check number.
    /// `instance` spreads the runs of replicas.
    #[cfg(feature = "kinds")]
    #[must_use]
    pub fn new(
        position: usize,
        check: &Check,
        instance: &str,
        runner: Arc<Runner>,
        stats: Arc<CheckStats>,
    ) -> Self {
        let pace = &check.pace;
        let run = Self::every(position, &check.name, instance, pace.jitter, runner, stats);
        let (is_scheduled, is_shared) = (pace.is_scheduled, check.share);
        Self { cache: pace.cache, max_age: pace.max_age, is_scheduled, is_shared, ..run }
    }

    /// A check that runs at the intervals that [`ResultSink::found`](crate::ResultSink::found)
    /// returns, each run delayed by at most `jitter` percent of an interval. `position` is the
    /// sink's check number. `instance` spreads the runs of replicas.
    #[must_use]
    pub fn every(
        position: usize,
        name: &str,
        instance: &str,
        jitter: u32,
        runner: Arc<Runner>,
        stats: Arc<CheckStats>,
    ) -> Self {
        Self {
            check: position,
            runner,
            schedule: Schedule::new(instance, name, jitter),
            cache: None,
            max_age: Duration::MAX,
            is_scheduled: true,
            #[cfg(feature = "kinds")]
            is_shared: false,
            is_started: false,
            is_asked: Arc::default(),
            is_changed: Arc::default(),
            stats,
        }
    }
}
