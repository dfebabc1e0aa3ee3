//! A runnable check: each run yields one finding, within its timeout and with bounded memory.

#[cfg(feature = "kinds")]
mod all_addresses;
pub(crate) mod call;
pub(crate) mod descriptors;
#[cfg(feature = "kinds")]
mod target;

use crate::finding::Finding;
use crate::phase_times::PhaseTimes;
use crate::runner::call::Call;
use crate::stats::CheckStats;
#[cfg(feature = "kinds")]
use crate::{
    kinds::materials::SharedResources,
    options::Check,
    progress::{Progress, Trace},
    scheduler::run_requests::ChangeNotice,
};
#[cfg(feature = "kinds")]
use std::pin::Pin;
#[cfg(feature = "kinds")]
use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "kinds")]
use target::TargetRunner;
#[cfg(feature = "kinds")]
use tokio::time::Instant;

/// A check that can run any number of times, but not concurrently with itself.
#[derive(Debug)]
pub struct Runner(RunnerKind);

#[derive(Debug)]
enum RunnerKind {
    Call(Call),
    #[cfg(feature = "kinds")]
    Target(TargetRunner),
}

/// The result of a run, with its measurements.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) finding: Finding,
    pub(crate) phase_times: PhaseTimes,
    /// Expiry of the server's certificates, as time since 1970; the earliest of all checked
    /// addresses.
    pub(crate) certificate: Option<Duration>,
}

/// End of a run. A timeout beyond the range of the clock means no limit, as in Tokio's `timeout`:
/// thirty years.
#[cfg(feature = "kinds")]
fn end_of(start: Instant, timeout: Duration) -> Instant {
    start.checked_add(timeout).unwrap_or_else(|| start + Duration::from_secs(30 * 365 * 86_400))
}

impl Runner {
    /// Builds the runner of a check; `None` if its results are pushed.
    ///
    /// # Errors
    /// An option or a required file cannot be used.
    #[cfg(feature = "kinds")]
    pub fn build(check: &Check, shared: &mut SharedResources) -> Result<Option<Self>, String> {
        Ok(TargetRunner::build(check, shared)?.map(RunnerKind::Target).map(Self))
    }

    /// A runner that calls a function of the embedding program.
    #[must_use]
    pub fn call(call: Call) -> Self {
        Self(RunnerKind::Call(call))
    }

    /// Whether the runner may move to another scheduler with its state: it has state between runs,
    /// which does not depend on the runtime.
    #[must_use]
    pub const fn can_move(&self) -> bool {
        match &self.0 {
            RunnerKind::Call(_) => false,
            #[cfg(feature = "kinds")]
            RunnerKind::Target(target) => target.can_move(),
        }
    }

    /// Whether this runner can be reused for `check` with its state: it [can move](Self::can_move),
    /// and [`Self::build`] would build an equal runner.
    #[cfg(feature = "kinds")]
    #[must_use]
    pub fn is_for(&self, check: &Check) -> bool {
        matches!(&self.0, RunnerKind::Target(target) if target.is_for(check))
    }

    /// Runs the check once. Whatever the peer does, the run ends within its timeout and releases
    /// its resources.
    pub async fn run(&self) -> Finding {
        self.run_measured().await.finding
    }

    /// Runs the check once and counts the run.
    pub(crate) async fn run_counted(&self, stats: &CheckStats) -> Finding {
        let RunResult { finding, phase_times, certificate, .. } = self.run_measured().await;
        stats.ran(finding.outcome, finding.latency, &phase_times, certificate);
        finding
    }

    async fn run_measured(&self) -> RunResult {
        match &self.0 {
            RunnerKind::Call(call) => call.run().await,
            #[cfg(feature = "kinds")]
            RunnerKind::Target(target) => target.run_as(Progress::begin()).await,
        }
    }

    /// Runs the check once and records its observations in `trace`. A [`Call`] has no observations.
    ///
    /// The future is boxed here, because each package that awaits an `async fn` of another one gets
    /// a copy of its code: for this one, 50 KiB.
    #[cfg(feature = "kinds")]
    pub fn run_traced(&self, trace: &Arc<Trace>) -> Pin<Box<dyn Future<Output = Finding> + Send + '_>> {
        let progress = Progress::traced(Arc::clone(trace));
        Box::pin(async { self.run_as(progress).await.finding })
    }

    #[cfg(feature = "kinds")]
    pub(crate) async fn run_as(&self, progress: Progress) -> RunResult {
        match &self.0 {
            RunnerKind::Call(call) => call.run().await,
            RunnerKind::Target(target) => target.run_as(progress).await,
        }
    }

    /// Sets the [`ChangeNotice`] through which a gRPC watch reports a changed status.
    #[cfg(feature = "kinds")]
    pub(crate) fn notify_changes(&self, notice: ChangeNotice) {
        if let RunnerKind::Target(target) = &self.0 {
            target.notify_changes(notice);
        }
    }
}
