//! Server counters that are kept outside the engine, and the summary of refusals for the last log
//! line.

use crate::guards::Common;
use crate::guards::client_limits::Counted;
use doorbell::access_log::LogSink;
use doorbell::http::limit::{Leases, Limiter};
use doorbell::time::{Clock as _, OsClock};
use doorbell::tls::{Acceptor, TlsStats};
use doorbell::{Blame, CloseReason, Handle, ProxyResult, Refusals, Snapshot};
use doorbell_checks::{Connector, SchedulerCounters};
use doorbell_http2::Counters;
use doorbell_proxy_config::model::Config;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The counters that are kept outside the engine.
#[derive(Debug, Default)]
pub(crate) struct ServerStats {
    /// Acceptors, with the name of the listener and of the `[tls.NAME]` table.
    pub(crate) acceptors: Vec<(Box<str>, Box<str>, Acceptor)>,
    /// Counters of refusals that may be shared with other generations.
    counted: Vec<Counted>,
    /// The rate limiters, by name.
    limiters: Vec<(Box<str>, Arc<Limiter>)>,
    /// The leases of shared limits, by name.
    leases: Vec<(Box<str>, Arc<Leases>)>,
    /// Names of the listeners, in the order of the engine.
    pub(crate) listeners: Vec<Box<str>>,
    /// Names of the datagram listeners, in the order of the engine.
    pub(crate) datagrams: Vec<Box<str>>,
    pub(crate) refusals: Vec<Refusals>,
    /// `None` if no listener has HTTP/2.
    pub(crate) http2: Option<Arc<Counters>>,
    /// Counters of the scheduler; `None` without checks.
    pub(crate) checks: Option<Arc<SchedulerCounters>>,
    /// The access log with its [`Source`].
    pub(crate) access: Option<(Source, LogSink)>,
    pub(crate) connector: Option<Arc<Connector>>,
}

/// A counter for metrics: its kind and the values of its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) kind: ItemKind,
    /// Value of the first label, usually the name of a table in the configuration.
    name: Box<str>,
    /// Values of the other labels.
    words: [&'static str; 2],
}

/// Kinds of counters for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ItemKind {
    AcceptError,
    Accepted,
    /// Lost lines of the access log, by reason.
    AccessLost,
    Closed,
    /// Connections of checks, by result.
    Connect,
    /// Connection attempts of checks that were repeated because no port was free.
    ConnectRetry,
    /// Datagrams, by result.
    Datagrams,
    /// Connections to a TCP gate, by result.
    Gated,
    /// Failed calls of a TCP gate, which are repeated.
    GateError,
    Handshake,
    /// Tokens and decisions of a shared limit, by event.
    Leased,
    /// Keys evicted early from a limiter.
    LimitEviction,
    Limited,
    /// Probes requested at `/probe`, by result.
    Probed,
    Proxied,
    Resumed,
}

impl Item {
    /// Creates a counter from the values of its labels; `words` are those after the first.
    pub(crate) fn new<const N: usize>(kind: ItemKind, name: &str, words: [&'static str; N]) -> Self {
        let words = std::array::from_fn(|at| words.get(at).copied().unwrap_or_default());
        Self { kind, name: name.into(), words }
    }

    /// The values of the labels; unused ones are empty.
    pub(crate) fn values(&self) -> [&str; 3] {
        [&self.name, self.words[0], self.words[1]]
    }

    /// All counters of a TCP gate.
    pub(crate) fn of_gate(gate: &str) -> impl Iterator<Item = Self> {
        let conns = GATED.map(|result| Self::new(ItemKind::Gated, gate, [result]));
        let errors = ["accept", "listen"].map(|call| Self::new(ItemKind::GateError, gate, [call]));
        conns.into_iter().chain(errors)
    }
}

/// Results of connections to a TCP gate.
const GATED: [&str; 4] = ["ended", "full", "held", "reset"];

/// Identifies a set of counters, so that a set shared by several servers is added only once.
pub(crate) type Source = usize;

/// Counters of an acceptor for handshakes that are completed, in progress or handed over.
const HANDSHAKES_GOOD: [&str; 5] =
    ["hellos_handed_over", "handshakes_live", "handshakes_resumed", "handshakes_tls12", "handshakes_tls13"];

impl ServerStats {
    /// Creates the counters that all listeners share.
    pub(crate) fn of(common: &Common, config: &Config) -> Self {
        let tables = common.tables();
        let named = |(at, name): (usize, &str)| Some((name.into(), Arc::clone(tables.limiter(at)?)));
        let names = config.limits.iter().map(|limit| limit.name.as_str());
        let leases = tables.shared_limits().into_iter().map(|shared| (shared.name.into(), shared.leases));
        Self {
            leases: leases.collect(),
            counted: tables.counted().collect(),
            limiters: names.enumerate().filter_map(named).collect(),
            ..Self::default()
        }
    }

    /// Connections and requests of HTTP/2; `None` if no listener has HTTP/2.
    pub(crate) fn http2_served(&self) -> Option<(u64, u64)> {
        self.http2.as_ref().map(|counters| counters.served())
    }

