//! The program, its workers and its connections as metrics.
//!
//! Does not know about: texts, health.

use super::family::Families;
use super::{Build, Scrape, since_zero};
use crate::wire::Lifecycle;
use doorbell::Snapshot;
use doorbell::time::Time;
use std::time::Duration;

/// Counters of the engine that have a name of their own here, beside [`named`].
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
    families
        .gauge("doorbell_build_info", "The version that runs, and the compiler that made it.")
        .add(labels, 1.0);
    let help = "When the program started, in seconds since 1970.";
    families.gauge("doorbell_start_time_seconds", help).add([], scrape.origins.program.secs(Duration::ZERO));
    let words = Lifecycle::ALL.map(Lifecycle::as_str);
    families.gauge("doorbell_lifecycle_state", "1 for how far the program has come.").one_of(
        [],
        "state",
        words,
        status.lifecycle.as_str(),
    );
    let help = "Which configuration is in use: 1 at the start, one more with every reload.";
    families.gauge("doorbell_config_generation", help).count([], status.generation);
    if !scrape.config_hash.is_empty() {
        let help = "The configuration that is served: the same hash is the same configuration.";
        families.gauge("doorbell_config_info", help).add([("hash", &scrape.config_hash)], 1.0);
    }
    let help = "Whether what was read last is what is served.";
    let is_served = if scrape.reloads.has_last_failed { 0.0 } else { 1.0 };
    families.gauge("doorbell_config_last_reload_successful", help).add([], is_served);
    let help = "When the configuration was last read with success, in seconds since 1970.";
    let at = scrape.origins.workers.secs(since_zero(scrape.reloads.since));
    families.gauge("doorbell_config_last_reload_success_timestamp_seconds", help).add([], at);
    let mut reloads = families.counter("doorbell_config_reloads", "Reloads, by what came of them.");
    reloads.count([("result", "done")], scrape.reloads.done);
    reloads.count([("result", "failed")], scrape.reloads.failed);
    let help = "Lines of the log that nobody will read: whoever reads it was too slow, or they could not be written.";
    families.counter("doorbell_log_lost", help).count([], scrape.log_lost);
    let help = "What is in maintenance, by who declared it.";
    let mut holds = families.gauge("doorbell_maintenance", help);
    for hold in &status.maintenance {
        holds.add([("target", &hold.target), ("source", hold.source.as_str())], 1.0);
    }
}

fn workers(scrape: &Scrape, families: &mut Families) {
    let all = &scrape.status.workers;
    let help = "What drives a worker, and why: io_uring works, epoll was asked for, or what keeps io_uring from working.";
    let mut driver = families.gauge("doorbell_driver_info", help);
    for (worker, one) in all.iter().enumerate() {
        // The reason in words is in the log and on the status page.
        driver.add([("worker", &worker.to_string()), ("driver", &one.driver), ("cause", &one.cause)], 1.0);
    }
    let mut up = families.gauge("doorbell_worker_up", "Whether a worker runs.");
    for (worker, one) in all.iter().enumerate() {
        up.add([("worker", &worker.to_string())], if one.has_failed { 0.0 } else { 1.0 });
    }
    let help =
        "When the loop of a worker last turned, in seconds since 1970; with nothing to do it turns seldom.";
    let mut turned = families.gauge("doorbell_worker_last_loop_timestamp_seconds", help);
    for (worker, one) in scrape.workers.iter().enumerate().filter(|(_, one)| one.turned > Time::ZERO) {
        turned.add([("worker", &worker.to_string())], scrape.origins.workers.secs(since_zero(one.turned)));
    }
}

