//! A call of `grpc.health.v1.Health` on a separate connection: one `Check`, or one long-lived
//! `Watch`.
//!
//! Does not know about: services other than health.

use crate::connect::dialer::Dialer;
use crate::connect::tls::{Tls, TlsPool, handshake};
use crate::finding::{Issue, Verdict, at_most};
use crate::kinds::channel::Channel;
use crate::kinds::expectations::in_time;
use crate::kinds::first_bytes::{FirstBytes, noting};
use crate::kinds::traceparent::{TRACEPARENT, Unsampled};
use crate::kinds::watch::Watch;
use crate::options::{Address, ClientTls, GrpcCheck, GrpcMode, Pace};
use crate::progress::{Progress, Stage};
use crate::scheduler::run_requests::ChangeNotice;
use hyper::Uri;
use hyper::client::conn::http2;
use hyper::header::{HeaderName, HeaderValue, USER_AGENT};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Maximum length of a message. The response contains only a number.
const MESSAGE_LEN_MAX: usize = 4096;

/// Maximum size of header lists and frames, and of the data a server may send before it is read.
const HEADER_LIST_MAX: u32 = 16 << 10;
const FRAME_MAX: u32 = 16 << 10;
const WINDOW: u32 = 64 << 10;

/// Maximum length of the server's error message in a reason.
const MESSAGE_SHOWN_MAX: usize = 128;

/// Checks one service.
#[derive(Debug)]
pub(crate) struct GrpcRunner {
    check: GrpcCheck,
    dialer: Dialer,
    tls: Tls,
    origin: Uri,
    /// Additional fields of each call.
    fields: Arc<[(HeaderName, HeaderValue)]>,
    traces: Option<Unsampled>,
    /// State of watch mode.
    watch: Watch,
}

impl GrpcRunner {
    pub(crate) fn build(
        check: &GrpcCheck,
        pace: &Pace,
        dialer: Dialer,
        pool: &mut TlsPool,
    ) -> Result<Self, String> {
        let (scheme, tls) = match &check.tls {
            Some(tls) => ("https", pool.take(tls, "h2", true)?),
            None => ("http", Tls::None),
        };
        let authority = match &check.address {
            _ if check.authority.is_some() => check.authority.clone().unwrap_or_default(),
            Address::Tcp(at) => at.to_string(),
            Address::Unix(_) => check.address.host().to_owned(),
        };
        let origin = format!("{scheme}://{authority}");
        let origin = origin.parse().map_err(|_| format!("{origin} is not a server address"))?;
        let traces = check.traceparent.then(Unsampled::default);
        let fields = fields_of(check)?;
        Ok(Self { check: check.clone(), dialer, tls, origin, fields, traces, watch: Watch::new(pace) })
    }

    /// Sets the notice by which a watch reports changes.
    pub(crate) fn notify_changes(&self, notice: ChangeNotice) {
        self.watch.notify_changes(notice);
    }

    pub(crate) const fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    pub(crate) async fn ask(&self, progress: &Progress, start: Instant) -> Verdict {
        let known = match self.check.mode {
            GrpcMode::Check => None,
            GrpcMode::Watch => self.watch.known(|| self.request(), progress).await,
        };
        let answer = match known {
            Some(status) => Ok(status),
            None => self.connect_and_ask(progress).await?,
        };
        let latency = start.elapsed();
        progress.see(|seen| {
            seen.grpc_status = Some(answer.as_ref().map_or_else(|status| status.code() as i32, |_| 0));
            seen.serving_status = answer.as_ref().ok().map(ServingStatus::as_str_name);
        });
        match answer {
            Ok(ServingStatus::Serving) => {}
            Ok(ServingStatus::ServiceUnknown) => return Err(Issue::failure(UNKNOWN)),
            Ok(other) => return Err(Issue::failure(other.as_str_name())),
            Err(status) => return Err(refused(&status)),
        }
        in_time(latency, self.check.latency)
    }

