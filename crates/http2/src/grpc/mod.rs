//! gRPC: serves the health service only.
//!
//! Every other method gets UNIMPLEMENTED, code 12. By default, an AWS load balancer treats code 12
//! as healthy at [`ALB_PATH`]. Unless [`GrpcOptions::always_healthy_for_alb`] is set, the reply to
//! this path has code 12 only while the service without a name is serving.

mod call;
mod refusal;
mod watches;

use super::body::ReplyBody;
use super::common::Common;
use super::counting_stream::Account;
use bytes::Bytes;
pub(super) use call::Call;
pub use call::GrpcAdmission;
use doorbell::http::prober::Prober;
use doorbell_grpc::{ALB_PATH, ClientAddr, GrpcHealth, Statuses, prober_of};
use doorbell_probes::Registry;
use http_body::Body;
use hyper::{Method, Request, Response, header};
pub(super) use refusal::Refusal;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::Status;
use tonic::codegen::{Service, StdError};
use watches::Watches;

/// The content type of gRPC.
const GRPC: &str = "application/grpc";

/// Prefix of the paths of all methods of the health service.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Options of health by gRPC.
#[derive(Clone, Debug)]
pub struct GrpcOptions {
    /// Services and the positions of their endpoints in the registry. The service without a name is
    /// [`doorbell_grpc::OVERALL`].
    pub services: Vec<(String, usize)>,
    /// Maximum number of concurrent Watch streams.
    pub watches_max: u32,
    /// Maximum number of concurrent Watch streams of a connection.
    pub watches_per_conn_max: u32,
    /// Whether the reply to the default health check of an AWS load balancer has code 12 even while
    /// the service without a name is not serving.
    pub always_healthy_for_alb: bool,
}

/// Serves gRPC requests.
#[derive(Clone, Debug)]
pub(super) struct GrpcService {
    health: GrpcHealth,
    always_healthy_for_alb: bool,
}

/// Whether a request is a gRPC request.
pub fn is_grpc(content_type: &[u8], is_post: bool, path: &str) -> bool {
    // Accepts `application/grpc+proto`, but not `application/grpc-web`.
    let rest = content_type.strip_prefix(GRPC.as_bytes());
    let is_content = rest.is_some_and(|rest| rest.first().is_none_or(|next| b"+; ".contains(next)));
    is_content || (is_post && path == ALB_PATH)
}

/// Whether a request of hyper is a gRPC request (see [`is_grpc`]).
pub(super) fn is_grpc_request<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.map_or(&b""[..], header::HeaderValue::as_bytes);
    is_grpc(content_type, request.method() == Method::POST, request.uri().path())
}

impl GrpcService {
    pub(super) fn new(
        options: GrpcOptions,
        registry: &Registry,
        common: &Common,
        ends: watch::Receiver<bool>,
    ) -> Self {
        let watches = Watches::new(common, &options);
        let statuses = Statuses::follow(options.services, registry);
        let health = GrpcHealth::new(statuses, Arc::new(watches), ends);
        Self { health, always_healthy_for_alb: options.always_healthy_for_alb }
    }

    /// The status for an AWS application load balancer, which treats code 12 as healthy by default.
    fn alb_status(&self, prober: Option<Prober>) -> Status {
        // Also counts the probe.
        let is_serving = self.health.is_serving(prober);
        if self.always_healthy_for_alb || is_serving {
            Status::unimplemented("unknown method")
        } else {
            Status::unavailable("not serving")
        }
    }

    /// Serves an admitted call; `account` and `addr` are those of its connection.
    pub(super) async fn serve_call<B>(
        mut self,
        mut request: Request<B>,
        mut call: Call,
        account: Account,
        addr: Option<IpAddr>,
    ) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        let path = request.uri().path();
        let response = if path.starts_with(HEALTH) {
            request.extensions_mut().insert(account);
            addr.map(|addr| request.extensions_mut().insert(ClientAddr(addr)));
            match self.health.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        } else if path == ALB_PATH {
            let user_agent = request.headers().get(header::USER_AGENT).map(header::HeaderValue::as_bytes);
            self.alb_status(prober_of(user_agent, addr)).into_http()
        } else {
            Status::unimplemented("unknown service").into_http()
        };
        call.begin(
            doorbell::http::Status::new(response.status().as_u16()).unwrap_or(doorbell::http::Status::OK),
        );
        response.map(|body| ReplyBody::Grpc(body, Some(call)))
    }
}
