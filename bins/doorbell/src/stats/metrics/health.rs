//! Endpoints, checks and probers as metrics.
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
    let mut up = families.gauge("doorbell_endpoint_up", "Whether a health endpoint says that it serves.");
    for one in all {
        let serves = matches!(one.state, EndpointWord::Up | EndpointWord::Degraded);
        up.add([("endpoint", &one.name)], if serves { 1.0 } else { 0.0 });
    }
    let mut state = families.gauge("doorbell_endpoint_state", "1 for the state of a health endpoint.");
    for one in all {
        let words = EndpointWord::ALL.map(EndpointWord::as_str);
        state.one_of([("endpoint", &one.name)], "state", words, one.state.as_str());
    }
    let mut forced = families
        .gauge("doorbell_endpoint_forced", "1 for the state that was set by hand, whatever the checks say.");
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
        "The weight that load balancers are told: of the checks that serve, and all of it in a state that is not theirs.",
    );
    for one in all {
        if let Some(sum) = one.weight {
            weight.add([("endpoint", &one.name)], f64::from(sum));
        }
    }
}

fn checks(scrape: &Scrape, families: &mut Families) {
    let all = &scrape.checks;
    let mut up = families.gauge("doorbell_check_up", "Whether a check counts as up.");
    for one in all {
        let is_up = matches!(one.state, CheckWord::Up | CheckWord::Degraded | CheckWord::GoingDown);
        up.add([("check", &one.name)], if is_up { 1.0 } else { 0.0 });
    }
    let mut state = families.gauge("doorbell_check_state", "1 for the state of a check.");
    for one in all {
        state.one_of(
            [("check", &one.name)],
            "state",
            CheckWord::ALL.map(CheckWord::as_str),
            one.state.as_str(),
        );
    }
    let mut results = families
        .gauge("doorbell_check_consecutive_results", "Results of one kind since the last of the other.");
    for one in all {
        results.add([("check", &one.name), ("result", "success")], f64::from(one.successes));
        results.add([("check", &one.name), ("result", "failure")], f64::from(one.failures));
    }
    let mut took =
        families.gauge("doorbell_check_last_duration_seconds", "How long the last run of a check took.");
    for one in all {
        if let Some(last) = &one.last {
            took.add([("check", &one.name)], f64::from(last.latency_us) / 1e6);
        }
    }
    let mut age = families.gauge("doorbell_check_age_seconds", "How old the last result of a check is.");
    for one in all {
        if let Some(last) = &one.last {
            age.add([("check", &one.name)], as_f64(last.age_ms) / 1e3);
        }
    }
    let help = "When a check last succeeded, in seconds since 1970.";
    let mut success = families.gauge("doorbell_check_last_success_timestamp_seconds", help);
    for one in all {
        if let Some(&at) = scrape.last_successes.get(&one.name) {
            success.add([("check", &one.name)], scrape.origins.checks.secs(at));
        }
    }
}

/// Checks of which the parts of runs are timed: each is ten lines and more for every part, and whoever has more checks than these
/// has no use for them.
const TIMED_MAX: usize = 1_000;

