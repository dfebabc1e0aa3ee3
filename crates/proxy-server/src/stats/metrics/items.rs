//! Metrics by item, such as a listener, limiter, `[tls.NAME]` table, route or TCP gate.

use super::Scrape;
use crate::stats::requests::Counted;
use crate::stats::server::ItemKind::{
    self, AcceptError, Accepted, AccessLost, Closed, Connect, ConnectRetry, Datagrams, GateError, Gated,
    Handshake, Leased, LimitEviction, Limited, Probed, Proxied, Resumed,
};
use doorbell_metrics::{Families, Filling, as_f64};
use std::collections::BTreeMap;

pub(super) fn gather(scrape: &Scrape, families: &mut Families) {
    connections(scrape, families);
    of(scrape, doorbell_metrics::datagrams(families), Datagrams, ["listener", "result"]);
    requests(scrape, families);
    handshakes(scrape, families);
    limits(scrape, families);
    let help = "Connections of checks, by result.";
    of(scrape, families.counter("doorbell_egress_connects", help), Connect, ["result"]);
    let help = "Connection attempts of checks that were repeated because no port was free.";
    of(scrape, families.counter("doorbell_egress_port_window_retries", help), ConnectRetry, []);
    gates(scrape, families);
    let help = "Probes requested at /probe, by module and result.";
    of(scrape, families.counter("doorbell_blackbox_probes", help), Probed, ["module", "result"]);
    let help = "Lost lines of the access log, by reason.";
    of(scrape, families.counter("doorbell_access_log_dropped", help), AccessLost, ["reason"]);
}

fn connections(scrape: &Scrape, families: &mut Families) {
    let help = "Accepted connections.";
    of(scrape, families.counter("doorbell_connections_accepted", help), Accepted, ["listener"]);
    let mut active = families.gauge("doorbell_connections_active", "Open connections.");
    gauges(&mut active, "listener", &scrape.conns_live);
    let help = "Closed connections, by reason.";
    of(scrape, families.counter("doorbell_connections_closed", help), Closed, ["listener", "reason"]);
    let help = "Failed accepts, by the error of accept(2).";
    of(scrape, families.counter("doorbell_accept_errors", help), AcceptError, ["listener", "errno"]);
    let help = "PROXY headers, by version and result.";
    of(scrape, families.counter("doorbell_proxy_protocol", help), Proxied, ["listener", "version", "result"]);
}

/// Adds the metrics of TCP gates.
fn gates(scrape: &Scrape, families: &mut Families) {
    let help = "Open addresses of a TCP gate.";
    gauges(&mut families.gauge("doorbell_tcp_gate_listeners", help), "gate", &scrape.gates_open);
    let help = "Connections to a TCP gate, by result.";
    of(scrape, families.counter("doorbell_tcp_gate_connections", help), Gated, ["gate", "result"]);
    let help = "Failed system calls of a TCP gate, which are repeated.";
    of(scrape, families.counter("doorbell_tcp_gate_errors", help), GateError, ["gate", "call"]);
}

fn requests(scrape: &Scrape, families: &mut Families) {
    let (counted, rest) = &scrape.requests;
    let help = "Requests by route, without probes of whole health endpoints, which doorbell_probes counts.";
    let mut requests = families.counter("doorbell_http_requests", help);
    let mut redirects = BTreeMap::new();
    for (Counted { listener, route, method, code }, count) in counted {
        let code = code.map_or_else(|| "other".to_owned(), |code| code.to_string());
        let labels = [("listener", &**listener), ("route", route), ("method", method), ("code", &code)];
        requests.count(labels, *count);
        if matches!(&*code, "301" | "302" | "303" | "307" | "308") {
            *redirects.entry((&**route, code)).or_default() += count;
        }
    }
    let help = "Requests that are not counted by route because the table was full.";
    families.counter("doorbell_http_requests_uncounted", help).count([], *rest);
    let mut family = families.counter("doorbell_redirects", "Requests that were redirected.");
    for ((route, code), count) in &redirects {
        family.count([("route", route), ("code", code)], *count);
    }
}

fn handshakes(scrape: &Scrape, families: &mut Families) {
    let help = "TLS handshakes, by result; completed ones with their version.";
    of(
        scrape,
        families.counter("doorbell_tls_handshakes", help),
        Handshake,
        ["listener", "version", "result"],
    );
    let help = "Completed TLS handshakes that resumed a session.";
    of(scrape, families.counter("doorbell_tls_handshakes_resumed", help), Resumed, ["listener"]);
    let mut active = families.gauge("doorbell_tls_handshakes_active", "TLS handshakes in progress.");
    gauges(&mut active, "listener", &scrape.handshakes_live);
    let help = "1 for a TLS listener that is closed until its first certificate can be used.";
    let mut waiting = families.gauge("doorbell_listener_waiting", help);
    for listener in scrape.handshakes_live.keys() {
        waiting.count([("listener", listener)], 0);
    }
    for closed in &scrape.status.waiting {
        waiting.count([("listener", &closed.listener)], 1);
    }
    let help = "Earliest expiry of a certificate of a [tls.NAME] table in seconds since 1970.";
    let mut ends = families.gauge("doorbell_tls_certificate_not_after_timestamp_seconds", help);
    for (tls, &at) in &scrape.certificate_expiries {
        ends.count([("tls", tls)], u64::try_from(at).unwrap_or(0));
    }
}

fn limits(scrape: &Scrape, families: &mut Families) {
    let help = "Decisions of rate limits.";
    of(scrape, families.counter("doorbell_rate_limit_decisions", help), Limited, ["limiter", "decision"]);
    let help = "Keys evicted early from a rate limit because its table was full.";
    of(scrape, families.counter("doorbell_rate_limit_evictions", help), LimitEviction, ["limiter"]);
    let help = "Tokens and decisions of a shared rate limit.";
    of(scrape, families.counter("doorbell_rate_limit_leases", help), Leased, ["limiter", "event"]);
    let help = "Keys in the table of a rate limit.";
    gauges(&mut families.gauge("doorbell_rate_limit_keys", help), "limiter", &scrape.limiter_keys);
}

/// Adds a sample for each item of a kind, whose labels have these names.
fn of<const N: usize>(scrape: &Scrape, mut family: Filling<'_>, kind: ItemKind, labels: [&'static str; N]) {
    for (item, &count) in scrape.items.iter().filter(|(item, _)| item.kind == kind) {
        let values = item.values();
        family.count::<N>(std::array::from_fn(|at| (labels[at], values[at])), count);
    }
}

fn gauges(family: &mut Filling<'_>, label: &'static str, values: &BTreeMap<Box<str>, u64>) {
    for (name, &value) in values {
        family.add([(label, name)], as_f64(value));
    }
}
