//! Who probes: how often, what they were told, when they were last seen, and how load balancers say they see us.
//!
//! Does not know about: replies, who reads it. Anybody can send what a prober sends: this is for people and graphs, and decides nothing.
//!
//! # Decision: every thread counts for itself
//!
//! *Context.* A probe is answered in a few hundred instructions, and one line of memory that two threads write to would cost as much
//! again. *Choice.* Each thread that answers has a shard, a number of its own, and each endpoint has counters by shard and prober, those of
//! one prober in cache lines of their own. Whoever wants to know adds the shards up. A thread that ends gives its shard back; should there be more
//! threads than shards, the last of them share one and may lose counts. Who sends a head is remembered with the head, so that a prober that sends the same again costs
//! no look at its fields. *Measured:* the row `health` beside `fixed` in `benches/benches/instructions_health.rs`. *What would change it:*
//! handlers that own a place for each worker.

pub(crate) mod audience;
mod counters;
mod report;
pub(crate) mod shard;
#[cfg(test)]
mod tests;
mod view;

use crate::http::forwarded::Networks;
use crate::http::prober::Prober;
use crate::http::{Peer, Request, Time};
use counters::{PLACES, ProberCounters, place_of};
use doorbell_health::EndpointState;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use view::Views;
pub(crate) use view::{LbState, LbView};

/// Shards at most.
pub(crate) const SHARDS_MAX: usize = 512;

/// Servers that each have all their workers at once: while one follows the other, those before them may still be about to end.
const GENERATIONS: usize = 4;

/// For threads beside the workers that answer probes: those of HTTP/2, and those of TCP gates.
const SHARDS_BESIDE: usize = 10;

/// The field by which HAProxy says how it sees a server (`option httpchk` with `http-check send-state`).
const STATE_FIELD: &str = "x-haproxy-server-state";

/// All endpoints, in the order of the configuration.
#[derive(Debug)]
pub(crate) struct ProberStats(Vec<Arc<ProbeCounters>>);

/// Where the probes of one endpoint are counted.
#[derive(Debug)]
pub(crate) struct ProbeCounters {
    endpoint: Box<str>,
    shards: Box<[OnceLock<Arc<ShardCounters>>]>,
    shared: OnceLock<Arc<ShardCounters>>,
    views: Views,
}

/// Where one thread counts the probes of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct ThreadCounters(Arc<ShardCounters>);

/// By prober.
type ShardCounters = [ProberCounters; PLACES];

/// Probers of one kind at one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) endpoint: Box<str>,
    /// Nobody that is known, if none.
    pub(crate) prober: Option<Prober>,
    /// By [`EndpointState`], in its order.
    pub(crate) told: [u64; EndpointState::ALL.len()],
    /// What the last one was told.
    pub(crate) told_last: EndpointState,
    /// When the last one came, on the clock of [`Request::now`].
    pub(crate) last: Time,
    /// How far apart they come, once there were two: the mean of the last ones. It does not grow while nobody comes.
    pub(crate) interval: Option<Duration>,
}

impl ThreadCounters {
    /// Counts a probe.
    #[inline(always)]
    pub(crate) fn count(&self, prober: Option<Prober>, told: EndpointState, now: Time) {
        self.0[place_of(prober)].count(told, now);
    }
}

impl Row {
    /// The word for a label.
    pub(crate) fn prober_name(&self) -> &'static str {
        self.prober.map_or("other", Prober::as_str)
    }

    /// All probes.
    pub(crate) fn count(&self) -> u64 {
        self.told.iter().sum()
    }
}

impl ProberStats {
    /// For endpoints with these names, without probers so far, and `workers` threads.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>, workers: usize) -> Self {
        let shards = workers.saturating_mul(GENERATIONS).saturating_add(SHARDS_BESIDE).min(SHARDS_MAX);
        Self(names.map(|name| Arc::new(ProbeCounters::new(name, shards))).collect())
    }

    /// Counts on where another one did, for endpoints of the same name: a new configuration does not make probers strangers.
    pub(crate) fn go_on_with(&mut self, before: &Self) {
        for probe_counters in &mut self.0 {
            if let Some(known) = before.0.iter().find(|known| known.endpoint == probe_counters.endpoint) {
                *probe_counters = Arc::clone(known);
            }
        }
    }

    /// Where the endpoint at this position is counted.
    pub(crate) fn probe_counters(&self, endpoint: usize) -> Option<&Arc<ProbeCounters>> {
        self.0.get(endpoint)
    }

    /// Whoever came, by endpoint and prober.
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.0.iter().flat_map(|probe_counters| probe_counters.rows()).collect()
    }

    /// How load balancers said lately that they see us, by endpoint.
    pub(crate) fn views(&self, now: Time) -> impl Iterator<Item = (&str, Vec<LbView>)> {
        self.0.iter().map(move |probe_counters| (&*probe_counters.endpoint, probe_counters.views.all(now)))
    }

    /// States of load balancers that had to go for others, that had no name, or that came from an address that is not trusted.
    pub(crate) fn views_refused(&self) -> u64 {
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

    /// Where the thread that asks counts, and no other while it lives.
    pub(crate) fn own(&self) -> ThreadCounters {
        let shard = self.shards.get(shard::current()).unwrap_or(&self.shared);
        ThreadCounters(Arc::clone(shard.get_or_init(Arc::default)))
    }

    /// Keeps what a request that is not remembered says beside who sends it. Only those are believed whom `trusted` has, if it has any: others may
    /// send the field through a load balancer.
    pub(crate) fn listen(&self, request: &Request<'_>, trusted: &Networks) {
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

    fn rows(&self) -> impl Iterator<Item = Row> {
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
            counters::sum(counters).map(|sum| Row {
                endpoint: self.endpoint.clone(),
                prober,
                told: sum.told,
                told_last: sum.told_last,
                last: sum.last,
                interval: sum.interval,
            })
        })
    }
}
