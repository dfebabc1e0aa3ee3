//! A call on a new connection: `Check` or a long-lived `Watch` of `grpc.health.v1.Health`, or
//! another unary method.

use crate::connect::dialer::Dialer;
use crate::finding::{CUT, Issue, Verdict, at_most};
use crate::kinds::channel::Channel;
use crate::kinds::exchange::{Stream, drive_http2, field, http2, is_cut_http2};
use crate::kinds::expectations::in_time;
use crate::kinds::first_bytes::{FirstBytes, HTTP1, recording};
use crate::kinds::materials::Materials;
use crate::kinds::session::{Security, Session};
use crate::kinds::traceparent::{TRACEPARENT, Unsampled};
use crate::kinds::unary::Unary;
use crate::kinds::watch::Watch;
use crate::options::{Address, GrpcCheck, GrpcMode};
use crate::progress::Progress;
use crate::scheduler::run_requests::ChangeNotice;
use bytes::Bytes;
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue, USER_AGENT};
use hyper_util::rt::TokioIo;
use std::pin::pin;
use std::sync::Arc;
use tokio::time::Instant;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Maximum length of a response message. The response of a health check contains only a number.
pub(super) const MESSAGE_LEN_MAX: usize = 4096;

/// Maximum size of header lists.
const HEADER_LIST_MAX: u32 = 16 << 10;

/// Maximum length of the server's error message in a reason.
const MESSAGE_SHOWN_MAX: usize = 128;

/// Checks one service or method.
#[derive(Debug)]
pub(crate) struct GrpcRunner {
    check: GrpcCheck,
    dialer: Dialer,
    security: Option<Security>,
    origin: Uri,
    /// Header fields that are added to each call.
    fields: Arc<[(HeaderName, HeaderValue)]>,
    traces: Option<Unsampled>,
    /// The method to call instead of the methods of `grpc.health.v1.Health`.
    unary: Option<Unary>,
    /// State of watch mode.
    watch: Watch,
}

impl GrpcRunner {
    pub(crate) fn build(check: &GrpcCheck, with: &mut Materials<'_>) -> Result<Self, String> {
        let dialer = with.dialer(&check.address, check.resolve);
        let security = Security::build(check.tls.as_ref(), check.address.host(), &["h2"], with)?;
        let scheme = if security.is_some() { "https" } else { "http" };
        let authority = match &check.address {
            _ if check.authority.is_some() => check.authority.clone().unwrap_or_default(),
            Address::Tcp(at) => at.to_string(),
            Address::Unix(_) => check.address.host().to_owned(),
        };
        let origin = format!("{scheme}://{authority}");
        let origin = origin.parse().map_err(|_| format!("{origin} is not a server address"))?;
        let given = |name: &str| check.metadata.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let traces = (check.traceparent && !given(TRACEPARENT)).then(Unsampled::default);
        let (fields, unary) = (fields_of(check, given)?, Unary::build(check)?);
        let (check, watch) = (check.clone(), Watch::new(with.pace));
        Ok(Self { check, dialer, security, origin, fields, traces, unary, watch })
    }

    /// Sets the [`ChangeNotice`] through which a watch reports a changed status.
    pub(crate) fn notify_changes(&self, notice: ChangeNotice) {
        self.watch.notify_changes(notice);
    }

