//! A registry with the clock of the process, which receives the results of checks.

mod sinks;
#[cfg(feature = "alias")]
mod states;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(feature = "checks")]
use doorbell_checks::options::Check;
use doorbell_checks::{Finding, LastRun, ResultSink, RunRequest};
#[cfg(feature = "checks")]
use doorbell_health::CheckConfig;
use doorbell_health::{CheckResult, Time};
use doorbell_probes::{CLOCK_STEP_MIN, Registry, RunTrigger, SameChecks, Subject};
pub use sinks::{LogSink, TransitionCounters};
#[cfg(feature = "alias")]
pub use states::States;
#[cfg(feature = "alias")]
pub(crate) use states::find_cycle;
use tokio::time::Instant;

/// A [`Registry`] and its clock. Its methods pass the current time to those of the registry.
pub struct ClockedRegistry {
    registry: Arc<Registry>,
    /// The origin of all times of the registry.
    origin: Instant,
    time_of_day: fn() -> Duration,
}

impl ClockedRegistry {
    /// A registry that was built at `origin`. `time_of_day` returns the time since 1970.
    pub const fn new(registry: Arc<Registry>, origin: Instant, time_of_day: fn() -> Duration) -> Self {
        Self { registry, origin, time_of_day }
    }

    /// The origin of all times. A registry that takes over from this one ([`Self::inherit`]) must
    /// use the same origin.
    pub const fn origin(&self) -> Instant {
        self.origin
    }

    /// The registry, for sharing.
    pub const fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time::ZERO.after(self.origin.elapsed())
    }

    /// Adds the triggers of on-demand checks, by position of the check. Call it before the first
    /// [`Registry::cache`].
    pub fn run_on_demand(&self, requests: impl Iterator<Item = (usize, RunRequest)>) {
        let trigger = |request: RunRequest| RunTrigger::new(move || request.ask());
        self.registry.run_on_demand(requests.map(|(check, request)| (check, trigger(request))));
    }

    /// Forces all readiness endpoints down.
    pub fn fail(&self, reason: &str) {
        self.registry.fail(reason, self.now());
    }

    /// Begins a drain of all endpoints with a reason; `None` ends it.
    pub fn drain(&self, reason: Option<&str>) {
        self.registry.drain(reason, self.now());
    }

    /// Begins a drain of one endpoint with a reason; `None` ends it.
    pub fn drain_one(&self, endpoint: &str, reason: Option<&str>) {
        self.registry.drain_one(endpoint, reason, self.now());
    }

    /// Begins maintenance of each subject with a reason and an optional duration, or ends it if
    /// there is no reason.
    pub fn maintain<'a>(
        &self,
        wanted: impl IntoIterator<Item = (Subject, Option<(&'a str, Option<Duration>)>)>,
    ) {
        self.registry.maintain(wanted, self.now());
    }

    /// Takes over the state of `before`, see [`Registry::inherit`].
    pub fn inherit(&self, before: &Self, same: &SameChecks) {
        self.registry.inherit(&before.registry, same, self.now());
    }

    /// Adjusts displayed times if the system's clock was set.
    pub fn check_clock(&self, time_of_day: impl FnOnce() -> Duration) {
        let read = || {
            let (before, time_of_day, now) = (self.now(), time_of_day(), self.now());
            // If the thread was preempted between reading the clocks, the two times do not match.
            (now.since(before) <= CLOCK_STEP_MIN / 2).then_some((time_of_day, now))
        };
        if self.registry.follow_clock(read) {
            tracing::info!("the system's clock was set: displayed times follow it");
        }
    }
}

impl ResultSink for ClockedRegistry {
    fn now(&self) -> Time {
        self.now()
    }

    fn instant(&self, time: Time) -> Instant {
        // A time far in the future would overflow `Instant`. The scheduler waits for at most a day.
        let since =
            Duration::from_nanos(time.as_nanos()).min(self.origin.elapsed() + Duration::from_secs(86_400));
        self.origin + since
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        self.check_clock(self.time_of_day);
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
        self.check_clock(self.time_of_day);
        self.registry.tick(self.now());
    }
}

impl Deref for ClockedRegistry {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.registry
    }
}

impl fmt::Debug for ClockedRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockedRegistry").field("registry", &self.registry).finish_non_exhaustive()
    }
}

/// The time since 1970.
#[expect(clippy::disallowed_methods, reason = "the time of day is only displayed")]
pub fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The state settings of a configured check: intervals, thresholds, maximum age.
#[cfg(feature = "checks")]
pub fn check_config(check: &Check) -> CheckConfig {
    let pace = &check.pace;
    CheckConfig {
        interval: pace.interval,
        fast_interval: pace.fast_interval,
        down_interval: pace.down_interval,
        passive: check.kind.pushed_ttl().is_some(),
        rise: pace.rise,
        fall: pace.fall,
        initial: pace.initial,
        max_age: Some(check.kind.pushed_ttl().unwrap_or(pace.max_age)),
        flap: pace.flap,
        history_len: pace.history as usize,
    }
}
