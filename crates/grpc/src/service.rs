//! The service for tonic: Check, Watch and List over [`Statuses`].

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use doorbell::http::prober::Prober;
use futures_util::stream::Stream;
use tokio::sync::watch;
use tonic::codegen::{Body, Service, StdError};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_prost::ProstCodec;

use crate::statuses::{OVERALL, Statuses};
use crate::watch::{AdmitWatch, WatchCall, response};

/// Maximum size of a request; it only contains a name.
const REQUEST_LEN_MAX: usize = 4096;

/// Maximum size of a response; the response of `List` is the largest.
const RESPONSE_LEN_MAX: usize = 1 << 20;

/// Maximum number of services in a list (grpc/health/v1/health.proto).
const LIST_MAX: usize = 100;

/// The address of the client, as an extension of a request. It identifies load balancers whose
/// user agent names only their gRPC library. With the feature `server`, the peer address that
/// tonic's server reports is used for requests without this extension.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddr(pub IpAddr);

/// The service `grpc.health.v1.Health`. Cheap to clone; clones share one state.
#[derive(Clone, Debug)]
pub struct GrpcHealth {
    methods: Methods,
    server: HealthServer<Methods>,
}

#[derive(Clone, Debug)]
struct Methods(Arc<ServiceInner>);

#[derive(Debug)]
struct ServiceInner {
    statuses: Arc<Statuses>,
    watches: Arc<dyn AdmitWatch>,
    ends: watch::Receiver<bool>,
}

/// The request of `List`, which tonic-health does not have yet.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct ListRequest {}

/// The response of `List`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct ListResponse {
    #[prost(btree_map = "string, message", tag = "1")]
    statuses: BTreeMap<String, HealthCheckResponse>,
}

impl GrpcHealth {
    /// Serves `statuses`. Watch streams are admitted by `watches`; they end when `ends` becomes
    /// true.
    pub fn new(statuses: Arc<Statuses>, watches: Arc<dyn AdmitWatch>, ends: watch::Receiver<bool>) -> Self {
        let methods = Methods(Arc::new(ServiceInner { statuses, watches, ends }));
        let server = HealthServer::new(methods.clone())
            .max_decoding_message_size(REQUEST_LEN_MAX)
            .max_encoding_message_size(RESPONSE_LEN_MAX);
        Self { methods, server }
    }

    /// Whether the service without a name is SERVING for a prober. Counts as a probe.
    pub fn is_serving(&self, prober: Option<Prober>) -> bool {
        self.methods.0.statuses.get(OVERALL, prober) == Some(ServingStatus::Serving)
    }
}

/// Detects the prober by its user agent or its address; many gRPC clients send only the name of
/// their library.
#[must_use]
pub fn prober_of(user_agent: Option<&[u8]>, addr: Option<IpAddr>) -> Option<Prober> {
    user_agent.and_then(Prober::of_user_agent).or_else(|| addr.and_then(Prober::of_source))
}

/// The prober of a request.
fn prober_of_request<T>(request: &Request<T>) -> Option<Prober> {
    let user_agent = request.metadata().get("user-agent").map(|value| value.as_bytes());
    let addr = request.extensions().get().map(|ClientAddr(addr)| *addr);
    #[cfg(feature = "server")]
    let addr = addr.or_else(|| request.remote_addr().map(|addr| addr.ip().to_canonical()));
    prober_of(user_agent, addr)
}

impl NamedService for GrpcHealth {
    const NAME: &'static str = "grpc.health.v1.Health";
}

impl<B> Service<http::Request<B>> for GrpcHealth
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    B::Data: Send,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        if request.uri().path() != "/grpc.health.v1.Health/List" {
            return self.server.call(request);
        }
        let list = self.methods.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<ListResponse, ListRequest>::default())
                .max_decoding_message_size(REQUEST_LEN_MAX)
                .max_encoding_message_size(RESPONSE_LEN_MAX);
            Ok(grpc.unary(list, request).await)
        })
    }
}

impl UnaryService<ListRequest> for Methods {
    type Response = ListResponse;
    type Future = Ready<Result<Response<ListResponse>, Status>>;

    fn call(&mut self, request: Request<ListRequest>) -> Self::Future {
        let statuses = &self.0.statuses;
        if statuses.len() > LIST_MAX {
            return ready(Err(Status::resource_exhausted(format!("more than {LIST_MAX} services"))));
        }
        let all = statuses.all(prober_of_request(&request));
        let statuses = all.map(|(name, status)| (name.to_owned(), response(status))).collect();
        ready(Ok(Response::new(ListResponse { statuses })))
    }
}

#[tonic::async_trait]
impl Health for Methods {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match self.0.statuses.get(&request.get_ref().service, prober_of_request(&request)) {
            Some(status) => Ok(Response::new(response(status))),
            None => Err(Status::not_found("unknown service")),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let permit = self.0.watches.admit(request.extensions())?;
        let prober = prober_of_request(&request);
        let service = request.into_inner().service;
        let statuses = &self.0.statuses;
        let watching = WatchCall {
            status: statuses.watch(&service, prober),
            asks: statuses.is_on_demand(&service).then(|| (Arc::clone(statuses), service)),
            ends: self.0.ends.clone(),
            _permit: permit,
        };
        Ok(Response::new(Box::pin(watching.responses())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(
                prober_of(user_agent.map(str::as_bytes), addr),
                expect,
                "{user_agent:?} from {addr:?}"
            );
        }
    }
}
