//! The receiver of all findings, and the clock of the scheduler.

use crate::finding::Finding;
use doorbell_health::Time;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Receives the findings of all checks.
pub trait ResultSink: Send + Sync + 'static {
    /// The current time on the sink's clock. All times of this trait are on this clock.
    fn now(&self) -> Time;

    /// Converts a time to the clock of the runtime.
    fn instant(&self, time: Time) -> Instant;

    /// Handles a finding and returns the interval from the start of this run to the start of the
    /// next.
    fn found(&self, check: usize, finding: &Finding) -> Duration;

    /// Handles a pushed finding.
    fn pushed(&self, check: usize, finding: &Finding) {
        self.found(check, finding);
    }

    /// The last run by an earlier scheduler, if any.
    fn last_run(&self, _check: usize) -> Option<LastRun> {
        None
    }

    /// The time at which [`Self::tick`] must be called next.
    fn deadline(&self) -> Time;

    /// Applies the changes that time alone causes, such as results that become stale.
    fn tick(&self);
}

/// Interval to the next run of a check whose finding was not handled.
const INTERVAL_AFTER_PANIC: Duration = Duration::from_secs(1);

/// A sink whose panics do not end the scheduler: otherwise all states would stay as they are, and
/// replies to probes would report them as current. The panic hook reports each panic.
pub(crate) struct PanicSafe<S>(pub(crate) Arc<S>);

impl<S: ResultSink> ResultSink for PanicSafe<S> {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn instant(&self, time: Time) -> Instant {
        self.0.instant(time)
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        let found = || self.0.found(check, finding);
        catch_unwind(AssertUnwindSafe(found)).unwrap_or(INTERVAL_AFTER_PANIC)
    }

    fn pushed(&self, check: usize, finding: &Finding) {
        let _panicked = catch_unwind(AssertUnwindSafe(|| self.0.pushed(check, finding)));
    }

    fn last_run(&self, check: usize) -> Option<LastRun> {
        self.0.last_run(check)
    }

    fn deadline(&self) -> Time {
        self.0.deadline()
    }

    fn tick(&self) {
        let _panicked = catch_unwind(AssertUnwindSafe(|| self.0.tick()));
    }
}

/// The last run of a check, and its next due time.
#[derive(Clone, Copy, Debug)]
pub struct LastRun {
    /// Start of the run.
    pub started: Time,
    /// Due time of the next run.
    pub next_due: Time,
}