    /// Open connections of HTTP/2.
    pub(crate) fn http2_live(&self) -> u64 {
        self.http2.as_ref().map_or(0, |counters| counters.live())
    }

    /// Jobs of the compute lane, for requests of any protocol.
    pub(crate) fn jobs(&self, stats: &Snapshot) -> u64 {
        stats.jobs_queued + self.http2.as_ref().map_or(0, |counters| counters.jobs())
    }

    /// Results of the connections of checks, as `connected=20 refused=3`; `None` without checks.
    pub(crate) fn connects(&self) -> Option<String> {
        let connector = self.connector.as_ref()?;
        let retries = ("port_window_retries", connector.port_window_retries());
        Some(list(connector.counters().fields().into_iter().chain([retries])))
    }

    /// Lines of the access log dropped by a full queue, and failed writes; `None` without a log.
    pub(crate) fn access_lost(&self) -> Option<(u64, u64)> {
        let (_, sink) = self.access.as_ref()?;
        let counters = sink.counters();
        Some((counters.dropped, counters.failed))
    }

    /// Counters of HTTP/2, of checks and of the access log, by name.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (String, u64)> {
        let http2 = self.http2_served().into_iter();
        let http2 =
            http2.flat_map(|(conns, requests)| [("http2_connections", conns), ("http2_requests", requests)]);
        let checks = self.checks.iter().flat_map(|counters| counters.fields());
        let lost = self.access_lost().into_iter();
        let lost =
            lost.flat_map(|(dropped, failed)| [("access_dropped", dropped), ("access_failed", failed)]);
        let others = http2.chain(lost).map(|(name, count)| (name.to_owned(), count));
        others.chain(checks.map(|(name, count)| (format!("checks_{name}"), count)))
    }

    /// Totals over all checks, as `runs=20 failed=3`; `None` without checks.
    pub(crate) fn checks_run(&self) -> Option<String> {
        Some(list(self.checks.as_ref()?.fields().into_iter()))
    }

    /// Refused or ended connections and requests of HTTP/2, by reason.
    pub(crate) fn http2_refusals(&self) -> Vec<(&'static str, u64)> {
        self.http2.iter().flat_map(|counters| counters.fields()).collect()
    }

    /// Earliest expiry of the certificates of each `[tls.NAME]`, in seconds since 1970.
    pub(crate) fn certificate_expiries(&self) -> BTreeMap<Box<str>, i64> {
        let mut ends = BTreeMap::new();
        for (_, tls, acceptor) in &self.acceptors {
            let first = acceptor.certificates().iter().map(|certificate| certificate.not_after).min();
            let known = ends.get(tls).copied();
            ends.extend(first.into_iter().chain(known).min().map(|first| (tls.clone(), first)));
        }
        ends
    }

    /// TLS handshakes in progress, by listener.
    pub(crate) fn handshakes_live(&self) -> impl Iterator<Item = (&str, u64)> {
        self.acceptors.iter().map(|(listener, _, acceptor)| (&**listener, acceptor.stats().handshakes_live))
    }

    /// Number of keys of each limiter.
    pub(crate) fn limiter_keys(&self) -> impl Iterator<Item = (&str, usize)> {
        let now = OsClock.now();
        self.limiters.iter().map(move |(name, limiter)| (&**name, limiter.keys_live(now)))
    }

    /// Open connections of the server behind `handle`, by listener.
    pub(crate) fn conns_live(&self, handle: &Handle) -> Vec<(Box<str>, u64)> {
        let stats = handle.listener_stats();
        self.listeners.iter().cloned().zip(stats.iter().map(|listener| listener.conns_live)).collect()
    }

    /// The counters of the server behind `handle`, with their sources.
    pub(crate) fn items(&self, handle: &Handle) -> Vec<(Source, Item, u64)> {
        let mut items = Vec::new();
        self.add_listeners(handle, &mut items);
        self.add_datagrams_of(handle, &mut items);
        self.add_handshakes(&mut items);
        for (name, limiter) in &self.limiters {
            let (source, counts) = (Arc::as_ptr(limiter).addr(), limiter.counts());
            let limited = |decision| Item::new(ItemKind::Limited, name, [decision]);
            items.push((source, limited("allow"), counts.allowed));
            items.push((source, limited("deny"), counts.denied));
            items.push((source, Item::new(ItemKind::LimitEviction, name, []), counts.evicted_live));
        }
        for (name, leases) in &self.leases {
            let leased = |event| Item::new(ItemKind::Leased, name, [event]);
            let source = Arc::as_ptr(leases).addr();
            items.extend(leases.counts().fields().map(|(event, count)| (source, leased(event), count)));
        }
        if let Some((log, sink)) = &self.access {
            let counters = sink.counters();
            let lost = |reason| Item::new(ItemKind::AccessLost, reason, []);
            items.push((*log, lost("queue_full"), counters.dropped));
            items.push((*log, lost("write_failed"), counters.failed));
        }
        if let Some(connector) = &self.connector {
            let source = Arc::as_ptr(connector).addr();
            let fields = connector.counters().fields().into_iter();
            let connect = |result| Item::new(ItemKind::Connect, result, []);
            items.extend(fields.map(|(result, count)| (source, connect(result), count)));
            items.push((source, Item::new(ItemKind::ConnectRetry, "", []), connector.port_window_retries()));
        }
        items
    }

