//! Metrics by item, such as a listener, limiter, `[tls.NAME]` table, route or TCP gate.
//!
//! Does not know about: how values are counted, text formats.

use super::Scrape;
use crate::stats::requests::Counted;
use crate::stats::server::Item;
use doorbell_metrics::{Families, Filling, as_f64};
use std::collections::BTreeMap;

pub(super) fn gather(scrape: &Scrape, families: &mut Families) {
    connections(scrape, families);
    of(scrape, doorbell_metrics::datagrams(families), |datagrams, item, count| {
        if let Item::Datagrams { listener, result } = item {
            datagrams.count([("listener", listener), ("result", result)], count);
        }
    });
    requests(scrape, families);
    handshakes(scrape, families);
    limits(scrape, families);
    let help = "Connections of checks, by result.";
    of(scrape, families.counter("doorbell_egress_connects", help), |connects, item, count| {
        if let Item::Connect(result) = item {
            connects.count([("result", result)], count);
        }
    });
    let help = "Connection attempts of checks that were repeated because no port was free.";
    of(scrape, families.counter("doorbell_egress_port_window_retries", help), |retries, item, count| {
        if *item == Item::ConnectRetry {
            retries.count([], count);
        }
    });
    gates(scrape, families);
    let help = "Probes requested at /probe, by module and result.";
    of(scrape, families.counter("doorbell_blackbox_probes", help), |probes, item, count| {
        if let Item::Probed { module, result } = item {
            probes.count([("module", module), ("result", result)], count);
        }
    });
    let help = "Lost lines of the access log, by reason.";
    of(scrape, families.counter("doorbell_access_log_dropped", help), |dropped, item, count| {
        if let Item::AccessLost(reason) = item {
            dropped.count([("reason", reason)], count);
        }
    });
}

fn connections(scrape: &Scrape, families: &mut Families) {
    let help = "Accepted connections.";
    of(scrape, families.counter("doorbell_connections_accepted", help), |accepted, item, count| {
        if let Item::Accepted { listener } = item {
            accepted.count([("listener", listener)], count);
        }
    });
    let mut active = families.gauge("doorbell_connections_active", "Open connections.");
    gauges(&mut active, "listener", &scrape.conns_live);
    let help = "Closed connections, by reason.";
    of(scrape, families.counter("doorbell_connections_closed", help), |closed, item, count| {
        if let Item::Closed { listener, reason } = item {
            closed.count([("listener", listener), ("reason", reason)], count);
        }
    });
    let help = "Failed accepts, by the error of accept(2).";
    of(scrape, families.counter("doorbell_accept_errors", help), |errors, item, count| {
        if let Item::AcceptError { listener, errno } = item {
            errors.count([("listener", listener), ("errno", errno)], count);
        }
    });
    let help = "PROXY headers, by version and result.";
    of(scrape, families.counter("doorbell_proxy_protocol", help), |proxied, item, count| {
        if let Item::Proxied { listener, version, result } = item {
            proxied.count([("listener", listener), ("version", version), ("result", result)], count);
        }
    });
}

/// Adds the metrics of TCP gates.
fn gates(scrape: &Scrape, families: &mut Families) {
    let help = "Open addresses of a TCP gate.";
    gauges(&mut families.gauge("doorbell_tcp_gate_listeners", help), "gate", &scrape.gates_open);
    let help = "Connections to a TCP gate, by result.";
    of(scrape, families.counter("doorbell_tcp_gate_connections", help), |conns, item, count| {
        if let Item::Gated { gate, result } = item {
            conns.count([("gate", gate), ("result", result)], count);
        }
    });
    let help = "Failed system calls of a TCP gate, which are repeated.";
    of(scrape, families.counter("doorbell_tcp_gate_errors", help), |errors, item, count| {
        if let Item::GateError { gate, call } = item {
            errors.count([("gate", gate), ("call", call)], count);
        }
    });
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
    of(scrape, families.counter("doorbell_tls_handshakes", help), |handshakes, item, count| {
        if let Item::Handshake { listener, version, result } = item {
            handshakes.count([("listener", listener), ("version", version), ("result", result)], count);
        }
    });
    let help = "Completed TLS handshakes that resumed a session.";
    of(scrape, families.counter("doorbell_tls_handshakes_resumed", help), |resumed, item, count| {
        if let Item::Resumed { listener } = item {
            resumed.count([("listener", listener)], count);
        }
    });
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
    of(scrape, families.counter("doorbell_rate_limit_decisions", help), |decisions, item, count| {
        if let Item::Limited { limiter, decision } = item {
            decisions.count([("limiter", limiter), ("decision", decision)], count);
        }
    });
    let help = "Keys evicted early from a rate limit because its table was full.";
    of(scrape, families.counter("doorbell_rate_limit_evictions", help), |evictions, item, count| {
        if let Item::LimitEviction { limiter } = item {
            evictions.count([("limiter", limiter)], count);
        }
    });
    let help = "Tokens and decisions of a shared rate limit.";
    of(scrape, families.counter("doorbell_rate_limit_leases", help), |leases, item, count| {
        if let Item::Leased { limiter, event } = item {
            leases.count([("limiter", limiter), ("event", event)], count);
        }
    });
    let help = "Keys in the table of a rate limit.";
    gauges(&mut families.gauge("doorbell_rate_limit_keys", help), "limiter", &scrape.limiter_keys);
}

/// Passes the counter of each item to `add`, which adds a sample for items of its family.
fn of(scrape: &Scrape, mut family: Filling<'_>, add: impl Fn(&mut Filling<'_>, &Item, u64)) {
    scrape.items.iter().for_each(|(item, &count)| add(&mut family, item, count));
}

fn gauges(family: &mut Filling<'_>, label: &'static str, values: &BTreeMap<Box<str>, u64>) {
    for (name, &value) in values {
        family.add([(label, name)], as_f64(value));
    }
}
