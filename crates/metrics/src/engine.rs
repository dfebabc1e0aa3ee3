//! Metrics of the workers of the engine.

use doorbell::time::Time;
use doorbell::{DatagramSnapshot, Snapshot};

use crate::family::{Families, Filling};
use crate::origin::Origin;

/// The counters of all workers at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Workers<'s> {
    /// The counters, by worker.
    pub all: &'s [Snapshot],
    /// The Unix time at which the clock of the workers was 0.
    pub origin: Origin,
}

/// The counters of datagram listeners at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams<'s> {
    /// Names of listeners and their counters. The counters of listeners with the same name are
    /// summed.
    pub all: &'s [(&'s str, DatagramSnapshot)],
}

impl Datagrams<'_> {
    /// Adds one family with a sample for each listener and counter.
    pub fn gather(&self, families: &mut Families) {
        if self.all.is_empty() {
            return;
        }
        let mut family = datagrams(families);
        let mut sums: Vec<(&str, DatagramSnapshot)> = Vec::new();
        for (name, counters) in self.all {
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => sum.merge(counters),
                None => sums.push((name, *counters)),
            }
        }
        for (listener, counters) in sums {
            for (result, count) in counters.fields() {
                family.count([("listener", listener), ("result", result)], count);
            }
        }
    }
}

/// Adds the family for counters of datagrams, with the labels `listener` and `result`.
pub fn datagrams(families: &mut Families) -> Filling<'_> {
    let help = "Datagrams, by result: `received` were read, `dropped` were still in the queue when the socket was closed.";
    families.counter("doorbell_datagrams", help)
}

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

impl Workers<'_> {
    /// Adds a family for each counter, with a sample for each worker. Requests (see
    /// [`requests`](fn@crate::requests)), accept errors and PROXY headers are omitted: the program
    /// exports them with other labels.
    pub fn gather(&self, families: &mut Families) {
        let help = "Time of the last turn of a worker's event loop in seconds since 1970; an idle worker rarely turns.";
        let mut turned = families.gauge("doorbell_worker_last_loop_timestamp_seconds", help);
        for (worker, one) in self.all.iter().enumerate().filter(|(_, one)| one.turned > Time::ZERO) {
            turned.add([("worker", &worker.to_string())], self.origin.secs(one.turned.since(Time::ZERO)));
        }
        let help = "Accepted connections, by the worker that serves them.";
        self.each(families.counter("doorbell_worker_connections_accepted", help), |one| one.conns_accepted);
        let help = "Open connections, by worker.";
        self.each(families.gauge("doorbell_worker_connections_active", help), |one| one.conns_live);
        self.each(families.counter("doorbell_received_bytes", "Received bytes."), |one| one.bytes_in);
        self.each(families.counter("doorbell_sent_bytes", "Sent bytes of replies."), |one| one.bytes_out);
        let names = Snapshot::default().fields().map(|(name, _)| name).collect::<Vec<_>>();
        for name in names.into_iter().filter(|name| !ELSEWHERE.contains(name)) {
            let (family, help) = named(name);
            let count = |worker: &Snapshot| {
                worker.fields().find(|(field, _)| *field == name).map_or(0, |(_, count)| count)
            };
            self.each(families.counter(family, help), count);
        }
    }

    fn each(&self, mut family: Filling<'_>, count: impl Fn(&Snapshot) -> u64) {
        for (at, worker) in self.all.iter().enumerate() {
            family.count([("worker", &*at.to_string())], count(worker));
        }
    }
}

/// Name and HELP of a counter of the engine.
fn named(field: &str) -> (&'static str, &'static str) {
    match field {
        "accept_downgrades" => (
            "doorbell_accept_downgrades",
            "Switches to a lower accept mode (multishot, single-shot, readiness).",
        ),
        "accept_rearms" => ("doorbell_accept_rearms", "Submissions of accept."),
        "accept_stalls" => (
            "doorbell_accept_stalls",
            "Detected stalls: clients waited in a backlog, and the armed accept did not report them.",
        ),
        "accepts_dropped" => (
            "doorbell_accepts_dropped",
            "Accepted connections closed because no slot was free, and invalid completions.",
        ),
        "answers_dropped" => ("doorbell_answers_dropped", "Results of jobs whose request had ended."),
        "balance_queue_full" => (
            "doorbell_balance_queue_full",
            "New connections for which a worker was left out because its queue was full.",
        ),
        "cq_overflows" => (
            "doorbell_ring_cq_overflow",
            "Calls of io_uring_enter after which completions were in the kernel's overflow list.",
        ),
        "driver_fallbacks" => ("doorbell_driver_fallbacks", "Fallbacks of workers to epoll."),
        "enters" => ("doorbell_ring_enters", "Calls of io_uring_enter or epoll_wait."),
        "hand_over_errors" => ("doorbell_hand_over_errors", "Failed hand-overs of connections."),
        "hand_over_pauses" => (
            "doorbell_hand_over_pauses",
            "Pauses of accept because too many connections waited for a hand-over.",
        ),
        "hand_over_refused" => ("doorbell_hand_over_refused", "Refused hand-overs of connections."),
        "hand_over_waits" => ("doorbell_hand_over_waits", "Connections that waited for a hand-over."),
        "handler_misuses" => ("doorbell_handler_misuses", "Invalid replies of handlers, replaced by a 500."),
        "handler_panics" => ("doorbell_handler_panics", "Panics of handlers."),
        "jobs_cancelled" => ("doorbell_jobs_cancelled", "Jobs cancelled before they started."),
        "jobs_panicked" => ("doorbell_jobs_panicked", "Panics of jobs."),
        "jobs_queued" => ("doorbell_jobs_queued", "Jobs queued for other threads."),
        "jobs_refused" => ("doorbell_jobs_refused", "Jobs refused because the queue was full."),
        "jobs_timed_out" => ("doorbell_jobs_timed_out", "Jobs that timed out."),
        "recv_bufs_starved" => {
            ("doorbell_ring_buffer_starved", "Receives that found no free buffer and were retried.")
        }
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
    fn datagrams_are_added_up_by_listener() {
        let mut counters = DatagramSnapshot::default();
        counters.replied = 2;
        let text = |all: &[_]| {
            let mut families = Families::default();
            Datagrams { all }.gather(&mut families);
            crate::Exposition::OpenMetrics.render(families)
        };
        let rendered = text(&[("a", counters), ("b", counters), ("a", counters)]);
        assert!(
            rendered.contains("doorbell_datagrams_total{listener=\"a\",result=\"replied\"} 4"),
            "{rendered}"
        );
        assert!(
            rendered.contains("doorbell_datagrams_total{listener=\"b\",result=\"replied\"} 2"),
            "{rendered}"
        );
        assert!(!text(&[]).contains("doorbell_datagrams"), "no family without listeners");
    }

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
