//! The health of each gRPC service, as published by the registry for all protocols; wakes Watch
//! calls on changes.
//!
//! Does not know about: the rules of a status, calls.
//!
//! Probers are detected by `User-Agent`, as over HTTP, because a drain may be reported differently
//! to kubelets and load balancers.
//!
//! [`Statuses::follow`] connects the services to the endpoints that `[grpc]` names.

use crate::config::model::Config;
use crate::http::prober::Prober;
use crate::registry::HealthRegistry;
use doorbell::time::{Clock as _, OsClock};
use doorbell_health::{Audience, EndpointState};
use doorbell_probes::{ProbeCounters, Published, RunTrigger, audience_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tonic_health::ServingStatus;

/// Name of the service for the whole process.
pub(super) const OVERALL: &str = "";

/// The statuses by service. The set of services is fixed.
#[derive(Debug)]
pub(crate) struct Statuses {
    services: BTreeMap<String, Service>,
    published: Arc<Published>,
}

/// One service.
#[derive(Debug)]
struct Service {
    endpoint: usize,
    /// Wakes Watch calls when a status changes.
    news: [watch::Sender<ServingStatus>; Audience::ALL.len()],
    /// On-demand checks.
    demands: Box<[RunTrigger]>,
    /// Counts probers; services may share an endpoint.
    probe_counters: Option<Arc<ProbeCounters>>,
    /// Whether this is the first service of its endpoint.
    is_first: bool,
}

/// A watched service.
#[derive(Debug)]
pub(super) struct Watched {
    published: Arc<Published>,
    endpoint: usize,
    audience: Audience,
    news: watch::Receiver<ServingStatus>,
}

impl Statuses {
    /// Creates the services of a configuration. Each follows its endpoint, and is SERVING if the
    /// HTTP status of the endpoint means up.
    pub(crate) fn follow(config: &Config, registry: &HealthRegistry) -> Arc<Self> {
        let overall = (OVERALL.to_owned(), config.grpc.overall.position);
        let services = config.grpc.services.iter();
        let services = services.map(|(service, endpoint)| (service.value.clone(), endpoint.position));
        let endpoints: BTreeMap<String, usize> = services.chain([overall]).collect();
        let mut known = Vec::new();
        let service = |(service, endpoint): (String, usize)| {
            let news = Audience::ALL.map(|_| watch::Sender::new(ServingStatus::NotServing));
            let is_first = !known.contains(&endpoint);
            known.push(endpoint);
            let demands = registry.triggers_of(endpoint);
            let probe_counters = registry.prober_stats().probe_counters(endpoint).cloned();
            (service, Service { endpoint, news, demands, probe_counters, is_first })
        };
        let services = endpoints.into_iter().map(service).collect();
        let statuses = Arc::new(Self { services, published: Arc::clone(registry.published()) });
        let follower = Arc::clone(&statuses);
        registry.follow(move |serving| {
            for service in follower.services.values().filter(|service| serving.is_news(service.endpoint)) {
                for (news, audience) in service.news.iter().zip(Audience::ALL) {
                    let (_, serves) = serving.state(service.endpoint, audience);
                    news.send_if_modified(|now| std::mem::replace(now, status(serves)) != status(serves));
                }
            }
        });
        statuses
    }

    /// Returns the status for a prober, and counts the probe.
    pub(super) fn get(&self, service: &str, prober: Option<Prober>) -> Option<ServingStatus> {
        let service = self.services.get(service)?;
        service.ask();
        Some(service.count(&self.published, prober))
    }

    /// Watches a service: the current status, then changes. A slow reader misses intermediate
    /// changes. A Watch counts as one probe.
    pub(super) fn watch(&self, service: &str, prober: Option<Prober>) -> Option<Watched> {
        let service = self.services.get(service)?;
        service.ask();
        service.count(&self.published, prober);
        let audience = audience_of(prober);
        let news = service.news[audience as usize].subscribe();
        Some(Watched { published: Arc::clone(&self.published), endpoint: service.endpoint, audience, news })
    }

    /// Requests the on-demand checks of the service.
    pub(super) fn ask(&self, service: &str) {
        self.services.get(service).into_iter().for_each(Service::ask);
    }

    /// Whether the service has on-demand checks.
    pub(super) fn is_on_demand(&self, service: &str) -> bool {
        self.services.get(service).is_some_and(|service| !service.demands.is_empty())
    }

    pub(super) fn len(&self) -> usize {
        self.services.len()
    }

    /// Returns the statuses of all services at one moment for a prober, and counts one probe per
    /// endpoint.
    pub(super) fn all(&self, prober: Option<Prober>) -> impl Iterator<Item = (&str, ServingStatus)> {
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
        if let Some(probe_counters) = &self.probe_counters {
            probe_counters.own().count(prober, state, OsClock.now());
        }
    }
}

impl Watched {
    /// Returns the current status; [`Self::changed`] waits for the next one.
    pub(super) fn status(&mut self) -> ServingStatus {
        self.news.mark_unchanged();
        status(self.published.load().states(self.endpoint)[self.audience as usize].1)
    }

    /// Waits until the status may have changed. `None` if it can no longer change.
    pub(super) async fn changed(&mut self) -> Option<()> {
        self.news.changed().await.ok()
    }

    #[cfg(test)]
    fn has_changed(&self) -> bool {
        self.news.has_changed().unwrap()
    }
}

const fn status(serves: bool) -> ServingStatus {
    if serves { ServingStatus::Serving } else { ServingStatus::NotServing }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Source, parse};
    use doorbell_checks::{Finding, ResultSink as _};
    use doorbell_health::Outcome;
    use std::time::Duration;

    fn config(text: &str) -> Config {
        let source = Source { name: "f".to_owned(), text: format!("version = 1\n{text}") };
        parse(&source, &|_| None).config.unwrap()
    }

    const KUBELET: Option<Prober> = Some(Prober::Kubelet);

    #[test]
    fn each_service_follows_its_endpoint() {
        let config = config(
            "[listener.a]\nbind = \":8080\"\nhttp2 = true\n[health.cart]\ninitial = \"down\"\n\
             [health.readyz]\non_drain = { kubelet = \"ignore\" }\n\
             [grpc]\nservices = { \"shop.Cart\" = \"cart\", \"shop.Orders\" = \"readyz\", alive = \"livez\" }\n",
        );
        let registry = HealthRegistry::build(&config).unwrap();
        let statuses = Statuses::follow(&config, &registry);
        let now = |prober: Option<Prober>, expected: [ServingStatus; 4]| {
            let names = ["", "alive", "shop.Cart", "shop.Orders"];
            let expected: Vec<_> = names.into_iter().zip(expected).collect();
            assert_eq!(statuses.all(prober).collect::<Vec<_>>(), expected);
        };
        let (yes, no) = (ServingStatus::Serving, ServingStatus::NotServing);
        now(None, [yes, yes, no, yes]);
        let watched = statuses.watch("shop.Orders", Some(Prober::Envoy)).unwrap();
        let by_kubelet = statuses.watch("shop.Orders", KUBELET).unwrap();
        assert!(!watched.has_changed() && statuses.watch("shop.Other", None).is_none());
        registry.drain(true);
        now(None, [no, yes, no, no]);
        now(KUBELET, [yes, yes, no, yes]);
        assert!(watched.has_changed() && !by_kubelet.has_changed());
        // An unknown service has no status.
        assert_eq!((statuses.get("shop.Other", None), statuses.get("alive", KUBELET)), (None, Some(yes)));
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
        let config = config(
            "[listener.a]\nbind = \":8080\"\nhttp2 = true\n[check.db]\ntype = \"ttl\"\nttl = \"1h\"\nrise = 1\nfall = 1\n\
             [health.readyz]\nrequire = [\"db\"]\n[grpc]\nservices = { a = \"readyz\" }\n",
        );
        let registry = HealthRegistry::build(&config).unwrap();
        let statuses = Statuses::follow(&config, &registry);
        let mut watched = statuses.watch("a", None).unwrap();
        assert_eq!(watched.status(), ServingStatus::NotServing);
        registry.drain(true);
        assert!(!watched.has_changed(), "the status is unchanged");
        registry.drain(false);
        let finding = Finding { outcome: Outcome::Success, latency: Duration::ZERO, reason: String::new() };
        let _next = registry.found(0, &finding);
        assert!(watched.has_changed());
        assert_eq!((watched.status(), watched.has_changed()), (ServingStatus::Serving, false));
        let found = [statuses.get("a", KUBELET), statuses.get("b", KUBELET)];
        assert_eq!(found, [Some(ServingStatus::Serving), None]);
    }
}
