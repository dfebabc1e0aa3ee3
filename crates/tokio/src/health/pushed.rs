//! Results of a check that the program reports itself.

use std::fmt;
use std::time::Duration;

use doorbell_checks::{Finding, Push};
use doorbell_health::Outcome;

/// Reports results of one check; see [`Health::pushed`](crate::Health::pushed). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pushed {
    push: Push,
    check: usize,
}

impl Pushed {
    pub(crate) const fn new(push: Push, check: usize) -> Self {
        Self { push, check }
    }

    /// Reports a result; the text of an error is the reason of the failure. Returns false and
    /// counts the loss if too many results are pending, or the `Health` was dropped.
    pub fn report<E: fmt::Display>(&self, result: Result<(), E>) -> bool {
        self.report_after(result, Duration::ZERO)
    }

    /// Reports a result and the duration of the work that led to it; see [`Self::report`]. Metrics
    /// and replies then show this latency as that of a run.
    pub fn report_after<E: fmt::Display>(&self, result: Result<(), E>, latency: Duration) -> bool {
        let (outcome, reason) = match result {
            Ok(()) => (Outcome::Success, String::new()),
            Err(error) => (Outcome::Failure, error.to_string()),
        };
        self.push.leave(self.check, Finding { outcome, latency, reason }).is_ok()
    }

    /// Reports a success; see [`Self::report`].
    pub fn ok(&self) -> bool {
        self.report(Ok::<(), &str>(()))
    }

    /// Reports a degraded result, which is a success with a warning; see [`Self::report`].
    pub fn degraded(&self, reason: impl fmt::Display) -> bool {
        let finding =
            Finding { outcome: Outcome::Degraded, latency: Duration::ZERO, reason: reason.to_string() };
        self.push.leave(self.check, finding).is_ok()
    }
}
