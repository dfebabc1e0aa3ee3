//! Logs the whole state, on SIGUSR1.
//!
//! Logs one line of JSON, then one line for the program and for each worker, endpoint, check,
//! drain, maintenance and prober. The lines are logged regardless of the configured log level.

use super::Operator;
use crate::log::REQUESTED;
use doorbell_control::{CheckView, EndpointView, ProberView, Status};
use doorbell_proxy_config::format_duration;
use serde::Serialize;
use std::time::Duration;
use tracing::info;

/// Maximum size of the JSON line; a larger one is omitted, so that the other lines fit into the log
/// queue.
const JSON_LEN_MAX: usize = 256 << 10;

/// The content of the JSON line.
#[derive(Serialize)]
struct State<'a> {
    status: &'a Status,
    checks: &'a [CheckView],
    probers: &'a [ProberView],
}

/// Logs the state.
pub(crate) fn log_state(operator: &Operator) {
    let (status, probers) = (operator.status(), operator.probers());
    let checks = operator.checks(None, false).unwrap_or_default();
    let state = State { status: &status, checks: &checks, probers: &probers };
    if let Some(json) = serde_json::to_string(&state).ok().filter(|json| json.len() <= JSON_LEN_MAX) {
        info!(target: REQUESTED, json, "state in JSON");
    }
    program(&status);
    status.endpoints.iter().for_each(endpoint);
    checks.iter().for_each(check);
    for drain in &status.drains {
        let left = drain.left_ms.map(length);
        info!(target: REQUESTED, reason = drain.reason, left, "state: drain of {}", drain.endpoint);
    }
    for hold in &status.maintenance {
        let left = hold.left_ms.map(length);
        info!(target: REQUESTED, source = %hold.source, reason = hold.reason, left, "state: maintenance of {}", hold.target);
    }
    for prober in &probers {
        let ProberView { endpoint, prober, count, age_ms, interval_ms, verdict, .. } = prober;
        let (last, interval) = (length(*age_ms), interval_ms.map(length));
        info!(target: REQUESTED, count, last, interval, %verdict, "state: {prober} probes {endpoint}");
    }
}

fn program(status: &Status) {
    let counters: Vec<String> =
        status.counters.iter().map(|(name, count)| format!("{name}={count}")).collect();
    info!(
        target: REQUESTED,
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
            target: REQUESTED,
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
    info!(target: REQUESTED, %cause, note, answers, weight, "state: health {name}: {state} for {}", length(*age_ms));
}

fn check(check: &CheckView) {
    let CheckView { name, kind, state, age_ms, reason, .. } = check;
    let last = check.last.map(|last| format!("{} {} ago", last.outcome, length(last.age_ms)));
    let next = check.next_in_ms.map(length);
    info!(target: REQUESTED, kind, reason, last, next, "state: check {name}: {state} for {}", length(*age_ms));
}

/// A duration in whole seconds, unless it is shorter than a second.
fn length(ms: u64) -> String {
    let rest = if ms < 1000 { 0 } else { ms % 1000 };
    format_duration(Duration::from_millis(ms - rest))
}
