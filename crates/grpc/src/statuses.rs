//! The health of each gRPC service, as published by the registry for all protocols; wakes Watch
//! calls on changes.
//!
//! Statuses depend on the prober, as over HTTP, because a drain may be reported differently to
//! kubelets and load balancers.

use std::collections::BTreeMap;
use std::sync::Arc;

use doorbell::http::prober::Prober;
use doorbell::time::{Clock as _, OsClock};
use doorbell_health::{Audience, EndpointState};
use doorbell_probes::{ProbeCounters, Published, Registry, RunTrigger, audience_of};
use tokio::sync::watch;
use tonic_health::ServingStatus;

/// Path of the default health check of an AWS application load balancer, which treats code 12,
/// UNIMPLEMENTED, as healthy. [`GrpcHealth`](crate::GrpcHealth) does not serve it.
pub const ALB_PATH: &str = "/AWS.ALB/healthcheck";

/// Name of the service that stands for the whole process (grpc/health/v1/health.proto).
pub const OVERALL: &str = "";

/// The statuses by service. The set of services is fixed.
#[derive(Debug)]
pub struct Statuses {
    services: BTreeMap<String, Service>,
    published: Arc<Published>,
}

/// One service.
#[derive(Debug)]
struct Service {
    endpoint: usize,
    /// Wakes Watch calls when a status changes.
    changes: [watch::Sender<ServingStatus>; Audience::ALL.len()],
    /// On-demand checks.
    demands: Box<[RunTrigger]>,
    /// Counts the probes of the endpoint by prober; shared by all services of the endpoint.
    probe_counters: Arc<ProbeCounters>,
    /// Whether this is the first service of its endpoint.
    is_first: bool,
}

/// A watched service.
#[derive(Debug)]
pub(crate) struct Watched {
    published: Arc<Published>,
    endpoint: usize,
    audience: Audience,
    changes: watch::Receiver<ServingStatus>,
}

impl Statuses {
    /// Creates statuses that follow the endpoints of `registry`. `services` contains the name of
    /// each service and the position of its endpoint; a service at a position without an endpoint
    /// is ignored. A service is SERVING if the HTTP status of its endpoint means up.
    pub fn follow(services: impl IntoIterator<Item = (String, usize)>, registry: &Registry) -> Arc<Self> {
        let endpoints: BTreeMap<String, usize> = services.into_iter().collect();
        let mut known = Vec::new();
        let service = |(service, endpoint): (String, usize)| {
            let probe_counters = Arc::clone(registry.prober_stats().probe_counters(endpoint)?);
            let changes = Audience::ALL.map(|_| watch::Sender::new(ServingStatus::NotServing));
            let is_first = !known.contains(&endpoint);
            known.push(endpoint);
            let demands = registry.triggers_of(endpoint);
            Some((service, Service { endpoint, changes, demands, probe_counters, is_first }))
        };
        let services = endpoints.into_iter().filter_map(service).collect();
        let statuses = Arc::new(Self { services, published: Arc::clone(registry.published()) });
        let follower = Arc::clone(&statuses);
        registry.follow(move |serving| {
            for service in follower.services.values().filter(|service| serving.is_news(service.endpoint)) {
                for (changes, audience) in service.changes.iter().zip(Audience::ALL) {
                    let (_, serves) = serving.state(service.endpoint, audience);
                    changes.send_if_modified(|now| std::mem::replace(now, status(serves)) != status(serves));
                }
            }
        });
        statuses
    }

    /// Returns the status for a prober, and counts the probe.
    pub(crate) fn get(&self, service: &str, prober: Option<Prober>) -> Option<ServingStatus> {
        let service = self.services.get(service)?;
        service.ask();
        Some(service.count(&self.published, prober))
    }

    /// Watches a service: the current status, then changes. A slow reader misses intermediate
    /// changes. A Watch counts as one probe.
    pub(crate) fn watch(&self, service: &str, prober: Option<Prober>) -> Option<Watched> {
        let service = self.services.get(service)?;
        service.ask();
        service.count(&self.published, prober);
        let audience = audience_of(prober);
        let changes = service.changes[audience as usize].subscribe();
        Some(Watched {
            published: Arc::clone(&self.published),
            endpoint: service.endpoint,
            audience,
            changes,
        })
    }

    /// Requests the on-demand checks of the service.
    pub(crate) fn ask(&self, service: &str) {
        self.services.get(service).into_iter().for_each(Service::ask);
    }

    /// Whether the service has on-demand checks.
    pub(crate) fn is_on_demand(&self, service: &str) -> bool {
        self.services.get(service).is_some_and(|service| !service.demands.is_empty())
    }

    pub(crate) fn len(&self) -> usize {
        self.services.len()
    }

    /// Returns the statuses of all services at one moment for a prober, and counts one probe per
    /// endpoint.
    pub(crate) fn all(&self, prober: Option<Prober>) -> impl Iterator<Item = (&str, ServingStatus)> {
        let set = self.published.load();
        self.services.iter().map(move |(name, service)| {
            service.ask();
            let (state, serves) = set.states(service.endpoint)[audience_of(prober) as usize];
            if service.is_first {
                service.count_as(prober, state);
            }
            (name.as_str(), status(serves))
        })
    }
}

impl Service {
    fn ask(&self) {
        self.demands.iter().for_each(RunTrigger::request);
    }

