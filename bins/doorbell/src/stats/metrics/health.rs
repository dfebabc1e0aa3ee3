//! Metrics of endpoints, checks and probers.
//!
//! Does not know about: texts.

use super::family::{Families, Filling, as_f64};
use super::{Scrape, since_zero};
use crate::wire::{CauseWord, CheckWord, EndpointWord};
use doorbell_checks::{CheckCounts, DURATION_BOUNDS_US, LAG_BOUNDS_US};
use doorbell_health::EndpointState;
use doorbell_probes::LbState;

pub(super) fn gather(scrape: &Scrape, families: &mut Families) {
    endpoints(scrape, families);
    checks(scrape, families);
    results(scrape, families);
    runs(scrape, families);
    probers(scrape, families);
}

fn endpoints(scrape: &Scrape, families: &mut Families) {
    let all = &scrape.status.endpoints;
    let mut up = families.gauge("doorbell_endpoint_up", "1 if the health endpoint is up.");
    for one in all {
        let serves = matches!(one.state, EndpointWord::Up | EndpointWord::Degraded);
        up.add([("endpoint", &one.name)], if serves { 1.0 } else { 0.0 });
    }
    let mut state =
        families.gauge("doorbell_endpoint_state", "1 for the current state of a health endpoint.");
    for one in all {
        let words = EndpointWord::ALL.map(EndpointWord::as_str);
        state.one_of([("endpoint", &one.name)], "state", words, one.state.as_str());
    }
    let mut forced = families.gauge(
        "doorbell_endpoint_forced",
        "1 for the state that an operator has set, regardless of the checks.",
    );
    for one in all {
        let is_forced = matches!(one.cause, CauseWord::Forced | CauseWord::Maintenance);
        let words = EndpointWord::ALL.map(EndpointWord::as_str);
        forced.one_of(
            [("endpoint", &one.name)],
            "mode",
            words,
            if is_forced { one.state.as_str() } else { "" },
        );
    }
    let mut weight = families.gauge(
        "doorbell_endpoint_weight",
        "Weight reported to load balancers: the sum over the healthy checks, or over all checks if the state does not come from checks.",
    );
    for one in all {
        if let Some(sum) = one.weight {
            weight.add([("endpoint", &one.name)], f64::from(sum));
        }
    }
}

fn checks(scrape: &Scrape, families: &mut Families) {
    let all = &scrape.checks;
    let mut up = families.gauge("doorbell_check_up", "1 if the check is up.");
    for one in all {
        let is_up = matches!(one.state, CheckWord::Up | CheckWord::Degraded | CheckWord::GoingDown);
        up.add([("check", &one.name)], if is_up { 1.0 } else { 0.0 });
    }
    let mut state = families.gauge("doorbell_check_state", "1 for the current state of a check.");
    for one in all {
        state.one_of(
            [("check", &one.name)],
            "state",
            CheckWord::ALL.map(CheckWord::as_str),
            one.state.as_str(),
        );
    }
    let mut results =
        families.gauge("doorbell_check_consecutive_results", "Consecutive results of one kind.");
    for one in all {
        results.add([("check", &one.name), ("result", "success")], f64::from(one.successes));
        results.add([("check", &one.name), ("result", "failure")], f64::from(one.failures));
    }
    let mut took =
        families.gauge("doorbell_check_last_duration_seconds", "Duration of the last run of a check.");
    for one in all {
        if let Some(last) = &one.last {
            took.add([("check", &one.name)], f64::from(last.latency_us) / 1e6);
        }
    }
    let mut age = families.gauge("doorbell_check_age_seconds", "Age of the last result of a check.");
    for one in all {
        if let Some(last) = &one.last {
            age.add([("check", &one.name)], as_f64(last.age_ms) / 1e3);
        }
    }
    let help = "Time of the last success of a check in seconds since 1970.";
    let mut success = families.gauge("doorbell_check_last_success_timestamp_seconds", help);
    for one in all {
        if let Some(&at) = scrape.last_successes.get(&one.name) {
            success.add([("check", &one.name)], scrape.origins.checks.secs(at));
        }
    }
}

/// Maximum number of checks for which the histogram of phases is exported: each phase takes more
/// than ten lines.
const TIMED_MAX: usize = 1_000;

