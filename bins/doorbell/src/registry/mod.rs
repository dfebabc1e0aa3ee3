//! The health registry of this process: a [`Registry`] with clocks, logs, counters and maintenance
//! windows.
//!
//! Does not know about: what a result means, requests.

pub(crate) mod agent;
mod build;
mod sinks;
#[cfg(test)]
mod tests;
mod view;

use crate::config::model::{Config, HealthRoute};
use crate::operator::{EventLog, Window, time_of_day};
use doorbell_checks::{CheckStats, Finding, LastRun, ResultSink, RunRequest};
use doorbell_health::{CheckResult, Time};
use doorbell_probes::{CLOCK_STEP_MIN, Registry, ReplyCache, RunTrigger, SameChecks, Subject};
use sinks::{CheckTransitions, EventSink, LogSink};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// See the [module](self). Methods of [`Registry`] that take a time are here without it.
#[derive(Debug)]
pub(crate) struct HealthRegistry {
    registry: Arc<Registry>,
    /// The origin of all times of the registry.
    origin: Instant,
    /// Maintenance windows of the configuration, until they are taken.
    windows: Mutex<Vec<Window>>,
    /// Set once transitions go to the event log.
    has_event_log: OnceLock<()>,
}

impl Deref for HealthRegistry {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.registry
    }
}

impl HealthRegistry {
    /// The registry of a configuration, without any result.
    pub(crate) fn build(config: &Config) -> Result<Arc<Self>, String> {
        Self::finish(config, Registry::builder(Time::ZERO, time_of_day()), Instant::now())
    }

    /// The same for a server that follows another one at a reload: with the same clock origin,
    /// and silent until [`Self::speak_after`].
    pub(crate) fn build_after(config: &Config, before: &Self) -> Result<Arc<Self>, String> {
        Self::finish(config, before.registry.successor(before.now()), before.origin)
    }

    fn finish(
        config: &Config,
        builder: doorbell_probes::RegistryBuilder,
        origin: Instant,
    ) -> Result<Arc<Self>, String> {
        let registry = build::build(config, builder)?;
        registry.report_to(Arc::new(LogSink));
        let windows = Mutex::new(Window::all(config));
        Ok(Arc::new(Self { registry, origin, windows, has_event_log: OnceLock::new() }))
    }

    /// Records transitions in this event log from now on; a second event log is ignored.
    pub(crate) fn report_to(&self, event_log: &Arc<EventLog>) {
        if self.has_event_log.set(()).is_ok() {
            self.registry.report_to(Arc::new(EventSink(Arc::clone(event_log))));
        }
    }

    /// Counts transitions of checks, by position.
    pub(crate) fn count_in(&self, check_stats: &[Arc<CheckStats>]) {
        self.registry.report_to(Arc::new(CheckTransitions(check_stats.to_vec())));
    }

    /// Takes the maintenance windows of the configuration; empty at the second call.
    pub(crate) fn take_windows(&self) -> Vec<Window> {
        std::mem::take(&mut *self.windows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds checks that run on demand, by position. To be called before the first [`Self::cache`].
    pub(crate) fn run_on_demand(&self, requests: impl Iterator<Item = (usize, RunRequest)>) {
        let trigger = |request: RunRequest| RunTrigger::new(move || request.ask());
        self.registry.run_on_demand(requests.map(|(check, request)| (check, trigger(request))));
    }

    /// The replies of a route with these header fields and methods. `None` if a field cannot be
    /// sent.
    pub(crate) fn cache(
        &self,
        route: &HealthRoute,
        headers: &[(String, String)],
        allow: &str,
        has_singles: bool,
    ) -> Option<Arc<ReplyCache>> {
        self.registry.cache(build::reply_options(route, headers, allow, has_singles))
    }

    /// Forces all readiness endpoints down.
    pub(crate) fn fail(&self, reason: &str) {
        self.registry.fail(reason, self.now());
    }

    /// Begins or ends a drain of all endpoints.
    pub(crate) fn drain(&self, draining: bool) {
        self.registry.drain(draining, self.now());
    }

    /// Begins a drain of one endpoint, for this reason, or ends it.
    pub(crate) fn drain_one(&self, endpoint: &str, reason: Option<&str>) {
        self.registry.drain_one(endpoint, reason, self.now());
    }

    /// Begins maintenance of subjects, with its reason and duration, or ends it.
    pub(crate) fn maintain<'a>(
        &self,
        wanted: impl IntoIterator<Item = (Subject, Option<(&'a str, Option<Duration>)>)>,
    ) {
        self.registry.maintain(wanted, self.now());
    }

    /// Takes over the state of `before`, see [`Registry::inherit`].
    pub(crate) fn inherit(&self, before: &Self, same: &SameChecks) {
        self.registry.inherit(&before.registry, same, self.now());
    }

    /// Reports transitions from now on, in place of `before`.
    pub(crate) fn speak_after(&self, before: &Self) {
        self.registry.speak_after(&before.registry);
    }

    /// Shows times by the time of day again if the system's clock was set.
    fn look_at_clock(&self, time_of_day: impl FnOnce() -> Duration) {
        let read = || {
            let (before, time_of_day, now) = (self.now(), time_of_day(), self.now());
            // A thread that was stopped in between has two times that do not belong together.
            (now.since(before) <= CLOCK_STEP_MIN / 2).then_some((time_of_day, now))
        };
        if self.registry.follow_clock(read) {
            tracing::info!("the system's clock was set: times are shown by it from now on");
        }
    }
}

impl ResultSink for HealthRegistry {
    fn now(&self) -> Time {
        Time::ZERO.after(self.origin.elapsed())
    }

    fn instant(&self, time: Time) -> Instant {
        // No wait is longer than a day.
        let since =
            Duration::from_nanos(time.as_nanos()).min(self.origin.elapsed() + Duration::from_secs(86_400));
        self.origin + since
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        self.look_at_clock(time_of_day);
        let result = CheckResult::new(finding.outcome, finding.latency, finding.reason.as_bytes());
        self.registry.found(check, &result, self.now())
    }

    fn last_run(&self, check: usize) -> Option<LastRun> {
        let (started, next_due) = self.registry.last_run(check)?;
        Some(LastRun { started, next_due })
    }

    fn deadline(&self) -> Time {
        self.registry.deadline()
    }

    fn tick(&self) {
        self.look_at_clock(time_of_day);
        self.registry.tick(self.now());
    }
}
