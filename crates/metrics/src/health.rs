//! Metrics of endpoints, checks and probers.

use std::collections::BTreeMap;
use std::time::Duration;

use doorbell::time::Time as WorkerTime;
use doorbell_checks::{CheckCounts, DURATION_BOUNDS_US, LAG_BOUNDS_US, LagCounts, SchedulerCounters};
use doorbell_health::{Board, Cause, Check, CheckState, Endpoint, EndpointState, Time};
use doorbell_probes::{LbState, LbView, ProberRow, Registry};

use crate::family::{Families, Filling};
use crate::origin::Origin;

/// The health of a program at one moment.
#[derive(Clone, Debug, Default)]
pub struct HealthSample {
    /// The endpoints, in the order of the registry.
    pub endpoints: Vec<EndpointSample>,
    /// The checks, in the order of the registry.
    pub checks: Vec<CheckSample>,
    /// Probers seen so far.
    pub probers: Vec<ProberRow>,
    /// Server states that load balancers report, with the name of the endpoint.
    pub views: Vec<(String, LbView)>,
    /// Number of reported server states that were dropped.
    pub views_refused: u64,
    /// Counters of each check, by the name of the check.
    pub counts: BTreeMap<Box<str>, CheckCounts>,
    /// Totals over all checks, by the name of the counter; empty without checks.
    pub runs: BTreeMap<&'static str, u64>,
    /// Start delay of runs; `None` without checks.
    pub lag: Option<LagCounts>,
    /// The Unix time at which the clock of the checks was 0.
    pub checks_origin: Origin,
    /// The Unix time at which the clock of the workers, which also times probes, was 0.
    pub probers_origin: Origin,
}

/// An endpoint at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSample {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: EndpointState,
    /// Whether declared maintenance or a forced state determines the state, instead of the checks.
    pub is_forced: bool,
    /// Weight for agent checks; `None` if no check has a weight.
    pub weight: Option<u32>,
}

/// A check at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSample {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: CheckState,
    /// Successes since the last failure.
    pub successes: u32,
    /// Failures since the last success.
    pub failures: u32,
    /// The last result.
    pub last: Option<LastResult>,
    /// Time of the last success, since the origin of the clock of the checks.
    pub success_at: Option<Duration>,
}

/// The last result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastResult {
    /// Age of the result.
    pub age: Duration,
    /// Duration of the run.
    pub latency: Duration,
}

impl HealthSample {
    /// Samples the health in `registry`. `now` is the time on the clock of the checks, and
    /// `now_of_probers` that on the clock of the workers.
    #[must_use]
    pub fn of(
        registry: &Registry,
        counters: Option<&SchedulerCounters>,
        (now, checks_origin): (Time, Origin),
        (now_of_probers, probers_origin): (WorkerTime, Origin),
    ) -> Self {
        let (endpoints, checks) = registry.with_board(|board| (endpoints_of(board), checks_of(board, now)));
        let prober_stats = registry.prober_stats();
        let views = prober_stats.views(now_of_probers);
        Self {
            endpoints,
            checks,
            probers: prober_stats.rows(),
            views: views
                .flat_map(|(name, views)| views.into_iter().map(move |view| (name.to_owned(), view)))
                .collect(),
            views_refused: prober_stats.views_refused(),
            counts: counters.map(|counters| counters.by_check.counts()).unwrap_or_default(),
            runs: counters.into_iter().flat_map(SchedulerCounters::fields).collect(),
            lag: counters.map(|counters| counters.lag.counts()),
            checks_origin,
            probers_origin,
        }
    }

    /// Adds the families of health.
    pub fn gather(&self, families: &mut Families) {
        endpoints(&self.endpoints, families);
        checks(self, families);
        results(self, families);
        runs(self, families);
        probers(self, families);
    }
}

fn endpoints_of(board: &Board) -> Vec<EndpointSample> {
    let sample = |endpoint: &Endpoint| {
        let verdict = endpoint.verdict();
        EndpointSample {
            name: endpoint.config().name.clone(),
            state: verdict.state,
            is_forced: matches!(verdict.cause, Cause::Forced | Cause::Maintenance),
            weight: endpoint.weight(),
        }
    };
    board.endpoints().iter().map(sample).collect()
}

fn checks_of(board: &Board, now: Time) -> Vec<CheckSample> {
    let sample = |name: &str, check: &Check| CheckSample {
        name: name.to_owned(),
        state: check.state(),
        successes: check.consecutive_successes(),
        failures: check.consecutive_failures(),
        last: check.last().map(|(at, result)| LastResult { age: now.since(at), latency: result.latency }),
        success_at: check.last_success_at().map(|at| at.since(Time::ZERO)),
    };
    board.checks().map(|(_, name, check)| sample(name, check)).collect()
}

