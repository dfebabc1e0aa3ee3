//! One call of `grpc.health.v1.Health/Check` on a connection of its own.
//!
//! Does not know about: what a service does beyond saying how it is.

use super::dial::Dialer;
use super::judge::too_slow;
use super::tls::{Tls, TlsPool, handshake};
use super::{Complaint, Progress, Stage, Verdict};
use crate::config::model::{ClientTls, GrpcCheck};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Bytes of a message; the answer is a number.
const MESSAGE_LEN_MAX: usize = 4096;

/// Bytes of fields, of a frame, and of what a server may send before it is read.
const HEADER_LIST_MAX: u32 = 16 << 10;
const FRAME_MAX: u32 = 16 << 10;
const WINDOW: u32 = 64 << 10;

/// Bytes of a server's own words that are kept.
const MESSAGE_SHOWN_MAX: usize = 128;

/// Asks one service.
#[derive(Debug)]
pub(super) struct GrpcAsk {
    check: GrpcCheck,
    dialer: Dialer,
    tls: Tls,
    origin: Uri,
}

impl GrpcAsk {
    pub(super) fn build(check: &GrpcCheck, dialer: Dialer, pool: &mut TlsPool) -> Result<Self, String> {
        let (scheme, tls) = match &check.tls {
            Some(tls) => ("https", pool.take(tls, "h2", true)?),
            None => ("http", Tls::None),
        };
        let origin = format!("{scheme}://{}", check.address);
        let origin = origin.parse().map_err(|_| format!("{origin} is no address of a server"))?;
        Ok(Self { check: check.clone(), dialer, tls, origin })
    }

    pub(super) async fn ask(&self, progress: &Progress, start: Instant) -> Verdict {
        let stream = self.dialer.connect(progress).await?;
        let answer = match &self.check.tls {
            Some(ClientTls { server_name, .. }) => {
                progress.enter(Stage::Handshake);
                let name = server_name.as_deref().unwrap_or(&self.check.address.host);
                let stream = handshake(&self.tls, name, stream).await?;
                progress.enter(Stage::Answer);
                self.call(stream).await
            }
            None => {
                progress.enter(Stage::Answer);
                self.call(stream).await
            }
        };
        let latency = start.elapsed();
        match answer {
            Ok(ServingStatus::Serving) => {}
            Ok(other) => return Err(Complaint::failure(other.as_str_name())),
            Err(status) => return Err(refused(&status)),
        }
        too_slow(latency, self.check.max_latency).map_err(Complaint::failure)?;
        too_slow(latency, self.check.degraded_latency).map_err(Complaint::degraded)
    }

    async fn call<S>(&self, stream: S) -> Result<ServingStatus, Status>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME_MAX)
            .max_header_list_size(HEADER_LIST_MAX);
        let (sender, conn) = builder.handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        let mut conn = pin!(conn);
        let client = HealthClient::with_origin(Sender(sender), self.origin.clone());
        let mut client = client.max_decoding_message_size(MESSAGE_LEN_MAX);
        let request = HealthCheckRequest { service: self.check.service.clone() };
        let mut work = pin!(client.check(request));
        let reply = tokio::select! {
            done = &mut work => done,
            // What it has read is still to be taken; if it broke, the call says why.
            _ended = &mut conn => work.await,
        };
        Ok(reply?.into_inner().status())
    }
}

/// Why there is no answer, in words that lead on.
fn refused(status: &Status) -> Complaint {
    let said = status.message();
    let said = &said[..said.floor_char_boundary(MESSAGE_SHOWN_MAX)];
    match status.code() {
        Code::NotFound => Complaint::failure("the server does not know this service"),
        Code::Unimplemented => Complaint::failure("the server has no grpc.health.v1"),
        code => Complaint::failure(format!("{code:?}: {said}")),
    }
}

fn broken(error: &hyper::Error) -> Status {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    Status::unavailable(cause)
}

/// A connection as tonic wants a channel to be.
#[derive(Debug)]
struct Sender(http2::SendRequest<Body>);

impl Service<Request<Body>> for Sender {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
