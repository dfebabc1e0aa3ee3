//! Building a `Health`: checks, endpoints and limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use doorbell_checks::{Call, CheckStats, Plan, Run, Runner, SchedulerCounters};
use doorbell_health::{
    CheckConfig, CheckIndex, Details, EndpointConfig, Initial, OnDrain, Severity, Time, Use,
};
use doorbell_probes::{EndpointOptions, ProbeRoutes, Registry, RegistryBuilder, ReplyOptions};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::health::check::{Check, Ttl};
use crate::health::error::HealthError;
use crate::health::sink::WatchedRegistry;
use crate::health::watch::{Limit, Watch, WatchLimits};
use crate::health::{Health, Internal, Parts};
use crate::registry::{ClockedRegistry, LogSink, TransitionCounters, time_of_day};

/// Default maximum number of concurrent runs.
const CONCURRENT_RUNS: usize = 64;

/// Creates the scheduled form of a check ([`Run`]: its runner and its schedule) once the runtime is
/// known; `None` if the check's results are pushed.
type CreateRun = Box<dyn FnOnce(&mut RunContext, CheckPosition) -> Result<Option<Run>, HealthError> + Send>;

/// The position of a check, and its counters.
type CheckPosition = (usize, Arc<CheckStats>);

/// What a [`CreateRun`] needs.
struct RunContext {
    runtime: Option<Handle>,
    /// The host name, which distinguishes replicas.
    instance: String,
    #[cfg_attr(not(feature = "alias"), expect(dead_code, reason = "only checks that follow others read it"))]
    registry: Arc<Registry>,
    #[cfg(feature = "checks")]
    shared: Option<doorbell_checks::SharedResources>,
}

/// A check that was added to the builder.
struct PendingCheck {
    name: String,
    config: CheckConfig,
    severity: Severity,
    create: CreateRun,
    /// The options of a check that follows another check or an endpoint.
    #[cfg(feature = "alias")]
    alias: Option<Box<doorbell_checks::options::AliasCheck>>,
}

impl PendingCheck {
    fn new(name: &str, config: CheckConfig, severity: Severity, create: CreateRun) -> Self {
        Self {
            name: name.to_owned(),
            config,
            severity,
            create,
            #[cfg(feature = "alias")]
            alias: None,
        }
    }

    /// A check that runs, each time for at most `timeout`.
    fn with_timeout(
        name: &str,
        config: CheckConfig,
        severity: Severity,
        timeout: Duration,
        create: CreateRun,
    ) -> Self {
        let owned = name.to_owned();
        let create = match timeout.is_zero() {
            true => Box::new(move |_: &mut RunContext, _| Err(HealthError::Timeout { name: owned })),
            false => create,
        };
        Self::new(name, config, severity, create)
    }
}

/// Configures and starts a [`Health`]; see [`Health::builder`].
#[must_use = "nothing runs before `build`"]
pub struct HealthBuilder {
    checks: Vec<PendingCheck>,
    endpoints: Vec<(String, Vec<String>)>,
    limits: WatchLimits,
    details: Details,
    starts_ready: bool,
    has_healthz: bool,
    concurrent_runs: usize,
    runtime: Option<Handle>,
}

impl Default for HealthBuilder {
    fn default() -> Self {
        Self {
            checks: Vec::new(),
            endpoints: Vec::new(),
            limits: WatchLimits::default(),
            details: Details::Never,
            starts_ready: true,
            has_healthz: true,
            concurrent_runs: CONCURRENT_RUNS,
            runtime: None,
        }
    }
}

impl HealthBuilder {
    /// Adds a check that calls `function` for each run, on the runtime of the checks
    /// ([`Self::runtime`]). An error, a panic and a timeout are failures; the text of the error is
    /// the reason. Runs of a check never overlap.
    pub fn check<F, C, E>(mut self, name: &str, check: Check, function: F) -> Self
    where
        F: Fn() -> C + Send + Sync + 'static,
        C: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display,
    {
        let Check { mut config, severity, timeout, jitter } = check;
        // A run may last longer than the interval. The previous result must not become stale before
        // the run ends.
        if config.max_age.is_none() {
            config.max_age = Some(config.max_age().max(timeout.saturating_mul(3)));
        }
        let owned = name.to_owned();
        let create: CreateRun = Box::new(move |context, (position, stats)| {
            let Some(runtime) = &context.runtime else { return Err(HealthError::NoRuntime { name: owned }) };
            let runner = Arc::new(Runner::call(Call::new(runtime.clone(), timeout, function)));
            Ok(Some(Run::every(position, &owned, &context.instance, jitter, runner, stats)))
        });
        self.checks.push(PendingCheck::with_timeout(name, config, severity, timeout, create));
        self
    }

