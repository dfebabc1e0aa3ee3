//! gRPC: serves the health service only.
//!
//! Does not know about: routes, except for their results; frames.
//!
//! Every other method gets UNIMPLEMENTED, code 12. An AWS load balancer by default treats code 12
//! as healthy at `/AWS.ALB/healthcheck`, so this path gets the code only while the service without
//! a name is serving.

mod call;
mod health;
mod refusal;
mod statuses;

use super::body::ReplyBody;
use super::common::Common;
use super::counting_stream::Account;
use crate::config::model::{AlbAnswer, Grpc};
use bytes::Bytes;
pub(super) use call::Call;
pub(crate) use call::GoOn;
use health::{By, HealthService, ListRequest, ListResponse, prober_of};
use http_body::Body;
use hyper::{Method, Request, Response, header};
pub(super) use refusal::Refusal;
pub(crate) use statuses::Statuses;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::Status;
use tonic::codegen::{Service, StdError};
use tonic::server::UnaryService;
use tonic_health::pb::health_server::HealthServer;
use tonic_prost::ProstCodec;

/// The content type of gRPC.
const GRPC: &str = "application/grpc";

/// The path of every method of the service.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Maximum size of a message; a health request only contains a name.
const MESSAGE_LEN_MAX: usize = 4096;

/// Serves gRPC requests.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    health: HealthService,
    server: HealthServer<HealthService>,
    alb: AlbAnswer,
}

/// Whether a request is a gRPC request.
pub(crate) fn is_grpc(content_type: &[u8], is_post: bool, path: &str) -> bool {
    // Accepts `application/grpc+proto`, but not `application/grpc-web`.
    let rest = content_type.strip_prefix(GRPC.as_bytes());
    let is_content = rest.is_some_and(|rest| rest.first().is_none_or(|next| b"+; ".contains(next)));
    is_content || (is_post && path == Grpc::ALB_PATH)
}

/// Same as [`is_grpc`], for a request of hyper.
pub(super) fn asks_by_grpc<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.map_or(&b""[..], header::HeaderValue::as_bytes);
    is_grpc(content_type, request.method() == Method::POST, request.uri().path())
}

impl Answers {
    pub(super) fn new(
        statuses: Arc<Statuses>,
        common: &Common,
        ends: watch::Receiver<bool>,
        grpc: &Grpc,
    ) -> Self {
        let health = HealthService::new(statuses, common, ends, grpc);
        let server = HealthServer::new(health.clone())
            .max_decoding_message_size(MESSAGE_LEN_MAX)
            .max_encoding_message_size(1 << 20);
        Self { health, server, alb: grpc.alb }
    }

    /// Serves an admitted call on the connection with this account, from this address.
    pub(super) async fn answer<B>(
        mut self,
        mut request: Request<B>,
        mut call: Call,
        account: Account,
        addr: Option<IpAddr>,
    ) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError> + Send,
    {
        let user_agent = request.headers().get(header::USER_AGENT).map(header::HeaderValue::as_bytes);
        let by = By::of(user_agent, addr);
        request.extensions_mut().insert(by);
        let response = match request.uri().path().strip_prefix(HEALTH) {
            Some("List") => {
                let mut grpc = tonic::server::Grpc::new(ProstCodec::<ListResponse, ListRequest>::default())
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
            None if request.uri().path() == Grpc::ALB_PATH => {
                self.health.tell_alb(self.alb, by.0).into_http()
            }
            None => Status::unimplemented("unknown service").into_http(),
        };
        call.begin(crate::http::Status::new(response.status().as_u16()).unwrap_or(crate::http::Status::OK));
        response.map(|body| ReplyBody::Grpc(body, Some(call)))
    }
}

/// `List` as a method for tonic.
struct List(HealthService);

impl UnaryService<ListRequest> for List {
    type Response = ListResponse;
    type Future = Ready<Result<tonic::Response<ListResponse>, Status>>;

    fn call(&mut self, request: tonic::Request<ListRequest>) -> Self::Future {
        ready(self.0.list(prober_of(&request)).map(tonic::Response::new))
    }
}
