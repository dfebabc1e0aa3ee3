//! Statistics per endpoint and kind of prober: number and interval of probes, replies by state,
//! time of the last probe, and the server state that load balancers report.
//!
//! Any client can imitate a prober, so the statistics are for information only and affect no
//! decision.
//!
//! # Decision: per-thread counters
//!
//! *Context.* Serving a probe takes a few hundred instructions; a cache line that two threads write
//! to would double this cost. *Choice.* Each thread that replies has its own shard number. Each
//! endpoint has counters by shard and prober, with separate cache lines for each prober. A reader
//! sums up the shards. A thread that ends releases its shard. If there are more threads than
//! shards, the remaining threads share one and may lose counts. The detected prober is cached with
//! the head of a request, so that the same head is not analysed again. *Measured:* the rows
//! `health` and `fixed` in `benches/benches/instructions/health.rs`. *What would change it:*
//! handlers with state for each worker.

mod counters;
#[cfg(test)]
mod tests;
mod view;

use crate::shard::{self, SHARDS_MAX};
use counters::{PLACES, ProberCounters, place_of};
use doorbell_health::EndpointState;
use doorbell_http::forwarded::Networks;
use doorbell_http::prober::Prober;
use doorbell_http::{Peer, Request, Time};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use view::Views;
pub use view::{LbState, LbView};

/// Number of servers whose threads may exist at the same time: after a reload, threads of earlier
/// servers may still be running.
const GENERATIONS: usize = 4;

/// Number of shards for other threads that serve probes: those of HTTP/2 and of TCP gates.
const EXTRA_SHARDS: usize = 10;

/// The field in which HAProxy reports the state of a server (`option httpchk` with `http-check
/// send-state`).
const STATE_FIELD: &str = "x-haproxy-server-state";

/// Statistics of all endpoints, by position.
#[derive(Clone, Debug)]
pub struct ProberStats(Vec<Arc<ProbeCounters>>);

/// Counters of the probes of one endpoint.
#[derive(Debug)]
pub struct ProbeCounters {
    endpoint: Box<str>,
    shards: Box<[OnceLock<Arc<ShardCounters>>]>,
    shared: OnceLock<Arc<ShardCounters>>,
    views: Views,
}

/// Counters of one thread for the probes of one endpoint.
#[derive(Clone, Debug)]
pub struct ThreadCounters(Arc<ShardCounters>);

/// Counters of one shard, by prober.
type ShardCounters = [ProberCounters; PLACES];

/// Statistics of one kind of prober at one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProberRow {
    /// Name of the endpoint.
    pub endpoint: Box<str>,
    /// `None`: unknown clients.
    pub prober: Option<Prober>,
    /// Replies by [`EndpointState`], in its order.
    pub states: [u64; EndpointState::ALL.len()],
    /// State in the last reply.
    pub state_last: EndpointState,
    /// Time of the last probe, on the clock of [`Request::now`].
    pub last: Time,
    /// Mean interval of the last probes; `None` before the second probe. It does not change while
    /// no probe arrives.
    pub interval: Option<Duration>,
}

impl ThreadCounters {
    /// Counts a probe.
    #[inline(always)]
    pub fn count(&self, prober: Option<Prober>, state: EndpointState, now: Time) {
        self.count_all(prober, state, now, 1);
    }

    /// Counts probes that got the same reply at the same time.
    #[inline(always)]
    pub fn count_all(&self, prober: Option<Prober>, state: EndpointState, now: Time, probes: u32) {
        self.0[place_of(prober)].count(state, now, probes);
    }
}

impl ProberRow {
    /// Name of the prober for metric labels; `other` for unknown clients.
    #[must_use]
    pub fn prober_name(&self) -> &'static str {
        self.prober.map_or("other", Prober::as_str)
    }

    /// Number of probes.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.states.iter().sum()
    }
}

impl ProberStats {
    /// Empty statistics of endpoints with these names, for `workers` threads.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>, workers: usize) -> Self {
        let shards = workers.saturating_mul(GENERATIONS).saturating_add(EXTRA_SHARDS).min(SHARDS_MAX);
        Self(names.map(|name| Arc::new(ProbeCounters::new(name, shards))).collect())
    }

    /// Takes over the counters of endpoints with the same name, so that they continue after a
    /// reload.
    pub(crate) fn continue_from(&mut self, before: &Self) {
        for probe_counters in &mut self.0 {
            if let Some(known) = before.0.iter().find(|known| known.endpoint == probe_counters.endpoint) {
                *probe_counters = Arc::clone(known);
            }
        }
    }

    /// Counters of the endpoint at this position.
    #[must_use]
    pub fn probe_counters(&self, endpoint: usize) -> Option<&Arc<ProbeCounters>> {
        self.0.get(endpoint)
    }

    /// Probers that were seen, by endpoint and kind.
    #[must_use]
    pub fn rows(&self) -> Vec<ProberRow> {
        self.0.iter().flat_map(|probe_counters| probe_counters.rows()).collect()
    }

    /// States that load balancers reported in the last hour, by endpoint.
    pub fn views(&self, now: Time) -> impl Iterator<Item = (&str, Vec<LbView>)> {
        self.0.iter().map(move |probe_counters| (&*probe_counters.endpoint, probe_counters.views.all(now)))
    }

    /// Number of reported server states that were dropped: no valid name, untrusted address, or
    /// displaced by another load balancer.
    #[must_use]
    pub fn views_refused(&self) -> u64 {
        self.0.iter().map(|probe_counters| probe_counters.views.refused()).sum()
    }
}

impl ProbeCounters {
    fn new(endpoint: &str, shards: usize) -> Self {
        Self {
            endpoint: endpoint.into(),
            shards: std::iter::repeat_with(OnceLock::new).take(shards).collect(),
            shared: OnceLock::new(),
            views: Views::default(),
        }
    }

    /// Counters of the calling thread. No other living thread uses them, unless there are more
    /// threads than shards.
    #[must_use]
    pub fn own(&self) -> ThreadCounters {
        let shard = self.shards.get(shard::current()).unwrap_or(&self.shared);
        ThreadCounters(Arc::clone(shard.get_or_init(Arc::default)))
    }

    /// Stores the server state that a load balancer reports in a request. Unless `trusted` is
    /// empty, reports from other addresses are refused, because any client can send the field.
    pub(crate) fn note_reported(&self, request: &Request<'_>, trusted: &Networks) {
        let Some(state) = request.header(STATE_FIELD) else { return };
        let is_trusted = || match request.client().peer {
            Peer::Addr(addr) => trusted.contains(addr),
            Peer::Unix => true,
            Peer::Unknown => false,
        };
        match trusted.is_empty() || is_trusted() {
            true => self.views.note(state, request.now()),
            false => self.views.refuse(),
        }
    }

    fn rows(&self) -> impl Iterator<Item = ProberRow> {
        let shards: Vec<&ShardCounters> = self
            .shards
            .iter()
            .chain([&self.shared])
            .filter_map(|shard| shard.get().map(|own| &**own))
            .collect();
        let probers = Prober::ALL.iter().copied().map(Some).chain([None]);
        probers.filter_map(move |prober| {
            let place = place_of(prober);
            let counters = shards.iter().map(|shard| &shard[place]);
            counters::sum(counters).map(|sum| ProberRow {
                endpoint: self.endpoint.clone(),
                prober,
                states: sum.states,
                state_last: sum.state_last,
                last: sum.last,
                interval: sum.interval,
            })
        })
    }
}