    /// Adds a check whose results the program reports: see [`Health::pushed`].
    pub fn push(mut self, name: &str, ttl: Ttl) -> Self {
        let Ttl { config, severity } = ttl;
        self.checks.push(PendingCheck::new(name, config, severity, Box::new(|_, _| Ok(None))));
        self
    }

    /// Adds a check of a built-in kind. It runs on the thread of the checks, not on the runtime.
    /// Needs the feature `checks`.
    ///
    /// If `max_age` is the default of [`Pace::every`](doorbell_checks::options::Pace::every), it is
    /// computed again from all fields, because a run may last longer than the interval. `share` has
    /// no effect: each instance runs the check.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use doorbell_tokio::Health;
    /// use doorbell_tokio::checks::{Check, CheckKind, Pace};
    ///
    /// let kind = CheckKind::parse("tcp://127.0.0.1:5432").ok_or("not a target")?;
    /// let db = Check { pace: Pace::every(Duration::from_secs(5)), ..Check::new("db", kind) };
    /// let health = Health::builder().target(db).build()?;
    /// # drop(health);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "checks")]
    pub fn target(mut self, mut check: doorbell_checks::options::Check) -> Self {
        let pace = &mut check.pace;
        if pace.max_age == doorbell_checks::options::Pace::every(pace.interval).max_age {
            pace.max_age = pace.default_max_age();
        }
        let (name, severity, timeout) = (check.name.clone(), check.severity, check.pace.timeout);
        let config = crate::registry::check_config(&check);
        #[cfg(feature = "alias")]
        let alias = match &check.kind {
            doorbell_checks::options::CheckKind::Alias(alias) => Some(alias.clone()),
            _ => None,
        };
        let create: CreateRun = Box::new(move |context, place| context.target(&check, place));
        self.checks.push(PendingCheck {
            #[cfg(feature = "alias")]
            alias,
            ..PendingCheck::with_timeout(&name, config, severity, timeout, create)
        });
        self
    }

