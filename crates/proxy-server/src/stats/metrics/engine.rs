//! Metrics of the program, its workers and its connections.

use super::{Scrape, since_zero};
use crate::program::Program;
use doorbell_control::Lifecycle;
use doorbell_metrics::Families;
use std::time::Duration;

pub(super) fn gather(scrape: &Scrape, families: &mut Families) {
    program(scrape, families);
    workers(scrape, families);
    requests(scrape, families);
    scrape.workers().gather(families);
}

fn program(scrape: &Scrape, families: &mut Families) {
    let status = &scrape.status;
    let Program { revision, rustc } = scrape.program;
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
    let help = "Generation of the configuration in use: 1 at the start, one more when a reload changes it or a waiting listener opens.";
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
}

fn requests(scrape: &Scrape, families: &mut Families) {
    let http1 = scrape.workers.iter().map(|worker| worker.requests).sum();
    let http2 = scrape.http2.map(|(_, http2)| ("http2", http2));
    doorbell_metrics::requests([("http1", http1)].into_iter().chain(http2), families);
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