    async fn connect_and_ask(&self, progress: &Progress) -> Result<Result<ServingStatus, Status>, Issue> {
        let mut conn = self.dialer.connect(progress).await?;
        // In HTTP/2 the client closes first. It closes with FIN, because a reset would look like a
        // fault.
        conn.gently();
        match &self.check.tls {
            Some(ClientTls { server_name, .. }) => {
                progress.enter(Stage::Handshake);
                let name = server_name.as_deref().unwrap_or_else(|| self.check.address.host());
                let stream = handshake(&self.tls, name, conn).await?;
                progress.see_tls(stream.get_ref().1, &self.tls);
                progress.enter(Stage::Response);
                Ok(self.call(stream).await)
            }
            None => {
                progress.enter(Stage::Response);
                Ok(self.call(conn).await)
            }
        }
    }

    fn request(&self) -> tonic::Request<HealthCheckRequest> {
        let mut request = tonic::Request::new(HealthCheckRequest { service: self.check.service.clone() });
        if let Some(traces) = &self.traces
            && let Ok(value) = MetadataValue::try_from(&traces.next()[..])
        {
            request.metadata_mut().insert(TRACEPARENT, value);
        }
        request
    }

    async fn call<S>(&self, stream: S) -> Result<ServingStatus, Status>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let first = FirstBytes::default();
        let called = self.call_over(noting(stream, &first)).await;
        called.map_err(|status| if first.is_http1() { Status::unavailable(HTTP1) } else { status })
    }

    async fn call_over<S>(&self, stream: S) -> Result<ServingStatus, Status>
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
        let client =
            HealthClient::with_origin(Channel(sender, Arc::clone(&self.fields)), self.origin.clone());
        let mut client = client.max_decoding_message_size(MESSAGE_LEN_MAX);
        let request = self.request();
        if self.check.mode == GrpcMode::Watch {
            return self.watch.begin(client, request, conn).await;
        }
        let mut conn = Box::pin(conn);
        let mut work = pin!(client.check(request));
        let ended = tokio::select! {
            done = &mut work => return Ok(done?.into_inner().status()),
            ended = &mut conn => ended,
        };
        // Responses that were already read are still delivered. A request that was never sent fails
        // only when the connection is dropped.
        drop(conn);
        match (work.await, ended) {
            (Err(status), Err(error)) if status.code() == Code::Cancelled => Err(broken(&error)),
            (done, _) => Ok(done?.into_inner().status()),
        }
    }
}

/// Reason of a check whose service the server does not know.
pub const UNKNOWN: &str = "the server does not know this service";

/// Reason when the server responds to the HTTP/2 preface with a status line.
const HTTP1: &str = "the server speaks HTTP/1 here, not HTTP/2: is this the port of gRPC?";

/// The reason for a call without a response.
fn refused(status: &Status) -> Issue {
    let said = match status.message() {
        // With these texts the library reports an error of a lower layer, and only the sources show
        // the cause.
        "http2 error" | "transport error" => root_cause(status),
        said => said.to_owned(),
    };
    let said = at_most(&said, MESSAGE_SHOWN_MAX);
    match status.code() {
        Code::NotFound => Issue::failure(UNKNOWN),
        Code::Unimplemented => Issue::failure("the server has no grpc.health.v1"),
        code => Issue::failure(format!("{code:?}: {said}")),
    }
}

/// The last error in the chain of sources.
fn root_cause(status: &Status) -> String {
    let causes = std::iter::successors(std::error::Error::source(status), |error| error.source());
    causes.last().map_or_else(|| status.message().to_owned(), ToString::to_string)
}

fn broken(error: &hyper::Error) -> Status {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    Status::unavailable(cause)
}

/// The user agent and the configured fields; a configured field replaces the default of the same
/// name.
fn fields_of(check: &GrpcCheck) -> Result<Arc<[(HeaderName, HeaderValue)]>, String> {
    let given = |name: &str| check.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let agent = check.user_agent.filter(|_| !given(USER_AGENT.as_str()));
    let agent = agent.map(|agent| (USER_AGENT, HeaderValue::from_static(agent)));
    let headers = check.headers.iter().map(|(name, value)| {
        let name = HeaderName::try_from(name).map_err(|_| format!("{name:?} is not a header field name"))?;
        let value = HeaderValue::try_from(value).map_err(|_| format!("invalid value of {name}"))?;
        Ok((name, value))
    });
    agent.into_iter().map(Ok).chain(headers).collect()
}