    /// Adds an endpoint with some of the checks, at the path `/NAME`. `livez`, `readyz` and
    /// `startupz` always exist.
    ///
    /// Only these checks and a drain decide its state. To include the state of the program, add
    /// internal checks to `checks`: `alive` ([`Health::set_live`], long stalls), `runtime` and
    /// `accept` (short stalls), or `ready` ([`Health::set_ready`]).
    pub fn endpoint<'n>(mut self, name: &str, checks: impl IntoIterator<Item = &'n str>) -> Self {
        let checks = checks.into_iter().map(str::to_owned).collect();
        self.endpoints.push((name.to_owned(), checks));
        self
    }

    /// Leaves `/healthz`, the second path of `livez`, to the program or to [`Self::endpoint`].
    pub const fn without_healthz(mut self) -> Self {
        self.has_healthz = false;
        self
    }

    /// Whether the replies name the checks and their reasons: `Always`, or `Never`, which is the
    /// default because a reason is the text of an error and the port may be public. There is no
    /// authentication here, so `Authenticated` has the same effect as `Never`.
    pub const fn details(mut self, details: Details) -> Self {
        self.details = details;
        self
    }

    /// Starts not ready and in the startup phase, until [`Health::set_ready`] is called. By
    /// default, a program whose required checks are up or degraded is ready at once.
    pub const fn starts_unready(mut self) -> Self {
        self.starts_ready = false;
        self
    }

    /// Time without a heartbeat after which a runtime counts as stuck, for readiness and for
    /// liveness. Default 1.5 s and 10 s. At least 100 ms, because the clock of the ring threads is
    /// coarse.
    ///
    /// A single blocked worker of the runtime also fails readiness and liveness, because
    /// connections and tasks wait for it. It is detected after the same times, but at the earliest
    /// after 1.53 s and 6.1 s: Tokio updates the statistics of a worker every 61 polls
    /// (`event_interval`). A worker whose polls take up to 25 ms each is never reported; one whose
    /// polls take up to 100 ms each never fails liveness.
    pub fn stalled_after(mut self, readiness: Duration, liveness: Duration) -> Self {
        let [ready, live] = [readiness, liveness].map(|time| time.max(Duration::from_millis(100)));
        self.limits.stalled_after = Some(Limit { ready, live });
        self
    }

    /// Maximum time that a connection waits to be accepted from [`Handed`](crate::Handed).
    ///
    /// If a connection waits longer than `readiness`, readiness fails. If connections wait and none
    /// was accepted for `liveness`, liveness fails too. Default 1.5 s and 10 s.
    pub const fn accept_within(mut self, readiness: Duration, liveness: Duration) -> Self {
        self.limits.accept_within = Limit { ready: readiness, live: liveness };
        self
    }

    /// Disables the detection of a stuck runtime. For a program whose runtime must not wake
    /// periodically, or whose health is served without a runtime.
    ///
    /// [`Embed::health`](crate::Embed::health) is then optional. Without that call, a dropped
    /// [`Handed`](crate::Handed) is not detected either.
    pub const fn without_heartbeat(mut self) -> Self {
        self.limits.stalled_after = None;
        self
    }

    /// Maximum number of concurrent runs of all checks. Default 64; 0 counts as 1.
    pub const fn concurrent_runs(mut self, runs: usize) -> Self {
        self.concurrent_runs = runs;
        self
    }

    /// The runtime on which functions of checks run, and which is monitored even without a server.
    /// Default: the runtime that calls [`Self::build`].
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Starts the checks, and a heartbeat of the runtime if there is one.
    ///
    /// # Errors
    /// A check or an endpoint is invalid, a check has no runtime, or no thread can be started.
    pub fn build(mut self) -> Result<Health, HealthError> {
        let runtime = self.runtime.take().or_else(|| Handle::try_current().ok());
        let origin = Instant::now();
        let (builder, paths) = self.registry()?;
        let registry = ClockedRegistry::new(builder.build(), origin, time_of_day);
        let names: Vec<String> = self.checks.iter().map(|check| check.name.clone()).collect();
        let (details, limits, starts_ready) = (self.details, self.limits, self.starts_ready);
        let counters = Arc::new(SchedulerCounters::default());
        let (plan, push) = self.plan(runtime.clone(), &counters, registry.registry())?;
        registry.run_on_demand(plan.run_requests());
        let routes = paths.into_iter().fold(ProbeRoutes::default(), |mut all, (path, endpoint)| {
            let options = ReplyOptions { endpoint, details, ..ReplyOptions::default() };
            let _each_endpoint_exists = all.add(&registry, &path, options);
            all
        });
        registry.report_to(Arc::new(LogSink));
        registry.report_to(Arc::new(TransitionCounters(plan.stats().to_vec())));
        let watched = Arc::new(WatchedRegistry::new(registry, Watch::new(limits)));
        let wake = plan.heartbeat();
        let ready = plan.start(Arc::clone(&watched))?;
        let parts = Parts { watched, routes, names, push, counters, wake };
        Ok(Health::start(parts, ready, runtime, starts_ready))
    }

    /// The registry with the checks and endpoints, and each path with the position of its endpoint.
    fn registry(&self) -> Result<(RegistryBuilder, Vec<(String, usize)>), HealthError> {
        let mut builder = Registry::builder(Time::ZERO, time_of_day());
        let mut internal = Vec::new();
        for check in Internal::ALL {
            let is_down = !self.starts_ready && matches!(check, Internal::Ready | Internal::Started);
            internal.push(add_check(&mut builder, check.name(), internal_check(is_down))?);
        }
        let mut uses = Vec::new();
        for check in &self.checks {
            let index = add_check(&mut builder, &check.name, check.config.clone())?;
            uses.push(Use::new(index, check.severity));
        }
        let with = |which: &[Internal]| -> Vec<Use> {
            which.iter().map(|check| Use::new(internal[*check as usize], Severity::Required)).collect()
        };
        let mut paths = Vec::new();
        let mut add = |config: EndpointConfig, options| -> Result<(), HealthError> {
            let name = config.name.clone();
            builder
                .endpoint(config, options)
                .map_err(|source| HealthError::Endpoint { name: name.clone(), source })?;
            paths.push((format!("/{name}"), paths.len()));
            Ok(())
        };
        let always = [OnDrain::Ignore; 3];
        let other = EndpointOptions { is_readiness: false, ..EndpointOptions::default() };
        let livez = EndpointConfig {
            uses: with(&[Internal::Alive]),
            on_drain: always,
            ..EndpointConfig::new("livez")
        };
        add(livez, other)?;
        let ready = with(&[Internal::Alive, Internal::Runtime, Internal::Accept, Internal::Ready]);
        let uses_of = |own: &[Use], more: Vec<Use>| own.iter().copied().chain(more).collect();
        add(
            EndpointConfig { uses: uses_of(&uses, ready), ..EndpointConfig::new("readyz") },
            EndpointOptions::default(),
        )?;
        let required: Vec<Use> =
            uses.iter().copied().filter(|one| one.severity == Severity::Required).collect();
        let startup = with(&[Internal::Alive, Internal::Runtime, Internal::Accept, Internal::Started]);
        let startupz = EndpointConfig {
            uses: uses_of(&required, startup),
            latch: true,
            on_drain: always,
            ..EndpointConfig::new("startupz")
        };
        add(startupz, other)?;
        for (at, (name, checks)) in self.endpoints.iter().enumerate() {
            let before = self.endpoints.iter().take(at).map(|(name, _)| name.as_str());
            let healthz = self.has_healthz.then_some(HEALTHZ);
            let taken = OWN_PATHS.into_iter().chain(healthz).chain(before);
            if !is_path(name) || taken.into_iter().any(|other| overlap(name, other)) {
                return Err(HealthError::Path { name: name.clone() });
            }
            let uses = self.uses_by_name(name, checks, &uses, &internal)?;
            add(EndpointConfig { uses, ..EndpointConfig::new(name.as_str()) }, EndpointOptions::default())?;
        }
        if self.has_healthz {
            paths.push((format!("/{HEALTHZ}"), 0));
        }
        Ok((builder, paths))
    }

    fn uses_by_name(
        &self,
        endpoint: &str,
        checks: &[String],
        uses: &[Use],
        internal: &[CheckIndex],
    ) -> Result<Vec<Use>, HealthError> {
        let internal = Internal::ALL.iter().zip(internal);
        let internal = internal.map(|(check, index)| (check.name(), Use::new(*index, Severity::Required)));
        let own = self.checks.iter().map(|check| check.name.as_str()).zip(uses.iter().copied());
        let all: Vec<_> = own.chain(internal).collect();
        let find = |wanted: &String| {
            let found = all.iter().find(|(name, _)| name == wanted).map(|(_, found)| *found);
            found.ok_or_else(|| HealthError::UnknownCheck {
                endpoint: endpoint.to_owned(),
                check: wanted.clone(),
            })
        };
        checks.iter().map(find).collect()
    }

    fn plan(
        self,
        runtime: Option<Handle>,
        counters: &Arc<SchedulerCounters>,
        registry: &Arc<Registry>,
    ) -> Result<(Plan, doorbell_checks::Push), HealthError> {
        #[cfg(feature = "alias")]
        self.follow(registry)?;
        let names = Internal::ALL.map(Internal::name).into_iter();
        let names = names.chain(self.checks.iter().map(|check| check.name.as_str()));
        let stats = counters.by_check.of(names);
        let mut context = RunContext::new(runtime, registry);
        let mut runs = Vec::new();
        let places = stats.iter().map(Arc::clone).enumerate().skip(Internal::ALL.len());
        for (PendingCheck { create, .. }, place) in self.checks.into_iter().zip(places) {
            runs.extend(create(&mut context, place)?);
        }
        Ok(Plan::new(runs, stats, self.concurrent_runs, Arc::clone(counters)))
    }

    /// Makes probes of checks trigger the runs of what they follow; refuses a check that follows
    /// itself.
    #[cfg(feature = "alias")]
    fn follow(&self, registry: &Arc<Registry>) -> Result<(), HealthError> {
        let alias = |at: usize| self.checks.get(at.checked_sub(Internal::ALL.len())?)?.alias.as_ref();
        let followed = |at| alias(at).and_then(|alias| alias.followed());
        if let Some(path) = registry.with_board(|board| crate::registry::find_cycle(board, followed)) {
            return Err(HealthError::Cycle { path });
        }
        let positions = 0..Internal::ALL.len() + self.checks.len();
        let followed = positions.filter_map(|at| Some((at, followed(at)?)));
        crate::registry::States(Arc::clone(registry)).follow(followed);
        Ok(())
    }
}