    fn add_listeners(&self, handle: &Handle, items: &mut Vec<(Source, Item, u64)>) {
        for (name, stats) in self.listeners.iter().zip(handle.listener_stats()) {
            let mut add =
                |kind, words, count| items.push((self.source(), Item::new(kind, name, words), count));
            add(ItemKind::Accepted, ["", ""], stats.conns_accepted);
            for (errno, count) in stats.accept_errors() {
                add(ItemKind::AcceptError, [errno, ""], count);
            }
            for (&reason, count) in CloseReason::ALL.iter().zip(stats.closed) {
                add(ItemKind::Closed, [reason.as_str(), ""], count);
            }
            for proxied in ProxyResult::ALL {
                let words = match proxied {
                    ProxyResult::Local => ["local", "taken"],
                    ProxyResult::None => ["none", "taken"],
                    ProxyResult::Refused => ["none", "refused"],
                    ProxyResult::V1 => ["v1", "taken"],
                    ProxyResult::V2 => ["v2", "taken"],
                };
                add(ItemKind::Proxied, words, stats.proxied(proxied));
            }
        }
    }

    fn add_datagrams_of(&self, handle: &Handle, items: &mut Vec<(Source, Item, u64)>) {
        for (name, stats) in self.datagrams.iter().zip(handle.datagram_stats()) {
            let item = |result| Item::new(ItemKind::Datagrams, name, [result]);
            items.extend(stats.fields().map(|(result, count)| (self.source(), item(result), count)));
        }
    }

    fn add_handshakes(&self, items: &mut Vec<(Source, Item, u64)>) {
        for (listener, _, acceptor) in &self.acceptors {
            for (name, count) in acceptor.stats().fields() {
                let words = match name {
                    "handshakes_live" => continue,
                    "handshakes_resumed" => {
                        items.push((self.source(), Item::new(ItemKind::Resumed, listener, []), count));
                        continue;
                    }
                    "handshakes_tls12" => ["1.2", "done"],
                    "handshakes_tls13" => ["1.3", "done"],
                    "hellos_handed_over" => ["none", "handed_over"],
                    other => ["none", other.strip_prefix("handshakes_").unwrap_or(other)],
                };
                items.push((self.source(), Item::new(ItemKind::Handshake, listener, words), count));
            }
        }
    }

    /// The [`Source`] of the counters that belong to this server alone.
    fn source(&self) -> Source {
        std::ptr::from_ref(self).addr()
    }

    /// Refused requests and handshakes of a server by reason, except those in [`Self::counted`].
    pub(crate) fn refusals(&self) -> Vec<(&'static str, u64)> {
        let requests = self.refusals.iter().flat_map(Refusals::all).map(|(why, count)| (why.as_str(), count));
        let handshakes =
            self.acceptors.iter().flat_map(|(_, _, acceptor)| acceptor.stats().fields().collect::<Vec<_>>());
        let handshakes = handshakes.filter(|(name, _)| !HANDSHAKES_GOOD.contains(name));
        requests.chain(handshakes).collect()
    }

    /// Counters of refusals that may be shared with other generations.
    pub(crate) fn counted(&self) -> &[Counted] {
        &self.counted
    }

    /// `refusals`, those of HTTP/2 and the failed jobs in `stats`, as `busy=2 rate_limited=1`.
    pub(crate) fn refused(&self, refusals: Vec<(&'static str, u64)>, stats: &Snapshot) -> String {
        let http2 = self.http2.iter().flat_map(|counters| counters.fields());
        let jobs = [
            ("jobs_panicked", stats.jobs_panicked),
            ("jobs_refused", stats.jobs_refused),
            ("jobs_timed_out", stats.jobs_timed_out),
        ];
        list(refusals.into_iter().chain(http2).chain(jobs))
    }

    /// Closed connections by reason, except normal ends.
    pub(crate) fn closed(stats: &Snapshot) -> String {
        let to_blame = CloseReason::ALL.iter().filter(|reason| reason.blame() != Blame::Neither);
        list(to_blame.map(|&reason| (reason.as_str(), stats.closed_because(reason))))
    }
}

/// Whether a counter is part of the handshake metrics.
pub(crate) fn is_handshake_counter(name: &str) -> bool {
    TlsStats::default().fields().any(|(field, _)| field == name)
}

/// Formats the sums by name, without zeros.
fn list(counts: impl Iterator<Item = (&'static str, u64)>) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in counts.filter(|(_, count)| *count > 0) {
        *sums.entry(name).or_default() += count;
    }
    sums.iter().map(|(name, sum)| format!("{name}={sum}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_name_are_added_and_zeros_are_omitted() {
        let counts = [("busy", 2), ("host", 0), ("field", 1), ("busy", 3)];
        assert_eq!(list(counts.into_iter()), "busy=5 field=1");
        assert_eq!(list([].into_iter()), "");
        assert_eq!(ServerStats::closed(&Snapshot::default()), "");
    }
}
