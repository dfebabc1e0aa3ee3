//! The metrics of a program: its health, and the servers that it adds.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use doorbell::time::{Clock as _, OsClock, Time as WorkerTime};
use doorbell_health::Time;
#[cfg(target_os = "linux")]
use doorbell_metrics::Workers;
use doorbell_metrics::{Exposition, Families, HealthSample, Origin};
pub use prometheus_client;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::control::{Control, Stats, WeakControl};
use crate::health::Health;
use crate::registry::time_of_day;

/// The metrics of a [`Health`] and of servers, under the names that the program `doorbell` uses.
///
/// [`Self::render`] is the page for scrapers, and `Metrics::routes` (feature `axum`) serves it at
/// `/metrics`. For a program with a registry of its own, this is a collector of
/// [`prometheus_client`] 0.25:
///
/// ```
/// use doorbell_tokio::Health;
/// use doorbell_tokio::prometheus_client::registry::Registry;
///
/// let health = Health::builder().build()?;
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(health.metrics()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | families | of |
/// |---|---|
/// | `doorbell_endpoint_*`, `doorbell_check_*` | endpoints and checks, including internal checks such as `runtime` |
/// | `doorbell_probes`, `doorbell_prober_*`, `doorbell_lb_*` | probers and load balancers |
/// | `doorbell_requests`, `doorbell_handed_*` | servers of [`Self::with_server`] |
/// | `doorbell_worker_*` and the other counters of the engine | ring threads; the worker numbers of a second server follow those of the first |
/// | `doorbell_runtime_*` | servers on the runtime |
///
/// Metrics of the process are omitted, because a program's registry usually has them.
///
/// Cheap to clone. It keeps the health running, but not a server.
#[derive(Clone)]
pub struct Metrics {
    health: Health,
    servers: Vec<WeakControl>,
    /// The origins found by the last scrape.
    origins: Arc<Mutex<Option<Origins>>>,
}

/// The origins of the clocks of checks and of requests.
#[derive(Clone, Copy, Debug)]
struct Origins {
    checks: Origin,
    requests: Origin,
}

impl Health {
    /// The metrics of this health; [`Metrics::with_server`] adds those of a server. Needs the
    /// feature `metrics`.
    pub fn metrics(&self) -> Metrics {
        Metrics { health: self.clone(), servers: Vec::new(), origins: Arc::default() }
    }
}

impl Metrics {
    /// Adds the counters of a server. They are 0 until it is ready, and absent after its last
    /// [`Control`] was dropped.
    #[must_use]
    pub fn with_server(mut self, control: &Control) -> Self {
        self.servers.push(control.downgrade());
        self
    }

    /// Renders the current values. Returns the value of `Content-Type`, and the page. `accept` is
    /// the client's `Accept` field, or empty; it selects OpenMetrics or the text format of
    /// Prometheus.
    pub fn render(&self, accept: &[u8]) -> (&'static str, String) {
        let exposition = Exposition::accepted(accept);
        (exposition.content_type(), exposition.render(self.gather()))
    }

    /// The page at `/metrics` as a route, for `Router::merge`. `merge` panics if the path exists in
    /// both.
    #[cfg(feature = "axum")]
    pub fn routes<S: Clone + Send + Sync + 'static>(&self) -> axum::Router<S> {
        use axum::http::{HeaderMap, header};
        let metrics = self.clone();
        let page = move |fields: HeaderMap| {
            let accept = fields.get(header::ACCEPT).map_or(&[][..], |accept| accept.as_bytes());
            let (content_type, page) = metrics.render(accept);
            std::future::ready(([(header::CONTENT_TYPE, content_type)], page))
        };
        axum::Router::new().route("/metrics", axum::routing::get(page))
    }

    fn gather(&self) -> Families {
        let mut families = Families::default();
        let registry = self.health.clocked();
        let (now, requests_now, time_of_day) = (registry.now(), OsClock.now(), time_of_day());
        let origins = self.origins(now, requests_now, time_of_day, registry.now().since(now));
        HealthSample::of(
            registry,
            Some(self.health.counters()),
            (now, origins.checks),
            (requests_now, origins.requests),
        )
        .gather(&mut families);
        let servers: Vec<_> = self.servers.iter().filter_map(WeakControl::upgrade).collect();
        if !servers.is_empty() {
            servers_of(&servers, origins.requests, &mut families);
        }
        families
    }

    /// Returns the origins of both clocks. The timestamp of an event must be the same in every
    /// scrape, see [`Origin`]. If reading the clocks took too long to detect a step, the previous
    /// origins are kept.
    fn origins(&self, now: Time, requests_now: WorkerTime, time_of_day: Duration, took: Duration) -> Origins {
        let found = Origins {
            checks: Origin::found(time_of_day, now.since(Time::ZERO)),
            requests: Origin::found(time_of_day, requests_now.since(WorkerTime::ZERO)),
        };
        let mut kept = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let origins = match *kept {
            None => found,
            Some(kept) if took >= Origin::STEP_MIN / 2 => kept,
            Some(kept) => Origins {
                checks: found.checks.or_previous(kept.checks),
                requests: found.requests.or_previous(kept.requests),
            },
        };
        *kept = Some(origins);
        origins
    }
}

#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only workers have timestamps"))]
fn servers_of(servers: &[Control], origin: Origin, families: &mut Families) {
    let stats: Vec<_> = servers.iter().map(Control::stats).collect();
    let sum = |count: fn(&Stats) -> u64| stats.iter().map(count).sum();
    #[cfg(target_os = "linux")]
    let of_rings = sum(|one| one.ring.requests);
    #[cfg(not(target_os = "linux"))]
    let of_rings: u64 = 0;
    let http1 = of_rings + sum(|one| one.runtime.requests);
    doorbell_metrics::requests([("http1", http1)], families);
    let help = "Connections handed over to the program and not closed yet.";
    families.gauge("doorbell_handed_active", help).count([], sum(|one| one.handed_out.into()));
    let help = "Connections handed over to the program and not accepted by it yet.";
    families.gauge("doorbell_handed_waiting", help).count([], sum(|one| one.handed_waiting as u64));
    let help = "Connections closed because the runtime could not register them.";
    families.counter("doorbell_handed_failures", help).count([], sum(|one| one.handed_failed));
    #[cfg(target_os = "linux")]
    {
        let all: Vec<_> = servers.iter().flat_map(Control::worker_stats).collect();
        Workers { all: &all, origin }.gather(families);
    }
    if servers.iter().any(Control::is_on_runtime) {
        let help = "Connections accepted by a server on the runtime.";
        let accepted = sum(|one| one.runtime.conns_accepted);
        families.counter("doorbell_runtime_connections_accepted", help).count([], accepted);
        let help = "Open connections of a server on the runtime, without those that were handed over.";
        let active = sum(|one| one.runtime.conns_live);
        families.gauge("doorbell_runtime_connections_active", help).count([], active);
        let help = "Connections that a server on the runtime refused at the limit of hand-overs.";
        let refused = sum(|one| one.runtime.refused);
        families.counter("doorbell_runtime_connections_refused", help).count([], refused);
        let help = "Failed accepts of a server on the runtime.";
        let failed = sum(|one| one.runtime.accept_failed);
        families.counter("doorbell_runtime_accept_errors", help).count([], failed);
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.gather().encode(encoder)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("health", &self.health).field("servers", &self.servers.len()).finish()
    }
}
