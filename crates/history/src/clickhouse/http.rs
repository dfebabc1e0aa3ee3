//! Requests to the HTTP interface of ClickHouse, each on its own connection.
//!
//! A persistent connection would save a handshake per batch. But the server closes idle connections
//! after a few seconds, and it would be unknown whether a batch sent at that moment has arrived.

use crate::store::StoreError;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::http::uri::InvalidUri;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service as _;

/// Maximum time to connect, for all addresses of the host together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time of a statement without data.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a response.
const RESPONSE_LEN_MAX: usize = 16 << 20;

/// Header field of a response that reports an exception.
const EXCEPTION: &str = "x-clickhouse-exception-code";

/// Maximum length of the server's message in an error.
const MESSAGE_LEN_MAX: usize = 300;

/// A ClickHouse server and the credentials.
#[derive(Clone, Default)]
pub struct Server {
    /// Host name or IP address.
    pub host: String,
    /// Port of the HTTP interface.
    pub port: u16,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// User; empty for the default user of the server.
    pub user: String,
    /// Password; may be empty.
    pub password: String,
    /// TLS configuration; required for https.
    pub tls: Option<Arc<ClientConfig>>,
    /// Server name for TLS, if it differs from the host.
    pub server_name: Option<String>,
}

impl Server {
    /// Runs a statement without data within [`STATEMENT_TIMEOUT`], and returns the response body.
    pub(super) async fn execute(&self, sql: &str) -> Result<Bytes, StoreError> {
        let in_time = tokio::time::timeout(STATEMENT_TIMEOUT, self.send(sql, Vec::new())).await;
        in_time.unwrap_or_else(|_| {
            let why = format!("no reply within {}s", STATEMENT_TIMEOUT.as_secs());
            Err(StoreError::Unavailable(why))
        })
    }

    /// Sends a statement with the data to insert, and returns the response body.
    async fn send(&self, sql: &str, data: Vec<u8>) -> Result<Bytes, StoreError> {
        let response = self.exchange(sql, data).await.map_err(StoreError::Unavailable)?;
        let (status, is_exception) = (response.status(), response.headers().contains_key(EXCEPTION));
        let body = Limited::new(response.into_body(), RESPONSE_LEN_MAX).collect().await;
        let failed = |error| StoreError::Unavailable(format!("cannot read the response: {error}"));
        let body = body.map_err(failed)?.to_bytes();
        match status {
            // The status was sent before the exception occurred.
            StatusCode::OK if is_exception => Err(StoreError::Unavailable(message(status, &body))),
            StatusCode::OK => Ok(body),
            StatusCode::BAD_REQUEST => Err(StoreError::Refused(message(status, &body))),
            StatusCode::PAYLOAD_TOO_LARGE => Err(StoreError::TooLarge(message(status, &body))),
            _ => Err(StoreError::Unavailable(message(status, &body))),
        }
    }

    /// Sends an insert, which the writer of the history limits in time. Its response has no body unless the server, or a proxy in front of it, has
    /// not written the rows.
    pub(super) async fn insert(&self, sql: &str, data: Vec<u8>) -> Result<(), StoreError> {
        let body = self.send(sql, data).await?;
        match body.trim_ascii().is_empty() {
            true => Ok(()),
            false => Err(StoreError::Unavailable(message(StatusCode::OK, &body))),
        }
    }

    async fn exchange(&self, sql: &str, data: Vec<u8>) -> Result<Response<Incoming>, String> {
        // `wait_end_of_query`: the server buffers the response, so that the status also covers
        // errors late in the query.
        let target = format!("/?wait_end_of_query=1&query={}", utf8_percent_encode(sql, NON_ALPHANUMERIC));
        let request = Request::post(target)
            .header("host", self.authority())
            .header("user-agent", concat!("doorbell/", env!("CARGO_PKG_VERSION")))
            .header("connection", "close")
            // The server requires this field, but hyper omits it for an empty body.
            .header("content-length", data.len());
        let request = match (self.user.as_str(), self.password.as_str()) {
            ("", "") => request,
            (user, password) => request
                .header("x-clickhouse-user", if user.is_empty() { "default" } else { user })
                .header("x-clickhouse-key", password),
        };
        let request = request
            .body(Full::new(Bytes::from(data)))
            .map_err(|_| "the user or password has a character that header fields do not allow".to_owned())?;
        let stream = self.connect().await?;
        if self.is_tls {
            over(self.over_tls(stream).await?, request).await
        } else {
            over(stream, request).await
        }
    }

    /// Connects to the first address of the host that accepts.
    async fn connect(&self) -> Result<TcpStream, String> {
        let failed = |why: &dyn fmt::Display| format!("cannot connect to {}: {why}", self.authority());
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        // Disables Nagle's algorithm, which would delay a request that is sent in several writes.
        connector.set_nodelay(true);
        let target =
            format!("http://{}/", self.authority()).parse().map_err(|error: InvalidUri| failed(&error))?;
        let stream = connector.call(target).await.map_err(|error| match error.source() {
            Some(source) => failed(source),
            None => failed(&error),
        })?;
        Ok(stream.into_inner())
    }

    /// `HOST:PORT`, as in a URL.
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    async fn over_tls(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        let config = self.tls.clone().ok_or("https needs a TLS configuration")?;
        let name = self.server_name.as_ref().unwrap_or(&self.host);
        let name = ServerName::try_from(name.clone()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        stream.map_err(|error| format!("TLS: {error}"))
    }
}

async fn over(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, conn) = handshake.map_err(|error| format!("HTTP: {error}"))?;
    // The task ends with the response, or when the future of the request is dropped.
    tokio::spawn(conn);
    sender.send_request(request).await.map_err(|error| format!("cannot send the request: {error}"))
}

/// Returns the start of the server's message, on one line.
fn message(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line: String = text.trim().chars().take(MESSAGE_LEN_MAX).collect();
    format!("HTTP {}: {}", status.as_u16(), line.replace(char::is_control, " "))
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_short_and_on_one_line() {
        let body = format!("Code: 62\n{}", "x".repeat(1_000));
        let text = message(StatusCode::BAD_REQUEST, body.as_bytes());
        assert!(text.starts_with("HTTP 400: Code: 62 xxx"), "{text}");
        assert!(text.len() < 400 && !text.contains('\n'));
    }
}
