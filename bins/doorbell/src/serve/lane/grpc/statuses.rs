//! What each gRPC service's health is now: written when something changes, read and watched by calls.
//!
//! Does not know about: what makes a status, calls.
//!
//! Who asks is known by `User-Agent`, as over HTTP: what a drain tells a kubelet and a load balancer may differ here, too.
//!
//! [`Statuses::follow`] sets them from the endpoints that `[grpc]` names.

use crate::checks::Demand;
use crate::config::model::Config;
use crate::http::log::Prober;
use crate::serve::audience::audience_of;
use crate::serve::board::Keeper;
use crate::serve::census::Seat;
use doorbell::time::{Clock as _, OsClock};
use doorbell_health::{Audience, EndpointState};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tonic_health::ServingStatus;

/// The service without a name: all of this process.
pub(super) const OVERALL: &str = "";

/// The statuses by service. The services are known from the start.
#[derive(Debug)]
pub(in crate::serve) struct Statuses(BTreeMap<String, Service>);

/// One service.
#[derive(Debug)]
struct Service {
    by_audience: [watch::Sender<Told>; Audience::ALL.len()],
    /// What runs when somebody asks.
    demands: Box<[Demand]>,
    /// Where who asks is counted; services may share an endpoint.
    seat: Option<Arc<Seat>>,
    /// Whether it is the first service of its endpoint.
    is_first: bool,
}

/// What one audience is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) status: ServingStatus,
    /// The word for the census.
    state: EndpointState,
}

impl Statuses {
    /// The services of a configuration, each as its endpoint is and will be. gRPC knows two answers, and serving is what the same
    /// endpoint answers by HTTP with a code that says so.
    pub(in crate::serve) fn follow(config: &Config, keeper: &Keeper) -> Arc<Self> {
        let overall = (OVERALL.to_owned(), config.grpc.overall);
        let endpoints: BTreeMap<String, usize> =
            config.grpc.services.iter().cloned().chain([overall]).collect();
        let mut statuses = Self::new(endpoints.keys().map(String::as_str));
        let mut known = Vec::new();
        for (service, &endpoint) in statuses.0.values_mut().zip(endpoints.values()) {
            service.demands = keeper.demands_of(endpoint);
            service.seat = keeper.census().seat(endpoint).cloned();
            service.is_first = !known.contains(&endpoint);
            known.push(endpoint);
        }
        let statuses = Arc::new(statuses);
        let follower = Arc::clone(&statuses);
        keeper.follow(move |serving| {
            for (service, &endpoint) in endpoints.iter().filter(|(_, endpoint)| serving.is_news(**endpoint)) {
                follower.set(service, Audience::ALL.map(|audience| serving.told(endpoint, audience).into()));
            }
        });
        statuses
    }

    /// Services of these names, none of which is known to serve.
    pub(super) fn new<'a>(services: impl Iterator<Item = &'a str>) -> Self {
        let unknown = |service: &str| {
            let told = Told::from((EndpointState::Down, false));
            let by_audience = Audience::ALL.map(|_| watch::Sender::new(told));
            let service_of = Service { by_audience, demands: Box::default(), seat: None, is_first: true };
            (service.to_owned(), service_of)
        };
        Self(services.map(unknown).collect())
    }

    /// Tells all who watch, if it is something new. A service that is not known is nobody's to watch.
    pub(super) fn set(&self, service: &str, told: [Told; Audience::ALL.len()]) {
        let Some(service) = self.0.get(service) else { return };
        for (sender, told) in service.by_audience.iter().zip(told) {
            sender.send_if_modified(|now| core::mem::replace(now, told).status != told.status);
        }
    }

    /// What a prober is told, who is counted.
    pub(super) fn get(&self, service: &str, prober: Option<Prober>) -> Option<ServingStatus> {
        let service = self.0.get(service)?;
        service.ask();
        service.count(prober);
        Some(service.told(prober).status)
    }

    /// The status now and every later one; who is slow misses those in between. Who watches counts as one who asks once.
    pub(super) fn watch(&self, service: &str, prober: Option<Prober>) -> Option<watch::Receiver<Told>> {
        let service = self.0.get(service)?;
        service.ask();
        service.count(prober);
        Some(service.by_audience[audience_of(prober) as usize].subscribe())
    }

    /// Has run what runs when somebody asks for the service.
    pub(super) fn ask(&self, service: &str) {
        self.0.get(service).into_iter().for_each(Service::ask);
    }

    /// Whether anything does.
    pub(super) fn is_on_demand(&self, service: &str) -> bool {
        self.0.get(service).is_some_and(|service| !service.demands.is_empty())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All services, as a prober is told, who counts once for each endpoint behind them.
    pub(super) fn all(&self, prober: Option<Prober>) -> impl Iterator<Item = (&str, ServingStatus)> {
        self.0.iter().map(move |(name, service)| {
            service.ask();
            if service.is_first {
                service.count(prober);
            }
            (name.as_str(), service.told(prober).status)
        })
    }
}

impl Service {
    fn ask(&self) {
        self.demands.iter().for_each(Demand::ask);
    }

    fn told(&self, prober: Option<Prober>) -> Told {
        *self.by_audience[audience_of(prober) as usize].borrow()
    }

    fn count(&self, prober: Option<Prober>) {
        if let Some(seat) = &self.seat {
            seat.own().count(prober, self.told(prober).state, OsClock.now());
        }
    }
}

impl From<(EndpointState, bool)> for Told {
    fn from((state, serves): (EndpointState, bool)) -> Self {
        let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
        Self { status, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Source, parse};

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
        let keeper = Keeper::build(&config).unwrap();
        let statuses = Statuses::follow(&config, &keeper);
        let now = |prober: Option<Prober>, expected: [ServingStatus; 4]| {
            let names = ["", "alive", "shop.Cart", "shop.Orders"];
            let expected: Vec<_> = names.into_iter().zip(expected).collect();
            assert_eq!(statuses.all(prober).collect::<Vec<_>>(), expected);
        };
        let (yes, no) = (ServingStatus::Serving, ServingStatus::NotServing);
        now(None, [yes, yes, no, yes]);
        let watched = statuses.watch("shop.Orders", Some(Prober::Envoy)).unwrap();
        let by_kubelet = statuses.watch("shop.Orders", KUBELET).unwrap();
        assert!(!watched.has_changed().unwrap() && statuses.watch("shop.Other", None).is_none());
        keeper.drain(true);
        now(None, [no, yes, no, no]);
        now(KUBELET, [yes, yes, no, yes]);
        assert!(watched.has_changed().unwrap() && !by_kubelet.has_changed().unwrap());
        // A service that nobody has is no endpoint's.
        assert_eq!((statuses.get("shop.Other", None), statuses.get("alive", KUBELET)), (None, Some(yes)));
        let rows = keeper.census().rows();
        let rows: Vec<_> =
            rows.iter().map(|row| (&*row.endpoint, row.prober_name(), row.count(), row.told_last)).collect();
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
    fn only_news_wake_who_watches() {
        let statuses = Statuses::new(["a"].into_iter());
        let mut watched = statuses.watch("a", None).unwrap();
        let set = |service, state, serves| statuses.set(service, [Told::from((state, serves)); 3]);
        set("a", EndpointState::Drain, false);
        set("b", EndpointState::Up, true);
        assert!(!watched.has_changed().unwrap());
        set("a", EndpointState::Up, true);
        assert_eq!(watched.borrow_and_update().status, ServingStatus::Serving);
        let told = [statuses.get("a", KUBELET), statuses.get("b", KUBELET)];
        assert_eq!(told, [Some(ServingStatus::Serving), None]);
    }
}