/// What the runs of each check came to.
fn results(scrape: &Scrape, families: &mut Families) {
    let help = "Runs of a check, by result and by the part in which it came out; the results it was told are among them.";
    each(scrape, families.counter("doorbell_check_attempts", help), |attempts, check, counts| {
        for (result, reason, count) in counts.attempts() {
            attempts.count([("check", check), ("result", result), ("reason", reason)], count);
        }
    });
    if scrape.checks.len() <= TIMED_MAX {
        let help = "How long the parts of runs took.";
        each(scrape, families.histogram("doorbell_check_duration_seconds", help), |times, check, counts| {
            for (phase, one) in counts.durations() {
                let labels = [("check", check), ("phase", phase.as_str())];
                times.times(labels, &DURATION_BOUNDS_US, &one.buckets, one.sum_us);
            }
        });
    }
    let help = "Changes of the state of a check, by where it went.";
    each(scrape, families.counter("doorbell_check_transitions", help), |transitions, check, counts| {
        for (state, count) in counts.transitions() {
            transitions.count([("check", check), ("to", state.as_str())], count);
        }
    });
    let help = "When the first certificate that a check was shown ends, in seconds since 1970.";
    let ends = families.gauge("doorbell_check_certificate_not_after_timestamp_seconds", help);
    each(scrape, ends, |ends, check, counts| {
        if let Some(at) = counts.certificate_ends() {
            ends.count([("check", check)], at);
        }
    });
    let help = "Runs that took longer than until the next one was due.";
    each(scrape, families.counter("doorbell_check_overruns", help), |overruns, check, counts| {
        overruns.count([("check", check)], counts.overruns);
    });
    let help =
        "Calls for a run that came while one went on; of many who ask until the next run one is counted.";
    each(scrape, families.counter("doorbell_check_coalesced", help), |coalesced, check, counts| {
        coalesced.count([("check", check)], counts.coalesced);
    });
    let help = "Calls for a run that found a result which was new enough; of many who ask one is counted.";
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

/// What the checks did all together.
fn runs(scrape: &Scrape, families: &mut Families) {
    let count = |name: &str| scrape.check_runs.get(name).copied();
    let mut add = |from: &str, name, help| {
        if let Some(count) = count(from) {
            families.counter(name, help).count([], count);
        }
    };
    add("runs", "doorbell_check_runs", "Runs of checks that are over.");
    add("failed", "doorbell_check_failures", "Runs of checks that found no success.");
    add("waited", "doorbell_check_waits", "Runs that waited because too many others ran.");
    add("pushed", "doorbell_check_pushes", "Results that were told from outside.");
    add("pushes_refused", "doorbell_check_pushes_refused", "Results told from outside that found no place.");
    if let Some(lag) = &scrape.check_lag {
        let help = "How late runs of checks started, all checks together.";
        let mut late = families.histogram("doorbell_check_schedule_lag_seconds", help);
        late.times([], &LAG_BOUNDS_US, &lag.buckets, lag.sum_us);
    }
}

fn probers(scrape: &Scrape, families: &mut Families) {
    let all = &scrape.probers;
    let mut probes = families.counter("doorbell_probes", "Probes, by who asked and what they were told.");
    for one in all {
        for (verdict, &count) in EndpointState::ALL.iter().zip(&one.states).filter(|(_, count)| **count > 0) {
            let labels =
                [("endpoint", &*one.endpoint), ("prober", one.prober_name()), ("verdict", verdict.as_str())];
            probes.count(labels, count);
        }
    }
    let help = "When a prober was last seen, in seconds since 1970.";
    let mut seen = families.gauge("doorbell_prober_last_seen_timestamp_seconds", help);
    for one in all {
        let labels = [("endpoint", &*one.endpoint), ("prober", one.prober_name())];
        seen.add(labels, scrape.origins.workers.secs(since_zero(one.last)));
    }
    let mut apart = families
        .gauge("doorbell_prober_interval_seconds", "How far apart probes come, or came while they did.");
    for one in all {
        if let Some(interval) = one.interval {
            let labels = [("endpoint", &*one.endpoint), ("prober", one.prober_name())];
            apart.add(labels, interval.as_secs_f64());
        }
    }
    let mut views =
        families.gauge("doorbell_lb_view_state", "1 for the state in which a load balancer sees us.");
    for (endpoint, view) in &scrape.views {
        let words = LbState::ALL.map(LbState::as_str);
        views.one_of([("endpoint", endpoint), ("lb", &view.lb)], "state", words, view.state.as_str());
    }
    let help = "States of load balancers that were not understood, came from an address that is not trusted, or had to go for another.";
    families.counter("doorbell_lb_views_refused", help).count([], scrape.views_refused);
}