fn endpoints(all: &[EndpointSample], families: &mut Families) {
    let mut up = families.gauge("doorbell_endpoint_up", "1 if the health endpoint is up or degraded.");
    for one in all {
        let serves = matches!(one.state, EndpointState::Up | EndpointState::Degraded);
        up.add([("endpoint", &one.name)], if serves { 1.0 } else { 0.0 });
    }
    let mut state =
        families.gauge("doorbell_endpoint_state", "1 for the current state of a health endpoint.");
    for one in all {
        let words = EndpointState::ALL.map(EndpointState::as_str);
        state.one_of([("endpoint", &one.name)], "state", words, one.state.as_str());
    }
    let mut forced = families.gauge(
        "doorbell_endpoint_forced",
        "1 for the current state if it is maintenance or forced, regardless of the checks.",
    );
    for one in all {
        let words = EndpointState::ALL.map(EndpointState::as_str);
        forced.one_of(
            [("endpoint", &one.name)],
            "mode",
            words,
            if one.is_forced { one.state.as_str() } else { "" },
        );
    }
    let mut weight = families.gauge(
        "doorbell_endpoint_weight",
        "Weight reported to load balancers: the sum over the serving checks, or over all checks while the endpoint serves although its checks fail.",
    );
    for one in all {
        if let Some(sum) = one.weight {
            weight.add([("endpoint", &one.name)], f64::from(sum));
        }
    }
}

fn checks(sample: &HealthSample, families: &mut Families) {
    let all = &sample.checks;
    let mut up = families.gauge("doorbell_check_up", "1 if the check is up, degraded or going down.");
    for one in all {
        let is_up = matches!(one.state, CheckState::Up | CheckState::Degraded | CheckState::GoingDown);
        up.add([("check", &one.name)], if is_up { 1.0 } else { 0.0 });
    }
    let mut state = families.gauge("doorbell_check_state", "1 for the current state of a check.");
    for one in all {
        state.one_of(
            [("check", &one.name)],
            "state",
            CheckState::ALL.map(CheckState::as_str),
            one.state.as_str(),
        );
    }
    let mut results = families.gauge(
        "doorbell_check_consecutive_results",
        "Successes of a check since its last failure, and failures since its last success.",
    );
    for one in all {
        results.add([("check", &one.name), ("result", "success")], f64::from(one.successes));
        results.add([("check", &one.name), ("result", "failure")], f64::from(one.failures));
    }
    let mut took =
        families.gauge("doorbell_check_last_duration_seconds", "Duration of the last run of a check.");
    for one in all {
        if let Some(last) = &one.last {
            took.add([("check", &one.name)], last.latency.as_secs_f64());
        }
    }
    let mut age = families.gauge("doorbell_check_age_seconds", "Age of the last result of a check.");
    for one in all {
        if let Some(last) = &one.last {
            age.add([("check", &one.name)], last.age.as_secs_f64());
        }
    }
    let help = "Time of the last success of a check in seconds since 1970.";
    let mut success = families.gauge("doorbell_check_last_success_timestamp_seconds", help);
    for one in all {
        if let Some(at) = one.success_at {
            success.add([("check", &one.name)], sample.checks_origin.secs(at));
        }
    }
}

/// With more checks than this, the histogram of phases is not exported: each phase takes more than
/// ten lines.
const TIMED_MAX: usize = 1_000;

/// Adds the results of each check.
fn results(sample: &HealthSample, families: &mut Families) {
    let help =
        "Results of a check, including pushed ones, by result and by the phase that decided the result.";
    each(sample, families.counter("doorbell_check_attempts", help), |attempts, check, counts| {
        for (result, reason, count) in counts.attempts() {
            attempts.count([("check", check), ("result", result), ("reason", reason)], count);
        }
    });
    if sample.checks.len() <= TIMED_MAX {
        let help = "Duration of the phases of runs; the latency of a pushed result counts as one phase.";
        each(sample, families.histogram("doorbell_check_duration_seconds", help), |times, check, counts| {
            for (phase, one) in counts.durations() {
                let labels = [("check", check), ("phase", phase.as_str())];
                times.times(labels, &DURATION_BOUNDS_US, &one.buckets, one.sum_us);
            }
        });
    }
    let help = "State changes of a check, by new state.";
    each(sample, families.counter("doorbell_check_transitions", help), |transitions, check, counts| {
        for (state, count) in counts.transitions() {
            transitions.count([("check", check), ("to", state.as_str())], count);
        }
    });
    let help = "Earliest expiry of a certificate in the chain that a check verified, or received without verification, in seconds since 1970.";
    let ends = families.gauge("doorbell_check_certificate_not_after_timestamp_seconds", help);
    each(sample, ends, |ends, check, counts| {
        if let Some(at) = counts.certificate_ends() {
            ends.count([("check", check)], at);
        }
    });
    let help = "Runs that took longer than the interval.";
    each(sample, families.counter("doorbell_check_overruns", help), |overruns, check, counts| {
        overruns.count([("check", check)], counts.overruns);
    });
    let help = "Requested runs during a run of the same check; at most one is counted per run.";
    each(sample, families.counter("doorbell_check_coalesced", help), |coalesced, check, counts| {
        coalesced.count([("check", check)], counts.coalesced);
    });
    let help =
        "Requested runs for which the last result was fresh enough; at most one is counted per result.";
    each(sample, families.counter("doorbell_check_cache_hits", help), |hits, check, counts| {
        hits.count([("check", check)], counts.cache_hits);
    });
}