    pub(crate) const fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    pub(crate) async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let known = match self.check.mode {
            GrpcMode::Check => None,
            GrpcMode::Watch => self.watch.known(|| self.request(self.health()), progress).await,
        };
        let answer = match known {
            Some(status) => Ok(status.into()),
            None => self.connect_and_call(progress).await?,
        };
        let latency = start.elapsed();
        progress.see(|seen| {
            seen.grpc_status = Some(answer.as_ref().map_or_else(|status| status.code() as i32, |_| 0));
            let serving = answer.as_ref().ok().and_then(|answer| answer.serving);
            seen.serving_status = serving.map(|status| status.as_str_name());
        });
        match &self.unary {
            Some(unary) => unary.evaluate(answer.map(|answer| answer.message))?,
            None => evaluate(answer.map(|answer| answer.serving))?,
        }
        in_time(latency, self.check.latency)
    }

    async fn connect_and_call(&self, progress: &Progress) -> Result<Result<CallResponse, Status>, Issue> {
        let mut conn = self.dialer.connect(progress).await?;
        // In HTTP/2 the client closes first. It closes with FIN, because a reset would look like a
        // fault.
        conn.close_with_fin();
        let session = Session::begin(conn, self.security.as_ref(), progress).await?;
        Ok(self.call(session).await)
    }

    fn health(&self) -> HealthCheckRequest {
        HealthCheckRequest { service: self.check.service.clone() }
    }

    fn request<M>(&self, message: M) -> tonic::Request<M> {
        let mut request = tonic::Request::new(message);
        if let Some(traces) = &self.traces
            && let Ok(value) = MetadataValue::try_from(&traces.next()[..])
        {
            request.metadata_mut().insert(TRACEPARENT, value);
        }
        request
    }

    async fn call(&self, session: Session) -> Result<CallResponse, Status> {
        let first = FirstBytes::default();
        let called = self.call_over(recording(session, &first)).await;
        called.map_err(|status| if first.is_http1() { Status::unavailable(HTTP1) } else { status })
    }

    async fn call_over(&self, stream: impl Stream) -> Result<CallResponse, Status> {
        let begun = http2(HEADER_LIST_MAX).handshake(TokioIo::new(stream));
        let (sender, conn) = begun.await.map_err(|error| broken(&error))?;
        let channel = Channel(sender, Arc::clone(&self.fields));
        if self.check.mode == GrpcMode::Watch {
            let client = self.health_client(channel);
            return self.watch.begin(client, self.request(self.health()), conn).await.map(CallResponse::from);
        }
        match drive_http2(Box::pin(conn), pin!(self.call_on(channel))).await {
            (Err(status), Some(error)) if status.code() == Code::Cancelled => Err(broken(&error)),
            (done, _) => done,
        }
    }

    fn health_client(&self, channel: Channel) -> HealthClient<Channel> {
        let client = HealthClient::with_origin(channel, self.origin.clone());
        client.max_decoding_message_size(MESSAGE_LEN_MAX)
    }

    /// Makes one call that is not a watch.
    async fn call_on(&self, channel: Channel) -> Result<CallResponse, Status> {
        match &self.unary {
            Some(unary) => {
                let request = self.request(unary.message());
                let message = unary.call(channel, self.origin.clone(), request).await?;
                Ok(CallResponse { serving: None, message })
            }
            None => {
                let response = self.health_client(channel).check(self.request(self.health())).await?;
                Ok(response.into_inner().status().into())
            }
        }
    }
}

/// The content of a response.
#[derive(Debug)]
struct CallResponse {
    /// The status in a message of `grpc.health.v1`.
    serving: Option<ServingStatus>,
    /// The message of another method.
    message: Bytes,
}

impl From<ServingStatus> for CallResponse {
    fn from(status: ServingStatus) -> Self {
        Self { serving: Some(status), message: Bytes::new() }
    }
}

fn evaluate(response: Result<Option<ServingStatus>, Status>) -> Verdict {
    match response.map_err(|status| refused(&status))?.unwrap_or_default() {
        ServingStatus::Serving => Ok(()),
        ServingStatus::ServiceUnknown => Err(Issue::failure(UNKNOWN)),
        other => Err(Issue::failure(other.as_str_name())),
    }
}

/// Reason of a check whose service the server does not know.
pub const UNKNOWN: &str = "the server does not know this service";

/// The reason of a health check that ends with an error status.
fn refused(status: &Status) -> Issue {
    match status.code() {
        Code::NotFound => Issue::failure(UNKNOWN),
        Code::Unimplemented => Issue::failure("the server has no grpc.health.v1"),
        _ => Issue::failure(refused_by(status)),
    }
}

/// The message of hyper if a connection ends within a response.
const READING: &str = "error reading a body from connection";

/// Describes a status: its code, and the message of the server or the cause.
pub(super) fn refused_by(status: &Status) -> String {
    let message = status.message();
    // tonic and hyper use these messages for errors of a lower layer; only the `source()` chain
    // contains the cause.
    let message = match message.strip_prefix("h2 protocol error: ").unwrap_or(message) {
        READING | "http2 error" | "transport error" => root_cause(status),
        _ => message.to_owned(),
    };
    format!("{:?}: {}", status.code(), at_most(&message, MESSAGE_SHOWN_MAX))
}

/// The last error in the `source()` chain.
fn root_cause(status: &Status) -> String {
    let causes = std::iter::successors(std::error::Error::source(status), |error| error.source());
    let cause = causes.last().map_or_else(|| status.message().to_owned(), ToString::to_string);
    if is_cut_http2(&cause) || cause.ends_with(READING) { CUT.to_owned() } else { cause }
}

fn broken(error: &hyper::Error) -> Status {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    Status::unavailable(cause)
}

/// The user agent and the configured metadata. A configured `user-agent` replaces the default one.
fn fields_of(
    check: &GrpcCheck,
    given: impl Fn(&str) -> bool,
) -> Result<Arc<[(HeaderName, HeaderValue)]>, String> {
    let agent = check.user_agent.filter(|_| !given(USER_AGENT.as_str()));
    let agent = agent.map(|agent| (USER_AGENT, HeaderValue::from_static(agent)));
    let metadata = check.metadata.iter().map(field);
    agent.into_iter().map(Ok).chain(metadata).collect()
}
