//! `[listener.NAME]` as it was written.
//!
//! Does not know about: TLS tables and routes, of which a listener has only names.

use super::super::bind::{BIND_FORM, Bind};
use super::super::model::{Forwarded, ProxyProtocol};
use super::super::networks::read_networks;
use crate::http::forwarded::Network;
use doorbell_config::{At, Problem, Section};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) name: At<String>,
    pub(crate) header: Range<usize>,
    pub(crate) has_bind: bool,
    pub(crate) binds: Vec<At<Bind>>,
    pub(crate) raw: Option<At<bool>>,
    pub(crate) tls: Option<At<String>>,
    pub(crate) proxy_protocol: Option<At<ProxyProtocol>>,
    pub(crate) trusted_proxies: Option<At<Vec<At<Network>>>>,
    pub(crate) forwarded: Option<At<Forwarded>>,
    pub(crate) http2: Option<At<bool>>,
    pub(crate) keep_alive: Option<KeepAlive>,
    pub(crate) timeouts: Timeouts,
    pub(crate) limits: Limits,
    pub(crate) tcp: Tcp,
    /// Whether `reply` is written, right or wrong.
    pub(crate) has_reply: bool,
    pub(crate) reply: Option<At<String>>,
    pub(crate) speaks_first: Option<At<bool>>,
}

#[derive(Debug)]
pub(crate) struct KeepAlive {
    pub(crate) span: Range<usize>,
    pub(crate) enabled: Option<At<bool>>,
    pub(crate) idle: Option<At<Duration>>,
    pub(crate) max_requests: Option<At<u32>>,
    pub(crate) max_age: Option<At<Option<Duration>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    pub(crate) header: Option<At<Duration>>,
    pub(crate) body: Option<At<Duration>>,
    pub(crate) write: Option<At<Duration>>,
    pub(crate) linger: Option<At<Duration>>,
}

#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) header_bytes: Option<At<u32>>,
    pub(crate) headers: Option<At<u32>>,
    pub(crate) body_bytes: Option<At<u32>>,
    pub(crate) connections_per_ip: Option<At<Option<u32>>>,
    pub(crate) requests_in_flight: Option<At<Option<u32>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Tcp {
    pub(crate) backlog: Option<At<u32>>,
    pub(crate) defer_accept: Option<At<bool>>,
    pub(crate) nodelay: Option<At<bool>>,
    pub(crate) quickack: Option<At<bool>>,
}

/// No deadline is shorter than what a timer can keep, none longer than a day.
pub(crate) const DEADLINE_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(86_400);

/// A connection that ends sooner would cost more than it gives; thirty days is as good as no end.
const AGE_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30 * 86_400);

pub(crate) const PROXY_PROTOCOLS: [(&str, ProxyProtocol); 3] =
    [("accept", ProxyProtocol::Accept), ("off", ProxyProtocol::Off), ("require", ProxyProtocol::Require)];

pub(crate) const FORWARDED: [(&str, Forwarded); 3] = [
    ("forwarded", Forwarded::Forwarded),
    ("off", Forwarded::Off),
    ("x-forwarded-for", Forwarded::XForwardedFor),
];

impl Listener {
    pub(super) fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let listener = Self {
            name,
            header: at.span.clone(),
            has_bind: at.value("bind").is_some(),
            binds: read_binds(&mut at),
            raw: at.choice("protocol", &[("http1", false), ("raw", true)]),
            tls: at.string("tls"),
            proxy_protocol: at.choice("proxy_protocol", &PROXY_PROTOCOLS),
            trusted_proxies: read_networks(&mut at, "trusted_proxies"),
            forwarded: at.choice("forwarded", &FORWARDED),
            http2: at.bool("http2"),
            keep_alive: at.section("keep_alive").map(KeepAlive::read),
            timeouts: at.section("timeouts").map(Timeouts::read).unwrap_or_default(),
            limits: at.section("limits").map(Limits::read).unwrap_or_default(),
            tcp: at.section("tcp").map(Tcp::read).unwrap_or_default(),
            has_reply: at.value("reply").is_some(),
            reply: at.string("reply"),
            speaks_first: at.bool("speaks_first"),
        };
        at.finish();
        listener
    }
}

pub(super) fn read_binds(at: &mut Section<'_>) -> Vec<At<Bind>> {
    let Some(binds) = at.each("bind") else { return Vec::new() };
    let is_empty =
        at.value("bind").and_then(|bind| bind.get_ref().as_array()).is_some_and(|list| list.is_empty());
    if is_empty {
        at.problem(Problem::error("empty-list", binds.span, "a listener needs an address").help(BIND_FORM));
    }
    binds.value
}

impl KeepAlive {
    fn read(mut at: Section<'_>) -> Self {
        let keep_alive = Self {
            span: at.span.clone(),
            enabled: at.bool("enabled"),
            idle: at.duration("idle", DEADLINE_RANGE),
            max_requests: at.limit("max_requests", 1_000_000_000),
            max_age: at.duration_or_off("max_age", AGE_RANGE),
        };
        at.finish();
        keep_alive
    }
}

impl Timeouts {
    fn read(mut at: Section<'_>) -> Self {
        let timeouts = Self {
            header: at.duration("header", DEADLINE_RANGE),
            body: at.duration("body", DEADLINE_RANGE),
            write: at.duration("write", DEADLINE_RANGE),
            linger: at.duration("linger", DEADLINE_RANGE),
        };
        at.finish();
        timeouts
    }
}

impl Limits {
    fn read(mut at: Section<'_>) -> Self {
        let limits = Self {
            header_bytes: at.size_limit("header_bytes", 256..=1 << 20),
            headers: at.limit("headers", 1000),
            body_bytes: at.size("body_bytes", 0..=64 << 20),
            connections_per_ip: at.limit_or_off("connections_per_ip", 4_000_000),
            requests_in_flight: at.limit_or_off("requests_in_flight", 4_000_000),
        };
        at.finish();
        limits
    }
}

impl Tcp {
    fn read(mut at: Section<'_>) -> Self {
        let tcp = Self {
            backlog: at.integer("backlog", 1..=1 << 20),
            defer_accept: at.bool("defer_accept"),
            nodelay: at.bool("nodelay"),
            quickack: at.bool("quickack"),
        };
        at.finish();
        tcp
    }
}
