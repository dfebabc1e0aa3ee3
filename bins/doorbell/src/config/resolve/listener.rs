//! `[listener.NAME]` resolved: its protocol's keys, its TLS table, the proxies it believes.
//!
//! Does not know about: routes, other listeners.

use super::super::model::{Forwarded, Http1, Listener, Protocol, ProxyProtocol, Tcp, Timeouts};
use super::super::written;
use super::or;
use crate::http::forwarded::Network;
use doorbell_config::{Names, Problem, Problems};
use std::ops::Range;

pub(super) fn resolve(written: &written::Listener, tls: &Names<'_>, problems: &Problems) -> Listener {
    if !written.has_bind {
        let message = format!("listener `{}` does not say where it listens", written.name.value);
        problems.add(
            Problem::error("missing-key", written.header.clone(), message)
                .help("add `bind = \"127.0.0.1:8080\"`"),
        );
    }
    let raw = written.raw.as_ref().is_some_and(|raw| raw.value);
    let protocol = if raw { resolve_raw(written, problems) } else { resolve_http1(written, problems) };
    let default = Timeouts::default();
    let timeouts = Timeouts {
        header: or(&written.timeouts.header, default.header),
        body: or(&written.timeouts.body, default.body),
        write: or(&written.timeouts.write, default.write),
        linger: or(&written.timeouts.linger, default.linger),
    };
    let default = Tcp::default();
    let speaks_first = matches!(protocol, Protocol::Raw { speaks_first: true, .. });
    Listener {
        name: written.name.value.clone(),
        binds: written.binds.iter().map(|bind| bind.value.clone()).collect(),
        protocol,
        tls: written.tls.as_ref().and_then(|name| tls.position(name)),
        proxy_protocol: or(&written.proxy_protocol, ProxyProtocol::Off),
        trusted_proxies: resolve_proxies(written, raw, problems),
        timeouts,
        connections_per_ip: or(&written.limits.connections_per_ip, Listener::default().connections_per_ip),
        tcp: Tcp {
            backlog: or(&written.tcp.backlog, default.backlog),
            defer_accept: or(&written.tcp.defer_accept, default.defer_accept && !speaks_first),
            nodelay: or(&written.tcp.nodelay, default.nodelay),
            quickack: or(&written.tcp.quickack, default.quickack),
        },
    }
}

fn resolve_raw(written: &written::Listener, problems: &Problems) -> Protocol {
    let useless = |key: &str, span: Range<usize>| {
        problems.add(
            Problem::error("useless-key", span, format!("`{key}` has no meaning on a raw listener"))
                .help("remove it, or set `protocol = \"http1\"`"),
        );
    };
    if let Some(keep_alive) = &written.keep_alive {
        useless("keep_alive", keep_alive.span.clone());
    }
    let limits = &written.limits;
    if let Some(size) = &limits.header_bytes {
        useless("limits.header_bytes", size.span.clone());
    }
    if let Some(count) = &limits.headers {
        useless("limits.headers", count.span.clone());
    }
    if let Some(size) = &limits.body_bytes {
        useless("limits.body_bytes", size.span.clone());
    }
    if let Some(count) = &limits.requests_in_flight {
        useless("limits.requests_in_flight", count.span.clone());
    }
    if let Some(forwarded) = &written.forwarded {
        useless("forwarded", forwarded.span.clone());
    }
    if let Some(http2) = &written.http2 {
        useless("http2", http2.span.clone());
    }
    let speaks_first = written.speaks_first.as_ref().is_some_and(|flag| flag.value);
    if let (true, Some(defer)) = (speaks_first, &written.tcp.defer_accept)
        && defer.value
    {
        let message = "a listener that speaks first cannot wait for the client's bytes";
        problems
            .add(Problem::error("contradiction", defer.span.clone(), message).help("remove `defer_accept`"));
    }
    if !written.has_reply {
        let message = format!("raw listener `{}` has no reply", written.name.value);
        problems.add(
            Problem::error("missing-key", written.header.clone(), message).help("add `reply = \"PONG\\n\"`"),
        );
    }
    Protocol::Raw { reply: or(&written.reply, String::new()), speaks_first }
}

fn resolve_http1(written: &written::Listener, problems: &Problems) -> Protocol {
    for (key, span) in [
        ("reply", written.reply.as_ref().map(|at| &at.span)),
        ("speaks_first", written.speaks_first.as_ref().map(|at| &at.span)),
    ] {
        if let Some(span) = span {
            let message = format!("`{key}` belongs to a raw listener");
            problems.add(
                Problem::error("useless-key", span.clone(), message)
                    .help("set `protocol = \"raw\"`, or answer HTTP with a [route.NAME]"),
            );
        }
    }
    let default = Http1::default();
    let keep_alive = written.keep_alive.as_ref();
    Protocol::Http1(Http1 {
        keep_alive: keep_alive.map_or(default.keep_alive, |at| or(&at.enabled, default.keep_alive)),
        idle: keep_alive.map_or(default.idle, |at| or(&at.idle, default.idle)),
        max_requests: keep_alive
            .map_or(default.max_requests, |at| or(&at.max_requests, default.max_requests)),
        max_age: keep_alive.map_or(default.max_age, |at| or(&at.max_age, default.max_age)),
        forwarded: or(&written.forwarded, default.forwarded),
        header_bytes: or(&written.limits.header_bytes, default.header_bytes),
        headers: or(&written.limits.headers, default.headers),
        body_bytes: or(&written.limits.body_bytes, default.body_bytes),
        requests_in_flight: or(&written.limits.requests_in_flight, default.requests_in_flight),
        http2: or(&written.http2, default.http2),
    })
}

/// Whoever is believed can be anyone it likes, so nobody is believed who is not listed.
fn resolve_proxies(written: &written::Listener, is_raw: bool, problems: &Problems) -> Vec<Network> {
    let proxy_protocol = written.proxy_protocol.as_ref().filter(|at| at.value != ProxyProtocol::Off);
    let forwarded = written.forwarded.as_ref().filter(|at| at.value != Forwarded::Off && !is_raw);
    let believers =
        [proxy_protocol.map(|at| ("proxy_protocol", &at.span)), forwarded.map(|at| ("forwarded", &at.span))];
    let Some(given) = &written.trusted_proxies else {
        for (key, span) in believers.into_iter().flatten() {
            no_proxies(key, span.clone(), problems);
        }
        return Vec::new();
    };
    match believers.into_iter().flatten().next() {
        Some((key, _)) if given.value.is_empty() => no_proxies(key, given.span.clone(), problems),
        None if !given.value.is_empty() => {
            let message = "`trusted_proxies` has nothing to be trusted with";
            problems.add(Problem::warning("no-effect", given.span.clone(), message).help(
                "set `proxy_protocol = \"accept\"` or `forwarded = \"x-forwarded-for\"`, or remove it",
            ));
        }
        _ => {}
    }
    for network in given.value.iter().filter(|network| network.value.to_string().ends_with("/0")) {
        let message = format!("{} trusts everyone: any client can pretend to be another", network.value);
        problems.add(
            Problem::warning("trusts-everyone", network.span.clone(), message)
                .help("list the networks of your load balancers only"),
        );
    }
    given.value.iter().map(|network| network.value).collect()
}

fn no_proxies(key: &str, span: Range<usize>, problems: &Problems) {
    let message = format!("`{key}` without `trusted_proxies` would believe any client");
    problems.add(
        Problem::error("no-trusted-proxies", span, message)
            .help("list the networks of your load balancers, `trusted_proxies = [\"10.0.0.0/8\"]`"),
    );
}