fn each(sample: &HealthSample, mut family: Filling<'_>, add: impl Fn(&mut Filling<'_>, &str, &CheckCounts)) {
    for check in &sample.checks {
        if let Some(counts) = sample.counts.get(&*check.name) {
            add(&mut family, &check.name, counts);
        }
    }
}

/// Adds totals over all checks.
fn runs(sample: &HealthSample, families: &mut Families) {
    let count = |name: &str| sample.runs.get(name).copied();
    let mut add = |from: &str, name, help| {
        if let Some(count) = count(from) {
            families.counter(name, help).count([], count);
        }
    };
    add("runs", "doorbell_check_runs", "Finished runs of checks.");
    add("failed", "doorbell_check_failures", "Failed runs of checks.");
    add(
        "waited",
        "doorbell_check_waits",
        "Number of times that `runtime.checks_in_flight` delayed due runs.",
    );
    add("pushed", "doorbell_check_pushes", "Pushed results.");
    let refused = [("queue_full", "pushes_refused"), ("no_check", "pushes_without_check")];
    let refused = refused.map(|(reason, field)| Some((reason, sample.runs.get(field).copied()?)));
    if refused.iter().any(Option::is_some) {
        let help =
            "Refused pushed results, by reason: the queue was full, or a reload had removed the check.";
        let mut family = families.counter("doorbell_check_pushes_refused", help);
        for (reason, count) in refused.into_iter().flatten() {
            family.count([("reason", reason)], count);
        }
    }
    if let Some(lag) = &sample.lag {
        let help = "Start delay of runs, over all checks.";
        let mut late = families.histogram("doorbell_check_schedule_lag_seconds", help);
        late.times([], &LAG_BOUNDS_US, &lag.buckets, lag.sum_us);
    }
}

fn probers(sample: &HealthSample, families: &mut Families) {
    let all = &sample.probers;
    let mut probes = families.counter("doorbell_probes", "Probes, by endpoint, prober and verdict.");
    for one in all {
        for (verdict, &count) in EndpointState::ALL.iter().zip(&one.states).filter(|(_, count)| **count > 0) {
            let labels =
                [("endpoint", &*one.endpoint), ("prober", one.prober_name()), ("verdict", verdict.as_str())];
            probes.count(labels, count);
        }
    }
    let help = "Time of the last probe of a prober in seconds since 1970.";
    let mut seen = families.gauge("doorbell_prober_last_seen_timestamp_seconds", help);
    for one in all {
        let labels = [("endpoint", &*one.endpoint), ("prober", one.prober_name())];
        seen.add(labels, sample.probers_origin.secs(one.last.since(WorkerTime::ZERO)));
    }
    let mut apart =
        families.gauge("doorbell_prober_interval_seconds", "Interval between probes of a prober.");
    for one in all {
        if let Some(interval) = one.interval {
            let labels = [("endpoint", &*one.endpoint), ("prober", one.prober_name())];
            apart.add(labels, interval.as_secs_f64());
        }
    }
    let mut views = families.gauge(
        "doorbell_lb_view_state",
        "1 for the current state of this server as reported by the load balancer.",
    );
    for (endpoint, view) in &sample.views {
        let words = LbState::ALL.map(LbState::as_str);
        views.one_of([("endpoint", endpoint), ("lb", &view.lb)], "state", words, view.state.as_str());
    }
    let help =
        "Dropped server states that load balancers reported: invalid, from an untrusted address, or evicted.";
    families.counter("doorbell_lb_views_refused", help).count([], sample.views_refused);
}
