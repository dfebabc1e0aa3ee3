//! The settings of a listener's HTTP/2 connections: service, acceptor and limits.

use super::flood_limits::{Budget, OPEN_MAX};
use super::grpc::GrpcService;
use doorbell::Http1;
use doorbell::http::Limits;
use doorbell::http::limit::CLIENT_V6_LEN;
use doorbell::tls::Acceptor;
use hyper::header::HeaderValue;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

/// Receive window of a stream and of a connection.
const STREAM_WINDOW: u32 = 64 << 10;
const CONN_WINDOW: u32 = 256 << 10;

/// Maximum of [`ListenerOptions::concurrent_streams_max`]. A client may open more streams until it
/// knows the maximum; the difference to [`OPEN_MAX`] allows for these.
const STREAMS_MAX: u32 = 1000;
const _: () = assert!((STREAMS_MAX as usize) < OPEN_MAX, "what is announced is no flood");

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

/// Options of a listener's HTTP/2 connections. [`Self::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// Limits of bodies, `idle_timeout` and `conn_age_max`; `header_timeout` is the maximum time
    /// until the first HTTP/2 frame. The other fields have no effect over HTTP/2.
    pub limits: Limits,
    /// Maximum number of concurrent requests of a connection: 1 to 1000. A value out of this range
    /// is replaced by its nearer end. Default 100.
    pub concurrent_streams_max: u32,
    /// Maximum number of requests of a connection, which then gets GOAWAY. Default 10,000.
    pub streams_max: u32,
    /// Maximum number of connections of one address; `None` for no limit. Default 1024.
    pub conns_per_ip_max: Option<u32>,
    /// Number of bits by which IPv6 addresses are told apart. Default 64.
    pub client_v6_len: u8,
    /// Maximum time without progress, of requests and of a connection after GOAWAY. Default 10 s.
    pub write_timeout: Duration,
    /// Maximum wait for the client's FIN after the FIN of the server. Default 1 s.
    pub linger_timeout: Duration,
    /// Whether a certificate is requested from clients; the lack of one may then be the reason for
    /// a refusal.
    pub requests_client_cert: bool,
}

impl ListenerOptions {
    /// Options with these limits and the defaults, which are those of the `doorbell` program.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            concurrent_streams_max: 100,
            streams_max: 10_000,
            conns_per_ip_max: Some(1024),
            client_v6_len: CLIENT_V6_LEN,
            write_timeout: Duration::from_secs(10),
            linger_timeout: Duration::from_secs(1),
            requests_client_cert: false,
        }
    }
}

/// Settings of a listener's HTTP/2 connections.
#[derive(Debug)]
pub(crate) struct Http2Config {
    pub(super) http: Http1,
    pub(super) limits: Limits,
    pub(super) acceptor: Option<Acceptor>,
    pub(super) grpc_service: Option<GrpcService>,
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
    /// Creates the settings of a listener whose requests are served by `http`.
    pub(super) fn new(
        options: ListenerOptions,
        http: Http1,
        acceptor: Option<Acceptor>,
        grpc_service: Option<GrpcService>,
    ) -> Self {
        let limits = options.limits;
        // Only over TLS (RFC 6797 7.2).
        let hsts = acceptor.as_ref().and_then(|_| HeaderValue::from_bytes(http.hsts_value()?).ok());
        Self {
            http,
            acceptor,
            grpc_service,
            requests_client_cert: options.requests_client_cert,
            hsts,
            budget: Budget { streams: options.streams_max, ..Budget::default() },
            builder: builder(options.concurrent_streams_max.clamp(1, STREAMS_MAX)),
            conns_per_ip_max: options.conns_per_ip_max,
            client_v6_len: options.client_v6_len,
            times: Times {
                silent: limits.header_timeout,
                idle: limits.idle_timeout,
                stalled: options.write_timeout,
                linger: options.linger_timeout,
                age: limits.conn_age_max,
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
