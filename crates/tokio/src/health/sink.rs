//! Receives check results and runs the internal checks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use doorbell_checks::{Finding, LastRun, ResultSink};
use doorbell_health::{Outcome, Time};
use tokio::time::Instant;

use crate::health::Internal;
use crate::health::watch::Watch;
use crate::registry::ClockedRegistry;

/// A registry with the internal checks, which monitor runtimes and servers.
#[derive(Debug)]
pub(crate) struct WatchedRegistry {
    registry: ClockedRegistry,
    watch: Watch,
    /// Whether the internal checks run periodically.
    is_periodic: AtomicBool,
    next_run: AtomicU64,
}

impl WatchedRegistry {
    pub(crate) const fn new(registry: ClockedRegistry, watch: Watch) -> Self {
        Self { registry, watch, is_periodic: AtomicBool::new(false), next_run: AtomicU64::new(0) }
    }

    pub(crate) const fn registry(&self) -> &ClockedRegistry {
        &self.registry
    }

    pub(crate) const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Runs the internal checks periodically from now on.
    pub(crate) fn run_periodically(&self) {
        self.is_periodic.store(true, Ordering::Relaxed);
    }

    /// Runs the internal checks now and publishes changed results.
    pub(crate) fn run_internal_checks(&self) {
        let next = self.registry.now().after(self.watch.limits.interval());
        self.next_run.store(next.as_nanos(), Ordering::Relaxed);
        self.watch.run_internal_checks(|check, reason| {
            let reason = reason.map(|reason| reason.to_string());
            self.set(Internal::WATCHED[check], reason.as_deref());
        });
    }

    /// Sets an internal check: up, or down for a reason.
    pub(crate) fn set(&self, check: Internal, reason: Option<&str>) {
        let outcome = if reason.is_some() { Outcome::Failure } else { Outcome::Success };
        let reason = reason.unwrap_or_default().to_owned();
        ResultSink::found(
            &self.registry,
            check as usize,
            &Finding { outcome, latency: Duration::ZERO, reason },
        );
    }
}

impl ResultSink for WatchedRegistry {
    fn now(&self) -> Time {
        self.registry.now()
    }

    fn instant(&self, time: Time) -> Instant {
        self.registry.instant(time)
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        ResultSink::found(&self.registry, check, finding)
    }

    fn last_run(&self, check: usize) -> Option<LastRun> {
        ResultSink::last_run(&self.registry, check)
    }

    fn deadline(&self) -> Time {
        let deadline = ResultSink::deadline(&self.registry);
        if self.is_periodic.load(Ordering::Relaxed) {
            return deadline.min(Time::from_nanos(self.next_run.load(Ordering::Relaxed)));
        }
        deadline
    }

    fn tick(&self) {
        if self.is_periodic.load(Ordering::Relaxed) {
            self.run_internal_checks();
        }
        ResultSink::tick(&self.registry);
    }
}