impl RunContext {
    fn new(runtime: Option<Handle>, registry: &Arc<Registry>) -> Self {
        Self {
            runtime,
            instance: instance(),
            registry: Arc::clone(registry),
            #[cfg(feature = "checks")]
            shared: None,
        }
    }

    #[cfg(feature = "checks")]
    fn target(
        &mut self,
        check: &doorbell_checks::options::Check,
        (position, stats): CheckPosition,
    ) -> Result<Option<Run>, HealthError> {
        use doorbell_checks::options::EgressOptions;
        use doorbell_checks::{Connector, SharedResources};

        let shared = match &mut self.shared {
            Some(shared) => shared,
            none => {
                let connector = Connector::open(&EgressOptions::default()).map_err(HealthError::Kind)?;
                let shared = SharedResources::new(Arc::new(connector));
                #[cfg(feature = "alias")]
                let shared =
                    shared.with_states(Arc::new(crate::registry::States(Arc::clone(&self.registry))));
                none.insert(shared)
            }
        };
        let runner = Runner::build(check, shared).map_err(HealthError::Kind)?;
        Ok(runner.map(|runner| Run::new(position, check, &self.instance, Arc::new(runner), stats)))
    }
}

/// Endpoints that always exist, without a call of [`HealthBuilder::endpoint`].
const OWN_PATHS: [&str; 3] = ["livez", "readyz", "startupz"];

