//! The whole state as lines of the log, for whoever has nothing but a signal to ask with.
//!
//! Does not know about: who asks.
//!
//! One line in JSON for machines, then one for each thing for people. No level leaves them out.

use super::Operator;
use crate::config::format_duration;
use crate::log::ASKED;
use crate::wire::{CheckView, EndpointView, ProberView, Status};
use serde::Serialize;
use std::time::Duration;
use tracing::info;

/// Bytes of the line in JSON, which is left out where it would take the place of all others.
const JSON_LEN_MAX: usize = 256 << 10;

/// What the line in JSON holds.
#[derive(Serialize)]
struct State<'a> {
    status: &'a Status,
    checks: &'a [CheckView],
    probers: &'a [ProberView],
}

/// Writes it down.
pub(crate) fn tell(operator: &Operator) {
    let (status, probers) = (operator.status(), operator.probers());
    let checks = operator.checks(None, false).unwrap_or_default();
    let state = State { status: &status, checks: &checks, probers: &probers };
    if let Some(json) = serde_json::to_string(&state).ok().filter(|json| json.len() <= JSON_LEN_MAX) {
        info!(target: ASKED, json, "state in JSON");
    }
    program(&status);
    status.endpoints.iter().for_each(endpoint);
    checks.iter().for_each(check);
    for drain in &status.drains {
        let left = drain.left_ms.map(length);
        info!(target: ASKED, reason = drain.reason, left, "state: drain of {}", drain.endpoint);
    }
    for hold in &status.maintenance {
        let left = hold.left_ms.map(length);
        info!(target: ASKED, source = %hold.source, reason = hold.reason, left, "state: maintenance of {}", hold.target);
    }
    for prober in &probers {
        let ProberView { endpoint, prober, count, age_ms, interval_ms, verdict, .. } = prober;
        let (last, interval) = (length(*age_ms), interval_ms.map(length));
        info!(target: ASKED, count, last, interval, told = %verdict, "state: {prober} asks for {endpoint}");
    }
}

fn program(status: &Status) {
    let counters: Vec<String> =
        status.counters.iter().map(|(name, count)| format!("{name}={count}")).collect();
    info!(
        target: ASKED,
        reason = status.reason,
        up = length(status.uptime_ms),
        stops_in = status.stops_in_ms.map(length),
        pid = status.pid,
        config = status.config,
        generation = status.generation,
        addresses = status.addresses.join(" "),
        counters = counters.join(" "),
        "state: {} for {}",
        status.lifecycle,
        length(status.lifecycle_age_ms),
    );
    for (number, worker) in status.workers.iter().enumerate() {
        let failed = if worker.has_failed { "failed " } else { "" };
        info!(
            target: ASKED,
            why = worker.why,
            connections = worker.conns_live,
            requests = worker.requests,
            "state: worker {number}: {failed}{}",
            worker.driver,
        );
    }
}

fn endpoint(endpoint: &EndpointView) {
    let EndpointView { name, state, cause, note, age_ms, answers, weight, .. } = endpoint;
    let answers: Vec<String> =
        answers.iter().map(|answer| format!("{}={}", answer.audience, answer.code)).collect();
    let answers = answers.join(" ");
    info!(target: ASKED, %cause, note, answers, weight, "state: health {name}: {state} for {}", length(*age_ms));
}

fn check(check: &CheckView) {
    let CheckView { name, kind, state, age_ms, reason, .. } = check;
    let last = check.last.map(|last| format!("{} {} ago", last.outcome, length(last.age_ms)));
    let next = check.next_in_ms.map(length);
    info!(target: ASKED, kind, reason, last, next, "state: check {name}: {state} for {}", length(*age_ms));
}

/// In whole seconds, where there are any: nobody wants to know more exactly for how long something is so.
fn length(ms: u64) -> String {
    let rest = if ms < 1000 { 0 } else { ms % 1000 };
    format_duration(Duration::from_millis(ms - rest))
}
