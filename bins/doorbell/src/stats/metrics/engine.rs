//! Metrics of the program, its workers and its connections.
//!
//! Does not know about: texts, health.

use super::family::Families;
use super::{Build, Scrape, since_zero};
use crate::wire::Lifecycle;
use doorbell::Snapshot;
use doorbell::time::Time;
use std::time::Duration;

/// Counters of the engine that are exported separately, not by [`named`].
const ELSEWHERE: [&str; 10] = [
    "accept_errors",
    "bytes_in",
    "bytes_out",
    "conns_accepted",
    "conns_live",
    "proxy_local",
    "proxy_refused",
    "proxy_v1",
    "proxy_v2",
    "requests",
];

pub(super) fn gather(scrape: &Scrape, families: &mut Families) {
    program(scrape, families);
    workers(scrape, families);
    bytes(scrape, families);
    requests(scrape, families);
    rest(scrape, families);
}

fn program(scrape: &Scrape, families: &mut Families) {
    let status = &scrape.status;
    let Build { revision, rustc } = scrape.build;
    let labels = [("version", &*status.version), ("revision", revision), ("rustc", rustc)];
    families.gauge("doorbell_build_info", "Version of doorbell and of its compiler.").add(labels, 1.0);
    let help = "Start time of the program in seconds since 1970.";
    families.gauge("doorbell_start_time_seconds", help).add([], scrape.origins.program.secs(Duration::ZERO));
    let words = Lifecycle::ALL.map(Lifecycle::as_str);
    families.gauge("doorbell_lifecycle_state", "1 for the current lifecycle state.").one_of(
        [],
        "state",
        words,
        status.lifecycle.as_str(),
    );
    let help = "Generation of the configuration in use: 1 at the start, one more with every reload.";
    families.gauge("doorbell_config_generation", help).count([], status.generation);
    if !scrape.config_hash.is_empty() {
        let help = "Hash of the configuration in use.";
        families.gauge("doorbell_config_info", help).add([("hash", &scrape.config_hash)], 1.0);
    }
    let help = "1 if the last reload succeeded.";
    let is_served = if scrape.reloads.has_last_failed { 0.0 } else { 1.0 };
    families.gauge("doorbell_config_last_reload_successful", help).add([], is_served);
    let help = "Time of the last successful reload in seconds since 1970.";
    let at = scrape.origins.workers.secs(since_zero(scrape.reloads.since));
    families.gauge("doorbell_config_last_reload_success_timestamp_seconds", help).add([], at);
    let mut reloads = families.counter("doorbell_config_reloads", "Reloads, by result.");
    reloads.count([("result", "done")], scrape.reloads.done);
    reloads.count([("result", "failed")], scrape.reloads.failed);
    let help = "Lost log lines: the reader was too slow, or a write failed.";
    families.counter("doorbell_log_lost", help).count([], scrape.log_lost);
    let help = "Targets in maintenance, by source.";
    let mut holds = families.gauge("doorbell_maintenance", help);
    for hold in &status.maintenance {
        holds.add([("target", &hold.target), ("source", hold.source.as_str())], 1.0);
    }
}

fn workers(scrape: &Scrape, families: &mut Families) {
    let all = &scrape.status.workers;
    let help = "Driver of a worker, with the cause: ok, forced, or what keeps io_uring from working.";
    let mut driver = families.gauge("doorbell_driver_info", help);
    for (worker, one) in all.iter().enumerate() {
        // The full reason is in the log and on the status page.
        driver.add([("worker", &worker.to_string()), ("driver", &one.driver), ("cause", &one.cause)], 1.0);
    }
    let mut up = families.gauge("doorbell_worker_up", "1 if the worker runs.");
    for (worker, one) in all.iter().enumerate() {
        up.add([("worker", &worker.to_string())], if one.has_failed { 0.0 } else { 1.0 });
    }
    let help =
        "Time of the last turn of a worker's event loop in seconds since 1970; an idle worker rarely turns.";
    let mut turned = families.gauge("doorbell_worker_last_loop_timestamp_seconds", help);
    for (worker, one) in scrape.workers.iter().enumerate().filter(|(_, one)| one.turned > Time::ZERO) {
        turned.add([("worker", &worker.to_string())], scrape.origins.workers.secs(since_zero(one.turned)));
    }
}

fn bytes(scrape: &Scrape, families: &mut Families) {
    let help = "Accepted connections, by worker.";
    by_worker(scrape, families.counter("doorbell_worker_connections_accepted", help), |worker| {
        worker.conns_accepted
    });
    let help = "Open connections, by worker.";
    by_worker(scrape, families.gauge("doorbell_worker_connections_active", help), |worker| worker.conns_live);
    by_worker(scrape, families.counter("doorbell_received_bytes", "Received bytes."), |worker| {
        worker.bytes_in
    });
    by_worker(scrape, families.counter("doorbell_sent_bytes", "Sent bytes of replies."), |worker| {
        worker.bytes_out
    });
}

