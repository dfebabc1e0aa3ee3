//! `grpc.health.v1.Health`: Check, Watch and List over [`Statuses`].
//!
//! Does not know about: connections, except for the account in each request; the encoding of
//! messages.

use super::statuses::{OVERALL, Statuses, Watched};
use crate::config::model::{AlbAnswer, Grpc};
use crate::http::prober::Prober;
use crate::http2::common::Common;
use crate::http2::counters::{Counters, count};
use crate::http2::counting_stream::Account;
use futures_util::stream::{Stream, unfold};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// Maximum number of services in a list (grpc/health/v1/health.proto).
const LIST_MAX: usize = 100;

/// Interval at which an open Watch requests on-demand checks. A check with a fresh result does not
/// run again.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The service for the calls of all connections.
#[derive(Clone, Debug)]
pub(super) struct HealthService(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    statuses: Arc<Statuses>,
    counters: Arc<Counters>,
    /// True when Watch streams must end.
    ends: watch::Receiver<bool>,
    watches: Arc<AtomicU32>,
    watches_max: u32,
    watches_per_conn_max: u32,
}

/// The request of `List`, which tonic-health does not have yet.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct ListRequest {}

/// The response of `List`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ListResponse {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) statuses: BTreeMap<String, HealthCheckResponse>,
}

/// A permit among the Watch streams of the process and of the connection.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    account: Account,
}

/// One Watch stream.
struct Watching {
    /// `None` for an unknown service.
    status: Option<Watched>,
    /// The statuses and the name of the service, if the service has on-demand checks.
    asks: Option<(Arc<Statuses>, String)>,
    /// The last sent status.
    sent: Option<ServingStatus>,
    ends: watch::Receiver<bool>,
    over: bool,
    _place: Place,
}

impl HealthService {
    pub(super) fn new(
        statuses: Arc<Statuses>,
        common: &Common,
        ends: watch::Receiver<bool>,
        grpc: &Grpc,
    ) -> Self {
        Self(Arc::new(Shared {
            statuses,
            counters: Arc::clone(common.counters()),
            ends,
            watches: Arc::clone(common.watches()),
            watches_max: grpc.max_watches,
            watches_per_conn_max: grpc.watches_per_connection,
        }))
    }

    pub(super) fn list(&self, prober: Option<Prober>) -> Result<ListResponse, Status> {
        let statuses = &self.0.statuses;
        if statuses.len() > LIST_MAX {
            return Err(Status::resource_exhausted(format!("more than {LIST_MAX} services")));
        }
        let all = statuses.all(prober);
        Ok(ListResponse { statuses: all.map(|(name, status)| (name.to_owned(), reply(status))).collect() })
    }

    /// The status for an AWS application load balancer, which treats code 12 as healthy by default.
    pub(super) fn tell_alb(&self, answer: AlbAnswer, prober: Option<Prober>) -> Status {
        match (self.0.statuses.get(OVERALL, prober), answer) {
            (Some(ServingStatus::Serving), _) | (_, AlbAnswer::Always) => Status::unimplemented("well"),
            (_, AlbAnswer::Verdict) => Status::unavailable("not serving"),
        }
    }

