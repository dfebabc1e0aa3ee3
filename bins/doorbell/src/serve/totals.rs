//! What was refused and why, for the last line of the log.
//!
//! Does not know about: when that is written, how it is refused.

use super::guards::Common;
use super::lane::Counters;
use super::tables::Counted;
use crate::checks;
use doorbell::access_log::LogSink;
use doorbell::tls::Acceptor;
use doorbell::{Blame, CloseReason, Refusals, Snapshot};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything that counts refusals, beside the engine.
#[derive(Debug, Default)]
pub(super) struct Totals {
    acceptors: Vec<Acceptor>,
    /// Those that other generations may have as well.
    counted: Vec<Counted>,
    refusals: Vec<Refusals>,
    http2: Option<Arc<Counters>>,
    checks: Option<Arc<checks::Counters>>,
    access: Option<LogSink>,
    connector: Option<Arc<checks::Connector>>,
}

/// Counters of an acceptor that are about handshakes that were done, or are being done.
const HANDSHAKES_GOOD: [&str; 5] =
    ["hellos_handed_over", "handshakes_live", "handshakes_resumed", "handshakes_tls12", "handshakes_tls13"];

impl Totals {
    /// Those that all listeners share.
    pub(super) fn of(common: &Common) -> Self {
        Self { counted: common.tables().counted().collect(), ..Self::default() }
    }

    pub(super) fn add_acceptor(&mut self, acceptor: &Acceptor) {
        self.acceptors.push(acceptor.clone());
    }

    pub(super) fn set_http2(&mut self, counters: Arc<Counters>) {
        self.http2 = Some(counters);
    }

    /// Connections and requests of HTTP/2, where it is spoken.
    pub(super) fn http2_served(&self) -> Option<(u64, u64)> {
        self.http2.as_ref().map(|counters| counters.served())
    }

    /// Jobs of the compute lane, by whatever protocol their requests came.
    pub(super) fn jobs(&self, stats: &Snapshot) -> u64 {
        stats.jobs_queued + self.http2.as_ref().map_or(0, |counters| counters.jobs())
    }

    /// What checks did, and whom they connected through.
    pub(super) fn set_checks(&mut self, counters: Arc<checks::Counters>, connector: Arc<checks::Connector>) {
        self.checks = Some(counters);
        self.connector = Some(connector);
    }

    /// What became of the connections of checks, where there are any: `connected=20 refused=3`.
    pub(super) fn connects(&self) -> Option<String> {
        let connector = self.connector.as_ref()?;
        let retries = ("port_window_retries", connector.port_window_retries());
        Some(list(connector.counters().fields().into_iter().chain([retries])))
    }

    pub(super) fn set_access(&mut self, sink: LogSink) {
        self.access = Some(sink);
    }

    /// Lines of the access log that found its queue full, and lines that the file did not take; `None` without a log.
    pub(super) fn access_lost(&self) -> Option<(u64, u64)> {
        let counters = self.access.as_ref()?.counters();
        Some((counters.dropped, counters.failed))
    }

    /// What is counted beside the engine, by name.
    pub(super) fn counts(&self) -> impl Iterator<Item = (String, u64)> {
        let http2 = self.http2_served().into_iter();
        let http2 =
            http2.flat_map(|(conns, requests)| [("http2_connections", conns), ("http2_requests", requests)]);
        let http2 = http2.map(|(name, count)| (name.to_owned(), count));
        let checks = self.checks.iter().flat_map(|counters| counters.fields());
        let lost = self.access_lost().into_iter();
        let lost =
            lost.flat_map(|(dropped, failed)| [("access_dropped", dropped), ("access_failed", failed)]);
        let lost = lost.map(|(name, count)| (name.to_owned(), count));
        http2.chain(checks.map(|(name, count)| (format!("checks_{name}"), count))).chain(lost)
    }

    /// What the checks did, where there are any: `runs=20 failed=3`.
    pub(super) fn checks_run(&self) -> Option<String> {
        Some(list(self.checks.as_ref()?.fields().into_iter()))
    }

    pub(super) fn add_refusals(&mut self, refusals: Refusals) {
        self.refusals.push(refusals);
    }

    /// What the checks did all together, by name; nothing where there are none.
    pub(super) fn check_runs(&self) -> BTreeMap<String, u64> {
        let fields = self.checks.iter().flat_map(|counters| counters.fields());
        fields.map(|(name, count)| (name.to_owned(), count)).collect()
    }

    /// Connections of HTTP/2 by why they were refused or ended.
    pub(super) fn http2_refusals(&self) -> Vec<(&'static str, u64)> {
        self.http2.iter().flat_map(|counters| counters.fields()).collect()
    }

    /// TLS handshakes by what came of them.
    pub(super) fn handshakes(&self) -> BTreeMap<&'static str, u64> {
        sums(self.acceptors.iter().flat_map(|acceptor| acceptor.stats().fields().collect::<Vec<_>>()))
    }

    /// Requests and handshakes that a server refused, by why; without those of [`Self::counted`].
    pub(super) fn refusals(&self) -> Vec<(&'static str, u64)> {
        let requests = self.refusals.iter().flat_map(Refusals::all).map(|(why, count)| (why.as_str(), count));
        let handshakes =
            self.acceptors.iter().flat_map(|acceptor| acceptor.stats().fields().collect::<Vec<_>>());
        let handshakes = handshakes.filter(|(name, _)| !HANDSHAKES_GOOD.contains(name));
        requests.chain(handshakes).collect()
    }

    /// What counts those it refuses, of this generation and perhaps of others.
    pub(super) fn counted(&self) -> &[Counted] {
        &self.counted
    }

    /// All that were refused, where any were: `busy=2 rate_limited=1`. Of `stats` those that waited for a job.
    pub(super) fn refused(&self, refusals: Vec<(&'static str, u64)>, stats: &Snapshot) -> String {
        let http2 = self.http2.iter().flat_map(|counters| counters.fields());
        let jobs = [
            ("jobs_panicked", stats.jobs_panicked),
            ("jobs_refused", stats.jobs_refused),
            ("jobs_timed_out", stats.jobs_timed_out),
        ];
        list(refusals.into_iter().chain(http2).chain(jobs))
    }

    /// Connections by why they were closed, where it was not because all was done.
    pub(super) fn closed(stats: &Snapshot) -> String {
        let to_blame = CloseReason::ALL.iter().filter(|reason| reason.blame() != Blame::Nobody);
        list(to_blame.map(|&reason| (reason.as_str(), stats.closed_because(reason))))
    }
}

/// Sums by name.
fn sums(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in counts {
        *sums.entry(name).or_default() += count;
    }
    sums
}

/// Sums by name, without those that are 0.
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
    fn counts_of_one_name_are_added_and_none_is_not_told() {
        let counts = [("busy", 2), ("host", 0), ("field", 1), ("busy", 3)];
        assert_eq!(list(counts.into_iter()), "busy=5 field=1");
        assert_eq!(list([].into_iter()), "");
        assert_eq!(Totals::closed(&Snapshot::default()), "");
    }
}