    /// Returns the status for a prober, and counts the probe.
    fn count(&self, published: &Published, prober: Option<Prober>) -> ServingStatus {
        let (state, serves) = published.load().states(self.endpoint)[audience_of(prober) as usize];
        self.count_as(prober, state);
        status(serves)
    }

    fn count_as(&self, prober: Option<Prober>, state: EndpointState) {
        self.probe_counters.own().count(prober, state, OsClock.now());
    }
}

impl Watched {
    /// Returns the current status; [`Self::changed`] waits for the next one.
    pub(crate) fn status(&mut self) -> ServingStatus {
        self.changes.mark_unchanged();
        status(self.published.load().states(self.endpoint)[self.audience as usize].1)
    }

    /// Waits until the status may have changed. `None` if it can no longer change.
    pub(crate) async fn changed(&mut self) -> Option<()> {
        self.changes.changed().await.ok()
    }

    #[cfg(test)]
    fn has_changed(&self) -> bool {
        self.changes.has_changed().unwrap()
    }
}

const fn status(serves: bool) -> ServingStatus {
    if serves { ServingStatus::Serving } else { ServingStatus::NotServing }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use doorbell_health::{CheckConfig, CheckResult, EndpointConfig, Initial, OnDrain, Severity, Time};
    use doorbell_probes::EndpointOptions;

    use super::*;

    const KUBELET: Option<Prober> = Some(Prober::Kubelet);
    const YES: ServingStatus = ServingStatus::Serving;
    const NO: ServingStatus = ServingStatus::NotServing;

    /// `cart` is down, `readyz` is up and ignores drains for kubelets, `livez` ignores all drains.
    fn registry() -> Arc<Registry> {
        let mut builder = Registry::builder(Time::ZERO, Duration::ZERO);
        let down = builder
            .check("down", CheckConfig { initial: Initial::FullyDown, ..CheckConfig::ttl(Duration::MAX) });
        let cart = EndpointConfig::new("cart").with(down.unwrap(), Severity::Required);
        let mut on_drain = EndpointConfig::new("x").on_drain;
        on_drain[Audience::Kubelet as usize] = OnDrain::Ignore;
        let readyz = EndpointConfig { on_drain, ..EndpointConfig::new("readyz") };
        let livez = EndpointConfig { on_drain: [OnDrain::Ignore; 3], ..EndpointConfig::new("livez") };
        for endpoint in [cart, readyz, livez] {
            builder.endpoint(endpoint, EndpointOptions::default()).unwrap();
        }
        builder.build()
    }

    fn services(all: &[(&str, usize)]) -> Vec<(String, usize)> {
        all.iter().map(|(name, endpoint)| ((*name).to_owned(), *endpoint)).collect()
    }

    #[test]
    fn each_service_follows_its_endpoint() {
        let registry = registry();
        let all = services(&[("shop.Cart", 0), ("shop.Orders", 1), ("alive", 2), ("", 2), ("none", 9)]);
        let statuses = Statuses::follow(all, &registry);
        let now = |prober: Option<Prober>, expected: [ServingStatus; 4]| {
            let names = ["", "alive", "shop.Cart", "shop.Orders"];
            let expected: Vec<_> = names.into_iter().zip(expected).collect();
            assert_eq!(statuses.all(prober).collect::<Vec<_>>(), expected);
        };
        now(None, [YES, YES, NO, YES]);
        let watched = statuses.watch("shop.Orders", Some(Prober::Envoy)).unwrap();
        let by_kubelet = statuses.watch("shop.Orders", KUBELET).unwrap();
        assert!(!watched.has_changed() && statuses.watch("shop.Other", None).is_none());
        registry.drain(Some(""), Time::ZERO);
        now(None, [YES, YES, NO, NO]);
        now(KUBELET, [YES, YES, NO, YES]);
        assert!(watched.has_changed() && !by_kubelet.has_changed());
        // An unknown service has no status.
        assert_eq!((statuses.get("shop.Other", None), statuses.get("alive", KUBELET)), (None, Some(YES)));
        let rows = registry.prober_stats().rows();
        let rows: Vec<_> =
            rows.iter().map(|row| (&*row.endpoint, row.prober_name(), row.count(), row.state_last)).collect();
        let (up, drain) = (EndpointState::Up, EndpointState::Drain);
        let expected = [
            ("cart", "kubelet", 1, drain),
            ("cart", "other", 2, drain),
            ("readyz", "envoy", 1, up),
            ("readyz", "kubelet", 2, up),
            ("readyz", "other", 2, drain),
            ("livez", "kubelet", 2, up),
            ("livez", "other", 2, up),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn only_changes_wake_a_watch() {
        let registry = registry();
        let statuses = Statuses::follow(services(&[("a", 0)]), &registry);
        let mut watched = statuses.watch("a", None).unwrap();
        assert_eq!(watched.status(), NO);
        registry.drain(Some(""), Time::ZERO);
        assert!(!watched.has_changed(), "the status is unchanged");
        registry.drain(None, Time::ZERO);
        for second in 1..4 {
            registry.found(0, &CheckResult::success(Duration::ZERO), Time::from_secs(second));
        }
        assert!(watched.has_changed());
        assert_eq!((watched.status(), watched.has_changed()), (YES, false));
    }
}