fn requests(scrape: &Scrape, families: &mut Families) {
    let help = "Requests served, by protocol; http1 includes the replies of raw listeners.";
    let mut requests = families.counter("doorbell_requests", help);
    let http1 = scrape.workers.iter().map(|worker| worker.requests).sum();
    requests.count([("protocol", "http1")], http1);
    if let Some((_, http2)) = scrape.http2 {
        requests.count([("protocol", "http2")], http2);
    }
    if let Some((conns, _)) = scrape.http2 {
        let help = "HTTP/2 connections handed over by workers.";
        families.counter("doorbell_http2_connections", help).count([], conns);
    }
    let help = "Refused or ended requests, handshakes and connections, by reason.";
    let mut refused = families.counter("doorbell_refused", help);
    for (reason, &count) in &scrape.refused {
        refused.count([("reason", reason)], count);
    }
}

/// All other counters of the engine.
fn rest(scrape: &Scrape, families: &mut Families) {
    let names = Snapshot::default().fields().map(|(name, _)| name).collect::<Vec<_>>();
    for name in names.into_iter().filter(|name| !ELSEWHERE.contains(name)) {
        let (family, help) = named(name);
        let count = |worker: &Snapshot| {
            worker.fields().find(|(field, _)| *field == name).map_or(0, |(_, count)| count)
        };
        by_worker(scrape, families.counter(family, help), count);
    }
}

fn by_worker(scrape: &Scrape, mut family: super::family::Filling<'_>, count: impl Fn(&Snapshot) -> u64) {
    for (at, worker) in scrape.workers.iter().enumerate() {
        family.count([("worker", &*at.to_string())], count(worker));
    }
}

/// Name and HELP of a counter of the engine.
fn named(field: &str) -> (&'static str, &'static str) {
    match field {
        "accept_downgrades" => ("doorbell_accept_downgrades", "Downgrades of the accept method."),
        "accept_rearms" => ("doorbell_accept_rearms", "Submissions of accept."),
        "accept_stalls" => {
            ("doorbell_accept_stalls", "Detected stalls: waiting clients that accept did not report.")
        }
        "accepts_dropped" => (
            "doorbell_accepts_dropped",
            "Accepted connections closed because no slot was free, and invalid completions.",
        ),
        "answers_dropped" => ("doorbell_answers_dropped", "Results of jobs whose request had ended."),
        "cq_overflows" => (
            "doorbell_ring_cq_overflow",
            "Calls of io_uring_enter after which completions were in the kernel's overflow list.",
        ),
        "driver_fallbacks" => ("doorbell_driver_fallbacks", "Fallbacks of workers to epoll."),
        "enters" => ("doorbell_ring_enters", "System calls that waited for events."),
        "hand_over_errors" => ("doorbell_hand_over_errors", "Failed hand-overs of connections."),
        "hand_over_pauses" => {
            ("doorbell_hand_over_pauses", "Pauses of accept because of handed-over connections.")
        }
        "hand_over_refused" => ("doorbell_hand_over_refused", "Refused hand-overs of connections."),
        "hand_over_waits" => ("doorbell_hand_over_waits", "Connections that waited for a hand-over."),
        "handler_misuses" => ("doorbell_handler_misuses", "Invalid replies of handlers, replaced by a 500."),
        "handler_panics" => ("doorbell_handler_panics", "Panics of handlers."),
        "jobs_cancelled" => ("doorbell_jobs_cancelled", "Jobs cancelled before they started."),
        "jobs_panicked" => ("doorbell_jobs_panicked", "Panics of jobs."),
        "jobs_queued" => ("doorbell_jobs_queued", "Jobs queued for other threads."),
        "jobs_refused" => ("doorbell_jobs_refused", "Jobs refused because the queue was full."),
        "jobs_timed_out" => ("doorbell_jobs_timed_out", "Jobs that timed out."),
        "recv_bufs_starved" => ("doorbell_ring_buffer_starved", "Receives that first found no free buffer."),
        "stale_completions" => ("doorbell_stale_completions", "Completions for ended connections."),
        "table_full" => ("doorbell_table_full", "Pauses of accept because the connection table was full."),
        "turns" => ("doorbell_worker_turns", "Turns of a worker's event loop."),
        // A test asserts that every counter is listed.
        _ => ("doorbell_other", "Unlisted counter of the engine."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_the_engine_has_a_name() {
        let snapshot = Snapshot::default();
        let names = snapshot.fields().map(|(name, _)| name).filter(|name| !ELSEWHERE.contains(name));
        let families: Vec<_> = names.map(|name| (name, named(name).0)).collect();
        for (name, family) in &families {
            assert_ne!(*family, "doorbell_other", "{name}");
            assert_eq!(families.iter().filter(|(_, other)| other == family).count(), 1, "{family}");
        }
        for name in ELSEWHERE {
            assert!(snapshot.fields().any(|(field, _)| field == name), "{name}");
        }
    }
}
