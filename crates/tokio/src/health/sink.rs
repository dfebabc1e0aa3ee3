//! The receiver of check results, which also monitors runtimes and servers.
//!
//! Does not know about: the thread on which checks run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use doorbell_checks::{Finding, LastRun, ResultSink};
use doorbell_health::{Outcome, Time};
use tokio::time::Instant;

use crate::health::Internal;
use crate::health::watch::Watch;
use crate::registry::ClockedRegistry;

/// A registry, with the monitoring of runtimes and servers.
#[derive(Debug)]
pub(crate) struct WatchedRegistry {
    registry: ClockedRegistry,
    watch: Watch,
    /// Whether the internal checks run periodically.
    looks: AtomicBool,
    next_look: AtomicU64,
}

impl WatchedRegistry {
    pub(crate) const fn new(registry: ClockedRegistry, watch: Watch) -> Self {
        Self { registry, watch, looks: AtomicBool::new(false), next_look: AtomicU64::new(0) }
    }

    pub(crate) const fn registry(&self) -> &ClockedRegistry {
        &self.registry
    }

    pub(crate) const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Runs the internal checks periodically from now on.
    pub(crate) fn look_by_time(&self) {
        self.looks.store(true, Ordering::Relaxed);
    }

    /// Runs the internal checks now and publishes changed results.
    pub(crate) fn look(&self) {
        let next = self.registry.now().after(self.watch.limits.interval());
        self.next_look.store(next.as_nanos(), Ordering::Relaxed);
        self.watch.look(|check, reason| {
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
        if self.looks.load(Ordering::Relaxed) {
            return deadline.min(Time::from_nanos(self.next_look.load(Ordering::Relaxed)));
        }
        deadline
    }

    fn tick(&self) {
        if self.looks.load(Ordering::Relaxed) {
            self.look();
        }
        ResultSink::tick(&self.registry);
    }
}
