//! The receiver of all findings, and the clock of the scheduler.
//!
//! Does not know about: when a check runs.

use crate::finding::Finding;
use doorbell_health::Time;
use std::time::Duration;
use tokio::time::Instant;

/// Takes the findings of all checks.
pub trait ResultSink: Send + Sync + 'static {
    /// Now, on the clock of all times here.
    fn now(&self) -> Time;

    /// The same on the clock of the runtime.
    fn instant(&self, time: Time) -> Instant;

    /// Takes a finding and returns the interval from the start of this run to the next.
    fn found(&self, check: usize, finding: &Finding) -> Duration;

    /// The last run made by an earlier scheduler, if there was one.
    fn last_run(&self, _check: usize) -> Option<LastRun> {
        None
    }

    /// When [`Self::tick`] is due.
    fn deadline(&self) -> Time;

    /// Applies what follows from the passing of time alone.
    fn tick(&self);
}

/// The last run of a check, and when the next one is due.
#[derive(Clone, Copy, Debug)]
pub struct LastRun {
    /// Start of the run.
    pub started: Time,
    /// When the next one is due.
    pub next_due: Time,
}
