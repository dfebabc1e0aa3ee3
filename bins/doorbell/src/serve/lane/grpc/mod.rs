//! What is asked by gRPC: health, and nothing else.
//!
//! Does not know about: routes, frames.
//!
//! Every other method is UNIMPLEMENTED, code 12: what an AWS load balancer expects of `/AWS.ALB/healthcheck` by default.

mod health;
mod statuses;

use super::body::ReplyBody;
use super::counters::Counters;
use super::metered::Account;
use crate::config::model::Grpc;
use bytes::Bytes;
use health::{HealthService, ListRequest, ListResponse};
use http_body::Body;
use hyper::{Method, Request, Response, header};
pub(in crate::serve) use statuses::Statuses;
use std::future::{Ready, ready};
use std::sync::Arc;
use tokio::sync::watch;
use tonic::Status;
use tonic::codegen::{Service, StdError};
use tonic::server::UnaryService;
use tonic_health::pb::health_server::HealthServer;
use tonic_prost::ProstCodec;

/// The path of every method of the service.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// What an AWS application load balancer asks for by default.
const ALB: &str = "/AWS.ALB/healthcheck";

/// Bytes of a message; a health request is a name.
const MESSAGE_LEN_MAX: usize = 4096;

/// Answers gRPC requests.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    health: HealthService,
    server: HealthServer<HealthService>,
}

/// Whether a request is for [`Answers`].
pub(super) fn is_grpc<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.map_or(&b""[..], header::HeaderValue::as_bytes);
    // `application/grpc+proto` too, but not `application/grpc-web`.
    let is_grpc = content_type
        .strip_prefix(b"application/grpc")
        .is_some_and(|rest| rest.first().is_none_or(|next| b"+; ".contains(next)));
    is_grpc || (request.method() == Method::POST && request.uri().path() == ALB)
}

impl Answers {
    pub(super) fn new(
        statuses: Arc<Statuses>,
        counters: Arc<Counters>,
        ends: watch::Receiver<bool>,
        grpc: &Grpc,
    ) -> Self {
        let health = HealthService::new(statuses, counters, ends, grpc);
        let server = HealthServer::new(health.clone())
            .max_decoding_message_size(MESSAGE_LEN_MAX)
            .max_encoding_message_size(1 << 20);
        Self { health, server }
    }

    /// Answers a request of the connection with this account. `may`: it has shown what the listener demands of its clients.
    pub(super) async fn answer<B>(
        mut self,
        mut request: Request<B>,
        account: Account,
        may: bool,
    ) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError> + Send,
    {
        let response = if !may {
            Status::unauthenticated("a client certificate is needed").into_http()
        } else {
            match request.uri().path().strip_prefix(HEALTH) {
                Some("List") => {
                    let mut grpc =
                        tonic::server::Grpc::new(ProstCodec::<ListResponse, ListRequest>::default())
                            .max_decoding_message_size(MESSAGE_LEN_MAX);
                    grpc.unary(List(self.health), request).await
                }
                Some(_) => {
                    request.extensions_mut().insert(account);
                    match self.server.call(request).await {
                        Ok(response) => response,
                        Err(never) => match never {},
                    }
                }
                None => Status::unimplemented("there is no such service").into_http(),
            }
        };
        response.map(ReplyBody::Grpc)
    }
}

/// `List` as tonic wants a method to be.
struct List(HealthService);

impl UnaryService<ListRequest> for List {
    type Response = ListResponse;
    type Future = Ready<Result<tonic::Response<ListResponse>, Status>>;

    fn call(&mut self, _request: tonic::Request<ListRequest>) -> Self::Future {
        ready(self.0.list().map(tonic::Response::new))
    }
}
