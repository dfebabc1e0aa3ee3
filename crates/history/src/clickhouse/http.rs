//! Requests to the HTTP interface of ClickHouse, each on its own connection.
//!
//! Does not know about: SQL.
//!
//! A persistent connection would save a handshake per batch. But the server closes idle connections
//! after a few seconds, and it would be unknown whether a batch sent at that moment has arrived.

use crate::store::StoreError;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::http::uri::InvalidUri;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

/// Maximum time to connect, for all addresses of the host together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response.
const RESPONSE_LEN_MAX: usize = 16 << 20;

/// Maximum length of the server's message in an error.
const MESSAGE_LEN_MAX: usize = 300;

/// Characters that are not percent-encoded, besides letters and digits.
const UNRESERVED: &[u8] = b"-._~";

/// A ClickHouse server and the credentials.
#[derive(Clone)]
pub struct Server {
    host: String,
    port: u16,
    is_tls: bool,
    /// User; empty for the default user of the server.
    pub user: String,
    /// Password; may be empty.
    pub password: String,
    /// TLS configuration; required for https.
    pub tls: Option<Arc<ClientConfig>>,
    /// Server name for TLS, if it differs from the host.
    pub server_name: Option<String>,
}

/// Error: the URL does not have the form that [`Server::new`] accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected http://HOST:PORT or https://HOST:PORT, without a path, user or query")]
pub struct BadUrl;

impl Server {
    /// Parses `http://HOST:PORT` or `https://HOST:PORT`; the default ports are 8123 and 8443.
    ///
    /// # Errors
    /// The URL does not have this form.
    pub fn new(url: &str) -> Result<Self, BadUrl> {
        let uri: Uri = url.parse().map_err(|_| BadUrl)?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(BadUrl),
        };
        let authority = uri.authority().ok_or(BadUrl)?;
        let has_more = uri.path_and_query().is_some_and(|rest| rest.as_str() != "/");
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") if is_tls => 8443,
            Some("") => 8123,
            Some(rest) => rest
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .filter(|port| *port > 0)
                .ok_or(BadUrl)?,
            None => return Err(BadUrl),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if has_more || host.is_empty() {
            return Err(BadUrl);
        }
        let (user, password) = (String::new(), String::new());
        Ok(Self { host, port, is_tls, user, password, tls: None, server_name: None })
    }

    /// Whether the connection uses TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Sends a statement with the data to insert, and returns the response body.
    pub(super) async fn send(&self, sql: &str, data: Vec<u8>) -> Result<Bytes, StoreError> {
        let response = self.exchange(sql, data).await.map_err(StoreError::Unavailable)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), RESPONSE_LEN_MAX).collect().await;
        let body = body.map_err(|error| unavailable("read the response", &error))?.to_bytes();
        match status {
            StatusCode::OK => Ok(body),
            StatusCode::BAD_REQUEST => Err(StoreError::Refused(message(status, &body))),
            StatusCode::PAYLOAD_TOO_LARGE => Err(StoreError::TooLarge(message(status, &body))),
            _ => Err(StoreError::Unavailable(message(status, &body))),
        }
    }

    async fn exchange(&self, sql: &str, data: Vec<u8>) -> Result<Response<Incoming>, String> {
        // `wait_end_of_query`: the server buffers the response, so that the status also covers
        // errors late in the query.
        let target = format!("/?wait_end_of_query=1&query={}", escape(sql));
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
        if self.is_tls { self.over_tls(stream, request).await } else { over(stream, request).await }
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

    async fn over_tls(
        &self,
        stream: TcpStream,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        let config = self.tls.clone().ok_or("https needs a TLS configuration")?;
        let name = self.server_name.as_ref().unwrap_or(&self.host);
        let name = ServerName::try_from(name.clone()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        over(stream.map_err(|error| format!("TLS: {error}"))?, request).await
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

fn unavailable(what: &str, error: &dyn fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("cannot {what}: {error}"))
}

/// Returns the start of the server's message, on one line.
fn message(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line: String = text.trim().chars().take(MESSAGE_LEN_MAX).map(one_line).collect();
    format!("HTTP {}: {line}", status.as_u16())
}

fn one_line(char: char) -> char {
    if char.is_control() { ' ' } else { char }
}

/// Percent-encodes a value of a query string.
fn escape(text: &str) -> String {
    use fmt::Write as _;
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || UNRESERVED.contains(&byte) {
            out.push(char::from(byte));
        } else {
            // A write to a string cannot fail.
            let _written = write!(out, "%{byte:02X}");
        }
    }
    out
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
    fn urls_and_their_default_ports() {
        for (url, expected) in [
            ("http://ch", Some("http://ch:8123")),
            ("https://ch/", Some("https://ch:8443")),
            ("http://[::1]:9000", Some("http://[::1]:9000")),
            ("http://10.0.0.7:1", Some("http://10.0.0.7:1")),
            ("ch:8123", None),
            ("tcp://ch:9000", None),
            ("http://user:secret@ch", None),
            ("http://ch/path", None),
            ("http://ch?database=x", None),
            ("http://ch:0", None),
            ("http://ch:65536", None),
            ("http://", None),
            ("", None),
        ] {
            let found = Server::new(url).ok().map(|server| format!("{server:?}"));
            assert_eq!(found.as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn messages_are_short_and_on_one_line() {
        let body = format!("Code: 62\n{}", "x".repeat(1_000));
        let text = message(StatusCode::BAD_REQUEST, body.as_bytes());
        assert!(text.starts_with("HTTP 400: Code: 62 xxx"), "{text}");
        assert!(text.len() < 400 && !text.contains('\n'));
        assert_eq!(escape("a b?é"), "a%20b%3F%C3%A9");
    }
}
