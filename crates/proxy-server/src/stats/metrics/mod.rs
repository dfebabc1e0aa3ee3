//! Metrics: collects all values for a scrape.
//!
//! Label values are names from the configuration and words of small fixed sets. Load balancers are
//! an exception: they send their names, and the number of stored names is limited. Request
//! durations are not measured: most replies are pre-rendered, and workers avoid the clock read per
//! request that a measurement would require. Proxies in front of this server measure durations.

mod engine;
mod history;
mod items;
mod links;
mod nginx;
mod sharing;
#[cfg(test)]
mod tests;

use super::server::{Item, is_handshake_counter};
use crate::operator::{Operator, Running, time_of_day};
use crate::program::Program;
use crate::stats::process::Reloads;
use crate::stats::requests::{Counted, counted};
use doorbell::Snapshot;
use doorbell::time::{Clock as _, OsClock, Time};
use doorbell_control::{LinkView, Status};
use doorbell_history::Stats;
pub(crate) use doorbell_metrics::Exposition;
use doorbell_metrics::{Families, HealthSample, Origin, Process, Workers};
use parking_lot::Mutex;
use sharing::SharingSample;
use std::collections::BTreeMap;
use std::time::Duration;

/// The values of one scrape.
#[derive(Clone, Debug, Default)]
struct Scrape {
    program: Program,
    status: Status,
    links: Vec<LinkView>,
    /// The time on the clock of the workers.
    now: Time,
    origins: Origins,
    health: HealthSample,
    /// Counters of the engine, by worker.
    workers: Vec<Snapshot>,
    refused: BTreeMap<&'static str, u64>,
    /// Counters of listeners, limiters and other items.
    items: BTreeMap<Item, u64>,
    /// Open connections, by listener.
    conns_live: BTreeMap<Box<str>, u64>,
    handshakes_live: BTreeMap<Box<str>, u64>,
    /// Open addresses, by TCP gate.
    gates_open: BTreeMap<Box<str>, u64>,
    /// Number of keys, by limiter.
    limiter_keys: BTreeMap<Box<str>, u64>,
    /// Earliest expiry by `[tls.NAME]`, in seconds since 1970.
    certificate_expiries: BTreeMap<Box<str>, i64>,
    /// Requests by route, and the number of requests that are not counted by route.
    requests: (Vec<(Counted, u64)>, u64),
    /// Connections and requests of HTTP/2; `None` if no listener has HTTP/2.
    http2: Option<(u64, u64)>,
    /// Open connections of HTTP/2, which are not in `conns_live`.
    http2_live: u64,
    config_hash: String,
    reloads: Reloads,
    /// Lost log lines.
    log_lost: u64,
    history: Option<Stats>,
    sharing: Option<SharingSample>,
    process: Process,
}

/// The Unix time at which each clock was 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Origins {
    workers: Origin,
    program: Origin,
    checks: Origin,
}

impl Origins {
    fn read(operator: &Operator) -> Self {
        static LAST: Mutex<Option<Origins>> = Mutex::new(None);
        let mut last = LAST.lock();
        let before = operator.uptime();
        let now = time_of_day();
        let found = Self {
            workers: Origin::found(now, since_zero(OsClock.now())),
            program: Origin::found(now, before),
            checks: operator
                .running()
                .map(|running| Origin::found(now, running.registry.since_zero()))
                .unwrap_or_default(),
        };
        let took = operator.uptime().saturating_sub(before);
        let origins = found.or_previous(*last, took);
        *last = Some(origins);
        origins
    }

    /// Returns the previous origins, except those that a step of the system clock has changed. If
    /// reading the clocks took too long to detect a step, returns all previous origins.
    fn or_previous(self, last: Option<Self>, took: Duration) -> Self {
        match last {
            None => self,
            Some(last) if took >= Origin::STEP_MIN / 2 && last.checks != Origin::default() => last,
            Some(last) => Self {
                workers: self.workers.or_previous(last.workers),
                program: self.program.or_previous(last.program),
                checks: self.checks.or_previous(last.checks),
            },
        }
    }
}

fn since_zero(time: Time) -> Duration {
    time.since(Time::ZERO)
}

/// Renders the current metrics in the format that the `Accept` field selects.
pub(crate) fn render(operator: &Operator, accept: &[u8]) -> (Exposition, String) {
    let exposition = Exposition::accepted(accept);
    let scrape = Scrape::of(operator);
    (exposition, exposition.render(gather(&scrape)))
}

/// Renders the metrics of nginx's `stub_status`.
pub(crate) fn stub_status(operator: &Operator) -> String {
    nginx::stub_status(&Scrape::of(operator))
}

impl Scrape {
    fn of(operator: &Operator) -> Self {
        let mut scrape = Self {
            program: operator.program(),
            now: OsClock.now(),
            origins: Origins::read(operator),
            status: operator.status(),
            links: operator.links(),
            requests: counted(),
            log_lost: crate::log::lines_lost(),
            history: operator.events().history().map(|history| history.stats()),
            process: Process::read(),
            ..Self::default()
        };
        if let Some(running) = operator.running() {
            scrape.add(&running);
        }
        scrape
    }

    fn add(&mut self, running: &Running) {
        let (process_stats, server_stats) = (&running.process_stats, &running.server_stats);
        self.workers = process_stats.worker_stats();
        (self.items, self.conns_live) = (process_stats.items(), process_stats.conns_live());
        for (listener, count) in server_stats.handshakes_live() {
            *self.handshakes_live.entry(listener.into()).or_default() += count;
        }
        let ports = running.ports.get().into_iter().flat_map(BTreeMap::keys);
        for gate in ports.filter_map(|port| port.strip_prefix("tcp_gate.")) {
            self.gates_open.insert(gate.into(), process_stats.gates_open(gate));
            // Counters start at 0, so that rates are defined from the first event on.
            for item in Item::of_gate(gate) {
                self.items.entry(item).or_default();
            }
        }
        let keys = server_stats.limiter_keys();
        self.limiter_keys = keys.map(|(limiter, count)| (limiter.into(), count as u64)).collect();
        self.certificate_expiries = server_stats.certificate_expiries();
        // Handshakes are exported in a family of their own.
        let refused = process_stats.refusals().into_iter().filter(|(why, _)| !is_handshake_counter(why));
        for (why, count) in refused.chain(server_stats.http2_refusals()) {
            *self.refused.entry(why).or_default() += count;
        }
        (self.http2, self.http2_live) = (server_stats.http2_served(), server_stats.http2_live());
        self.sharing = running.shared_checks.as_ref().map(|shared| SharingSample {
            is_usable: shared.status().is_usable(),
            store: shared.status().counters(),
            checks: running.shared_views(),
            dropped: shared.dropped(),
        });
        self.config_hash.clone_from(&running.config_hash);
        self.reloads = process_stats.reloads();
        self.health = HealthSample::of(
            &running.registry,
            server_stats.checks.as_deref(),
            (running.registry.now(), self.origins.checks),
            (self.now, self.origins.workers),
        );
    }

    fn workers(&self) -> Workers<'_> {
        Workers { all: &self.workers, origin: self.origins.workers }
    }
}

fn gather(scrape: &Scrape) -> Families {
    let mut families = Families::default();
    engine::gather(scrape, &mut families);
    items::gather(scrape, &mut families);
    history::gather(scrape.history.as_ref(), &mut families);
    sharing::gather(scrape.sharing.as_ref(), &mut families);
    links::gather(&scrape.links, &mut families);
    scrape.health.gather(&mut families);
    scrape.process.gather(&mut families);
    families
}
