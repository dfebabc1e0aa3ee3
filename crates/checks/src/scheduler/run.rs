//! One scheduled check: its runner and its due time.
//!
//! Does not know about: other checks.

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
    /// Check number, as the sink counts.
    pub(crate) check: usize,
    pub(crate) runner: Arc<Runner>,
    pub(crate) schedule: Schedule,
    /// Age up to which a probe gets the last result instead of triggering a run; `None` if probes
    /// trigger none.
    pub(crate) cache: Option<Duration>,
    /// Maximum age of a result. A check without an interval runs at least this often.
    pub(crate) max_age: Duration,
    pub(crate) is_scheduled: bool,
    pub(crate) is_asked: Arc<AtomicBool>,
    pub(crate) stats: Arc<CheckStats>,
}

impl Run {
    /// The due time of the next run unless one is requested before; the last one ran from `start`
    /// to `now`.
    pub(crate) fn next(&mut self, start: Time, interval: Duration, now: Time) -> Time {
        if self.is_scheduled {
            return self.schedule.next(start, interval, now);
        }
        // A probe that arrives less often than `max_age` must not always find an expired result.
        let earliest = start.after(self.cache.unwrap_or_default()).max(now);
        self.schedule.renew(start, self.max_age).max(earliest)
    }

    /// `position` is the sink's check number. `instance` spreads the runs of replicas.
    #[must_use]
    pub fn new(
        position: usize,
        check: &Check,
        instance: &str,
        runner: Arc<Runner>,
        stats: Arc<CheckStats>,
    ) -> Self {
        Self {
            check: position,
            runner,
            schedule: Schedule::new(instance, &check.name, check.pace.jitter),
            cache: check.pace.cache,
            max_age: check.pace.max_age,
            is_scheduled: check.pace.is_scheduled,
            is_asked: Arc::default(),
            stats,
        }
    }
}