/// The former path of Kubernetes for liveness.
const HEALTHZ: &str = "healthz";

/// Whether a name can be a path of requests in every framework.
fn is_path(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
        is_plain && !matches!(part, "" | "." | "..")
    };
    name.split('/').all(is_part)
}

/// Whether one of two paths is equal to or above the other. The paths below an endpoint are those
/// of its checks.
fn overlap(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn add_check(
    builder: &mut RegistryBuilder,
    name: &str,
    config: CheckConfig,
) -> Result<CheckIndex, HealthError> {
    builder.check(name, config).map_err(|source| HealthError::Check { name: name.to_owned(), source })
}

/// A check whose state the library sets: it never expires, and one result changes the state. Its
/// initial state must be correct, because a startup endpoint would latch an initial `up`.
fn internal_check(is_down: bool) -> CheckConfig {
    let initial = if is_down { Initial::FullyDown } else { Initial::FullyUp };
    CheckConfig { initial, history_len: 20, ..CheckConfig::ttl(Duration::MAX) }
}

/// Returns the host name, which distinguishes replicas, so that their checks do not run at the same
/// time. Empty if it is unknown.
fn instance() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

impl fmt::Debug for HealthBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.checks.iter().map(|check| check.name.as_str()).collect();
        f.debug_struct("HealthBuilder").field("checks", &names).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "checks"))]
mod tests {
    use super::*;
    use doorbell_checks::options::{Check as TargetCheck, CheckKind, Pace};

    #[test]
    fn a_result_stays_valid_during_a_run_that_takes_longer_than_the_interval() {
        let second = Duration::from_secs(1);
        let max_age = |pace: Pace| {
            let check =
                TargetCheck { pace, ..TargetCheck::new("db", CheckKind::parse("tcp://a:1").unwrap()) };
            HealthBuilder::default().target(check).checks[0].config.max_age()
        };
        assert_eq!(max_age(Pace::every(second)), second * 6);
        assert_eq!(max_age(Pace { timeout: second * 8, ..Pace::every(second) }), second * 24);
        let own = Pace { timeout: second * 8, max_age: second * 9, ..Pace::every(second) };
        assert_eq!(max_age(own), second * 9);
        let own = Check::every(second).timeout(second * 8);
        let builder = HealthBuilder::default().check("db", own, || async { Ok::<(), &str>(()) });
        assert_eq!(builder.checks[0].config.max_age(), second * 24);
    }
}
