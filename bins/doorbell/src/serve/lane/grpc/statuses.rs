//! What each gRPC service's health is now: written when something changes, read and watched by calls.
//!
//! Does not know about: what makes a status, calls.
//!
//! [`Statuses::follow`] sets them from the endpoints that `[grpc]` names.

use crate::checks::Demand;
use crate::config::model::Config;
use crate::serve::board::Keeper;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tonic_health::ServingStatus;

/// The service without a name: all of this process.
pub(super) const OVERALL: &str = "";

/// The statuses by service. The services are known from the start.
#[derive(Debug)]
pub(in crate::serve) struct Statuses {
    services: BTreeMap<String, watch::Sender<ServingStatus>>,
    /// What runs when somebody asks for a service.
    demands: BTreeMap<String, Box<[Demand]>>,
}

impl Statuses {
    /// The services of a configuration, each as its endpoint is and will be. gRPC knows two answers, and serving is what the same
    /// endpoint answers by HTTP with a code that says so.
    pub(in crate::serve) fn follow(config: &Config, keeper: &Keeper) -> Arc<Self> {
        let overall = (OVERALL.to_owned(), config.grpc.overall);
        let endpoints: Vec<(String, usize)> = config.grpc.services.iter().cloned().chain([overall]).collect();
        let mut statuses = Self::new(endpoints.iter().map(|(service, _)| service.as_str()));
        let demands = endpoints.iter().map(|(service, at)| (service.clone(), keeper.demands_of(*at)));
        statuses.demands = demands.filter(|(_, demands)| !demands.is_empty()).collect();
        let statuses = Arc::new(statuses);
        let follower = Arc::clone(&statuses);
        keeper.follow(move |serving| {
            for (service, endpoint) in &endpoints {
                follower.set(
                    service,
                    match serving.serves(*endpoint) {
                        true => ServingStatus::Serving,
                        false => ServingStatus::NotServing,
                    },
                );
            }
        });
        statuses
    }

    /// Services of these names, none of which is known to serve.
    pub(super) fn new<'a>(services: impl Iterator<Item = &'a str>) -> Self {
        let unknown = |service: &str| (service.to_owned(), watch::Sender::new(ServingStatus::NotServing));
        Self { services: services.map(unknown).collect(), demands: BTreeMap::new() }
    }

    /// Tells all who watch, if it is something new. A service that is not known is nobody's to watch.
    pub(super) fn set(&self, service: &str, status: ServingStatus) {
        if let Some(sender) = self.services.get(service) {
            sender.send_if_modified(|now| core::mem::replace(now, status) != status);
        }
    }

    pub(super) fn get(&self, service: &str) -> Option<ServingStatus> {
        self.ask(service);
        self.services.get(service).map(|sender| *sender.borrow())
    }

    /// Has run what runs when somebody asks.
    pub(super) fn ask(&self, service: &str) {
        self.demands.get(service).into_iter().flatten().for_each(Demand::ask);
    }

    /// Whether anything does.
    pub(super) fn is_on_demand(&self, service: &str) -> bool {
        self.demands.contains_key(service)
    }

    /// The status now and every later one; who is slow misses those in between.
    pub(super) fn watch(&self, service: &str) -> Option<watch::Receiver<ServingStatus>> {
        self.services.get(service).map(watch::Sender::subscribe)
    }

    /// All of them, for somebody who asks for all.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = (&str, ServingStatus)> {
        self.services.keys().for_each(|service| self.ask(service));
        self.services.iter().map(|(service, sender)| (service.as_str(), *sender.borrow()))
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

    #[test]
    fn each_service_follows_its_endpoint() {
        let config = config(
            "[listener.a]\nbind = \":8080\"\nhttp2 = true\n[health.cart]\ninitial = \"down\"\n\
             [grpc]\nservices = { \"shop.Cart\" = \"cart\", \"shop.Orders\" = \"readyz\", alive = \"livez\" }\n",
        );
        let keeper = Keeper::build(&config).unwrap();
        let statuses = Statuses::follow(&config, &keeper);
        let now = |expected: [ServingStatus; 4]| {
            let names = ["", "alive", "shop.Cart", "shop.Orders"];
            let expected: Vec<_> = names.into_iter().zip(expected).collect();
            assert_eq!(statuses.all().collect::<Vec<_>>(), expected);
        };
        let (yes, no) = (ServingStatus::Serving, ServingStatus::NotServing);
        now([yes, yes, no, yes]);
        let watched = statuses.watch("shop.Orders").unwrap();
        assert!(!watched.has_changed().unwrap() && statuses.watch("shop.Other").is_none());
        keeper.drain(true);
        now([no, yes, no, no]);
        assert!(watched.has_changed().unwrap());
    }

    #[test]
    fn only_news_wake_who_watches() {
        let statuses = Statuses::new(["a"].into_iter());
        let mut watched = statuses.watch("a").unwrap();
        statuses.set("a", ServingStatus::NotServing);
        statuses.set("b", ServingStatus::Serving);
        assert!(!watched.has_changed().unwrap());
        statuses.set("a", ServingStatus::Serving);
        assert_eq!(*watched.borrow_and_update(), ServingStatus::Serving);
        assert_eq!((statuses.get("a"), statuses.get("b")), (Some(ServingStatus::Serving), None));
    }
}
