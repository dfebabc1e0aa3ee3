//! The settings of a listener's HTTP/2 connections: service, acceptor and limits.
//!
//! Does not know about: single connections.

use super::flood_limits::Budget;
use super::grpc::GrpcService;
use crate::http::Limits;
use doorbell::Http1;
use doorbell::tls::Acceptor;
use doorbell_proxy_config::model::{ClientAuthMode, Config};
use hyper::header::HeaderValue;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

/// Receive window of a stream and of a connection.
const STREAM_WINDOW: u32 = 64 << 10;
const CONN_WINDOW: u32 = 256 << 10;

/// Maximum size of a header list (RFC 9113 6.5.2), and of the send buffer of a stream.
const HEADER_LIST_MAX: u32 = 16 << 10;
const SEND_BUF_MAX: usize = 64 << 10;

/// Maximum number of streams that the client reset before hyper accepted them, and of streams that
/// the server reset for an error of the client. hyper enforces both maxima, and neither exceeds
/// [`Budget::resets`].
const PENDING_RESETS_MAX: usize = 20;
const LOCAL_RESETS_MAX: usize = 200;

/// Interval of PINGs, and their timeout; the sum is the time to detect a lost peer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of a listener's HTTP/2 connections.
#[derive(Debug)]
pub(crate) struct Http2Config {
    pub(super) http: Http1,
    pub(super) limits: Limits,
    pub(super) acceptor: Option<Acceptor>,
    pub(super) grpc_service: Option<GrpcService>,
    /// Whether a certificate is requested from clients; the lack of one may then be the reason for
    /// a refusal.
    pub(super) requests_client_cert: bool,
    /// Default `Strict-Transport-Security` of replies.
    pub(super) hsts: Option<HeaderValue>,
    pub(super) budget: Budget,
    pub(super) builder: Builder<TokioExecutor>,
    pub(super) conns_per_ip_max: Option<u32>,
    pub(super) client_v6_len: u8,
    pub(super) times: Times,
}

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Maximum time until the first HTTP/2 frame.
    pub(super) silent: Duration,
    /// Maximum time without a request.
    pub(super) idle: Duration,
    /// Maximum time without progress, of requests and of a connection after GOAWAY.
    pub(super) stalled: Duration,
    /// Maximum wait for the client's FIN after the FIN of the server.
    pub(super) linger: Duration,
    /// Maximum age of a connection.
    pub(super) age: Duration,
}

impl Http2Config {
    /// Creates the settings of the listener at this position; `http` serves its requests.
    pub(super) fn new(
        config: &Config,
        position: usize,
        http: (Http1, Limits),
        acceptor: Option<Acceptor>,
        grpc_service: Option<GrpcService>,
    ) -> Self {
        let (http, limits) = http;
        let listener = config.listeners.get(position).cloned().unwrap_or_default();
        let tls = config.tls_of(position);
        Self {
            http,
            acceptor,
            grpc_service,
            requests_client_cert: tls.is_some_and(|tls| tls.client_auth.mode != ClientAuthMode::None),
            // The configuration has validated the value.
            hsts: tls.and_then(|tls| tls.hsts.as_ref()).and_then(|value| HeaderValue::from_str(value).ok()),
            budget: Budget { streams: config.http2.max_requests, ..Budget::default() },
            builder: builder(config.http2.concurrent_streams),
            conns_per_ip_max: config.connections.per_ip_max,
            client_v6_len: config.runtime.client_ipv6_prefix,
            times: Times {
                silent: listener.timeouts.header,
                idle: listener.keep_alive.idle,
                stalled: config.connections.write_timeout,
                linger: config.connections.linger_timeout,
                age: listener.keep_alive.max_age.unwrap_or(Duration::MAX),
            },
            limits,
        }
    }
}

fn builder(concurrent_streams: u32) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .adaptive_window(false)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONN_WINDOW)
        .max_frame_size(16 << 10)
        .max_concurrent_streams(concurrent_streams)
        .max_header_list_size(HEADER_LIST_MAX)
        .header_table_size(4096)
        .max_send_buf_size(SEND_BUF_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        // Replies already have a `Date` field.
        .auto_date_header(false);
    builder
}