/// Adds the results of each check.
fn results(scrape: &Scrape, families: &mut Families) {
    let help = "Results of a check, by result and by the phase that decided it, including pushed ones.";
    each(scrape, families.counter("doorbell_check_attempts", help), |attempts, check, counts| {
        for (result, reason, count) in counts.attempts() {
            attempts.count([("check", check), ("result", result), ("reason", reason)], count);
        }
    });
    if scrape.checks.len() <= TIMED_MAX {
        let help = "Duration of the phases of runs.";
        each(scrape, families.histogram("doorbell_check_duration_seconds", help), |times, check, counts| {
            for (phase, one) in counts.durations() {
                let labels = [("check", check), ("phase", phase.as_str())];
                times.times(labels, &DURATION_BOUNDS_US, &one.buckets, one.sum_us);
            }
        });
    }
    let help = "State changes of a check, by new state.";
    each(scrape, families.counter("doorbell_check_transitions", help), |transitions, check, counts| {
        for (state, count) in counts.transitions() {
            transitions.count([("check", check), ("to", state.as_str())], count);
        }
    });
    let help = "Earliest expiry of a certificate seen by a check in seconds since 1970.";
    let ends = families.gauge("doorbell_check_certificate_not_after_timestamp_seconds", help);
    each(scrape, ends, |ends, check, counts| {
        if let Some(at) = counts.certificate_ends() {
            ends.count([("check", check)], at);
        }
    });
    let help = "Runs that took longer than the interval.";
    each(scrape, families.counter("doorbell_check_overruns", help), |overruns, check, counts| {
        overruns.count([("check", check)], counts.overruns);
    });
    let help = "Requested runs during a run of the same check; at most one is counted per run.";
    each(scrape, families.counter("doorbell_check_coalesced", help), |coalesced, check, counts| {
        coalesced.count([("check", check)], counts.coalesced);
    });
    let help =
        "Requested runs for which the last result was fresh enough; at most one is counted per result.";
    each(scrape, families.counter("doorbell_check_cache_hits", help), |hits, check, counts| {
        hits.count([("check", check)], counts.cache_hits);
    });
}

fn each(scrape: &Scrape, mut family: Filling<'_>, add: impl Fn(&mut Filling<'_>, &str, &CheckCounts)) {
    for check in &scrape.checks {
        if let Some(counts) = scrape.check_counts.get(&*check.name) {
            add(&mut family, &check.name, counts);
        }
    }
}

/// Adds totals over all checks.
fn runs(scrape: &Scrape, families: &mut Families) {
    let count = |name: &str| scrape.check_runs.get(name).copied();
    let mut add = |from: &str, name, help| {
        if let Some(count) = count(from) {
            families.counter(name, help).count([], count);
        }
    };
    add("runs", "doorbell_check_runs", "Finished runs of checks.");
    add("failed", "doorbell_check_failures", "Failed runs of checks.");
    add("waited", "doorbell_check_waits", "Runs that waited for `runtime.checks_in_flight`.");
    add("pushed", "doorbell_check_pushes", "Pushed results.");
    add(
        "pushes_refused",
        "doorbell_check_pushes_refused",
        "Pushed results refused because the queue was full.",
    );
    if let Some(lag) = &scrape.check_lag {
        let help = "Start delay of runs, over all checks.";
        let mut late = families.histogram("doorbell_check_schedule_lag_seconds", help);
        late.times([], &LAG_BOUNDS_US, &lag.buckets, lag.sum_us);
    }
}

fn probers(scrape: &Scrape, families: &mut Families) {
    let all = &scrape.probers;
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
        seen.add(labels, scrape.origins.workers.secs(since_zero(one.last)));
    }
    let mut apart =
        families.gauge("doorbell_prober_interval_seconds", "Interval between probes of a prober.");
    for one in all {
        if let Some(interval) = one.interval {
            let labels = [("endpoint", &*one.endpoint), ("prober", one.prober_name())];
            apart.add(labels, interval.as_secs_f64());
        }
    }
    let mut views = families
        .gauge("doorbell_lb_view_state", "1 for the state of this server in the load balancer's view.");
    for (endpoint, view) in &scrape.views {
        let words = LbState::ALL.map(LbState::as_str);
        views.one_of([("endpoint", endpoint), ("lb", &view.lb)], "state", words, view.state.as_str());
    }
    let help = "Views of load balancers that were invalid, came from an untrusted address, or were evicted.";
    families.counter("doorbell_lb_views_refused", help).count([], scrape.views_refused);
}