fn bytes(scrape: &Scrape, families: &mut Families) {
    let help = "Connections accepted, by worker: whether they share the work.";
    by_worker(scrape, families.counter("doorbell_worker_connections_accepted", help), |worker| {
        worker.conns_accepted
    });
    let help = "Connections that are open, by worker.";
    by_worker(scrape, families.gauge("doorbell_worker_connections_active", help), |worker| worker.conns_live);
    by_worker(scrape, families.counter("doorbell_received_bytes", "Bytes received."), |worker| {
        worker.bytes_in
    });
    by_worker(scrape, families.counter("doorbell_sent_bytes", "Bytes of replies sent."), |worker| {
        worker.bytes_out
    });
}

fn requests(scrape: &Scrape, families: &mut Families) {
    let help = "Requests answered, by protocol; the replies of raw listeners are among those of http1.";
    let mut requests = families.counter("doorbell_requests", help);
    let http1 = scrape.workers.iter().map(|worker| worker.requests).sum();
    requests.count([("protocol", "http1")], http1);
    if let Some((_, http2)) = scrape.http2 {
        requests.count([("protocol", "http2")], http2);
    }
    if let Some((conns, _)) = scrape.http2 {
        let help = "Connections of HTTP/2, which are handed over to it.";
        families.counter("doorbell_http2_connections", help).count([], conns);
    }
    let help = "Requests, handshakes and connections that were refused or ended, by why.";
    let mut refused = families.counter("doorbell_refused", help);
    for (reason, &count) in &scrape.refused {
        refused.count([("reason", reason)], count);
    }
}

/// Whatever else the engine counts, by its own names.
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

/// What a counter of the engine is called, and what it says.
fn named(field: &str) -> (&'static str, &'static str) {
    match field {
        "accept_downgrades" => ("doorbell_accept_downgrades", "Steps down in how connections are accepted."),
        "accept_rearms" => ("doorbell_accept_rearms", "Times accept was armed."),
        "accept_stalls" => {
            ("doorbell_accept_stalls", "Times a listener had waiting clients that accept did not report.")
        }
        "accepts_dropped" => ("doorbell_accepts_dropped", "Accepted connections closed at once."),
        "answers_dropped" => ("doorbell_answers_dropped", "Answers of jobs that nobody waited for any more."),
        "cq_overflows" => ("doorbell_ring_cq_overflow", "Completions that went through the overflow list."),
        "driver_fallbacks" => ("doorbell_driver_fallbacks", "Times a worker went on with epoll."),
        "enters" => ("doorbell_ring_enters", "Calls that waited for the kernel."),
        "hand_over_errors" => ("doorbell_hand_over_errors", "Connections that could not be handed over."),
        "hand_over_pauses" => {
            ("doorbell_hand_over_pauses", "Times accepting paused for connections handed over.")
        }
        "hand_over_refused" => ("doorbell_hand_over_refused", "Connections that nobody took."),
        "hand_over_waits" => ("doorbell_hand_over_waits", "Connections that waited to be handed over."),
        "handler_misuses" => ("doorbell_handler_misuses", "Invalid replies of handlers, answered by a 500."),
        "handler_panics" => ("doorbell_handler_panics", "Handlers that panicked."),
        "jobs_cancelled" => ("doorbell_jobs_cancelled", "Jobs called off before they started."),
        "jobs_panicked" => ("doorbell_jobs_panicked", "Jobs that panicked."),
        "jobs_queued" => ("doorbell_jobs_queued", "Jobs given to other threads."),
        "jobs_refused" => ("doorbell_jobs_refused", "Jobs for which there was no place."),
        "jobs_timed_out" => ("doorbell_jobs_timed_out", "Jobs that were not done in time."),
        "recv_bufs_starved" => ("doorbell_ring_buffer_starved", "Receives that found no buffer at first."),
        "stale_completions" => ("doorbell_stale_completions", "Completions for connections that had ended."),
        "table_full" => ("doorbell_table_full", "Times clients waited because the table was full."),
        "turns" => ("doorbell_worker_turns", "Turns of the loop of a worker."),
        // A test knows all there are.
        _ => ("doorbell_other", "Something that the engine counts."),
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
