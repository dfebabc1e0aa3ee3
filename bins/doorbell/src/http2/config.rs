//! What a listener's HTTP/2 connections are served with: the same service and the same acceptor as its others, and their limits.
//!
//! Does not know about: single connections.

use super::flood_limits::Budget;
use super::grpc::Answers;
use crate::config::model::{ClientAuthMode, Config};
use crate::http::Limits;
use doorbell::Http1;
use doorbell::tls::Acceptor;
use hyper::header::HeaderValue;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

/// The window of a stream and of a connection: what a client may send that nobody has read yet.
const STREAM_WINDOW: u32 = 64 << 10;
const CONN_WINDOW: u32 = 256 << 10;

/// Bytes of fields (RFC 9113 6.5.2), and of a reply that may wait in a stream.
const HEADER_LIST_MAX: u32 = 16 << 10;
const SEND_BUF_MAX: usize = 64 << 10;

/// Streams that are reset before anybody looked at them, and streams that we reset for the client's mistakes, each at once: hyper's own
/// counts, below those of [`Budget`].
const PENDING_RESETS_MAX: usize = 20;
const LOCAL_RESETS_MAX: usize = 200;

/// A peer that is gone without a word is found out after both.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Http2Config {
    pub(super) http: Http1,
    pub(super) limits: Limits,
    pub(super) acceptor: Option<Acceptor>,
    pub(super) answers: Option<Answers>,
    /// Clients are asked for a certificate: one who is refused may lack it.
    pub(super) asks_client_cert: bool,
    /// `Strict-Transport-Security` of every reply that has none of its own.
    pub(super) hsts: Option<HeaderValue>,
    pub(super) budget: Budget,
    pub(super) builder: Builder<TokioExecutor>,
    pub(super) conns_per_ip_max: Option<u32>,
    pub(super) client_v6_len: u8,
    pub(super) times: Times,
}

/// How long a connection may be in each state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Without anything of HTTP/2.
    pub(super) silent: Duration,
    /// Without a request.
    pub(super) idle: Duration,
    /// With requests of which nothing comes, and after it was told to go.
    pub(super) stalled: Duration,
    /// After our last word, for the client's.
    pub(super) linger: Duration,
    /// At all.
    pub(super) age: Duration,
}

impl Http2Config {
    /// For the listener at this position, whose HTTP/2 requests are answered with `http`.
    pub(super) fn new(
        config: &Config,
        position: usize,
        http: (Http1, Limits),
        acceptor: Option<Acceptor>,
        answers: Option<Answers>,
    ) -> Self {
        let (http, limits) = http;
        let listener = config.listeners.get(position).cloned().unwrap_or_default();
        let tls = config.tls_of(position);
        Self {
            http,
            acceptor,
            answers,
            asks_client_cert: tls.is_some_and(|tls| tls.client_auth.mode != ClientAuthMode::None),
            // The value was checked with the configuration.
            hsts: tls.and_then(|tls| tls.hsts.as_ref()).and_then(|value| HeaderValue::from_str(value).ok()),
            budget: Budget { streams: config.http2.max_requests, ..Budget::default() },
            builder: builder(config.http2.concurrent_streams),
            conns_per_ip_max: listener.limits.connections_per_ip,
            client_v6_len: config.runtime.client_ipv6_prefix,
            times: Times {
                silent: listener.timeouts.header,
                idle: listener.keep_alive.idle,
                stalled: listener.timeouts.write,
                linger: listener.timeouts.linger,
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
        // The service writes it.
        .auto_date_header(false);
    builder
}