    fn enter(&self, account: Account) -> Result<Place, Status> {
        let shared = &self.0;
        let refuse = |what: &'static str| {
            count(&shared.counters.watches);
            Err(Status::resource_exhausted(what))
        };
        if account.lock().limits.waiting() >= shared.watches_per_conn_max {
            return refuse("too many Watch streams on this connection");
        }
        // Counted before the limit is checked: dropping the permit reverts both counters.
        account.lock().limits.waits(true);
        let before = shared.watches.fetch_add(1, Ordering::Relaxed);
        let place = Place { shared: Arc::clone(shared), account };
        if before >= shared.watches_max {
            return refuse("too many Watch streams");
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.account.lock().limits.waits(false);
        self.shared.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

const fn reply(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

/// The prober, if it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct By(pub(super) Option<Prober>);

impl By {
    /// Detects the prober by its user agent or its address; many gRPC clients send only the name of
    /// their library.
    pub(super) fn of(user_agent: Option<&[u8]>, addr: Option<IpAddr>) -> Self {
        Self(user_agent.and_then(Prober::of_user_agent).or_else(|| addr.and_then(Prober::of_source)))
    }
}

pub(super) fn prober_of<T>(request: &Request<T>) -> Option<Prober> {
    request.extensions().get::<By>().and_then(|by| by.0)
}

/// `SERVICE_UNKNOWN`, which only Watch sends.
const UNKNOWN: HealthCheckResponse = HealthCheckResponse { status: 3 };

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match self.0.statuses.get(&request.get_ref().service, prober_of(&request)) {
            Some(status) => Ok(Response::new(reply(status))),
            None => Err(Status::not_found("unknown service")),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let account = request.extensions().get::<Account>().cloned();
        let account = account.ok_or_else(|| Status::internal("request without a connection"))?;
        let place = self.enter(account)?;
        let prober = prober_of(&request);
        let service = request.into_inner().service;
        let statuses = &self.0.statuses;
        let watching = Watching {
            status: statuses.watch(&service, prober),
            asks: statuses.is_on_demand(&service).then(|| (Arc::clone(statuses), service)),
            sent: None,
            ends: self.0.ends.clone(),
            over: false,
            _place: place,
        };
        Ok(Response::new(Box::pin(unfold(watching, Watching::next))))
    }
}

impl Watching {
    async fn next(mut self) -> Option<(Result<HealthCheckResponse, Status>, Self)> {
        if self.over {
            return None;
        }
        match self.news().await {
            Some(news) => Some((Ok(news), self)),
            None => {
                self.over = true;
                Some((Err(Status::unavailable("the server is shutting down")), self))
            }
        }
    }

    /// Waits for the next response; `None` at the end, after the last change.
    async fn news(&mut self) -> Option<HealthCheckResponse> {
        let Self { status, asks, sent, ends, .. } = self;
        let Some(status) = status else {
            if sent.replace(ServingStatus::Unknown).is_none() {
                return Some(UNKNOWN);
            }
            let _ended = ends.wait_for(|ends| *ends).await;
            return None;
        };
        loop {
            let now = status.status();
            if sent.replace(now) != Some(now) {
                return Some(reply(now));
            }
            let ask_again = async {
                match asks {
                    Some((statuses, service)) => {
                        statuses.ask(service);
                        sleep(ASK_EVERY).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = status.changed() => changed?,
                () = ask_again => {}
                _ended = ends.wait_for(|ends| *ends) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Source, parse};
    use crate::http2::flood_limits::{Budget, FloodLimits};
    use crate::registry::HealthRegistry;

    #[test]
    fn probers_are_known_by_name_or_else_by_address() {
        let (google, stranger) = ("35.191.1.2".parse().unwrap(), "192.0.2.1".parse().unwrap());
        for (user_agent, addr, expect) in [
            (Some("kube-probe/1.34 grpc-go/1.72.1"), Some(google), Some(Prober::Kubelet)),
            (Some("grpc-c++/1.60"), Some(google), Some(Prober::Google)),
            (None, Some(google), Some(Prober::Google)),
            (Some("grpc-c++/1.60"), Some(stranger), None),
            (Some("grpc-c++/1.60"), None, None),
            (None, None, None),
        ] {
            assert_eq!(By::of(user_agent.map(str::as_bytes), addr).0, expect, "{user_agent:?} from {addr:?}");
        }
    }

    #[test]
    fn streams_of_all_generations_are_counted_together() {
        let text = "version = 1\n[grpc]\nmax_watches = 2\n".to_owned();
        let config = parse(&Source { name: "f".to_owned(), text }, &|_| None).config.unwrap();
        let registry = HealthRegistry::build(&config).unwrap();
        let (common, (_ends, ended)) = (Common::default(), watch::channel(false));
        let service = || {
            let statuses = Statuses::follow(&config, &registry);
            HealthService::new(statuses, &common, ended.clone(), &config.grpc)
        };
        let account = || Account::new(FloodLimits::new(Budget::default(), crate::http::Time::ZERO));
        let (before, after) = (service(), service());
        let (first, second) = (before.enter(account()).unwrap(), after.enter(account()).unwrap());
        assert!(before.enter(account()).is_err() && after.enter(account()).is_err());
        assert_eq!(common.watches().load(Ordering::Relaxed), 2, "a refused stream takes no permit");
        drop(first);
        drop(before);
        let third = after.enter(account()).unwrap();
        drop((second, third));
        assert_eq!(common.watches().load(Ordering::Relaxed), 0);
    }
}
