//! Address and credentials of a server, and the opening of connections.
//!
//! Does not know about: commands after the login.

use super::resp::{self, NotReply, Value};
use crate::store::StoreError;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const PORT: u16 = 6379;

/// Minimum free space in the buffer before a read.
const READ_LEN: usize = 16 << 10;

/// A Redis or Valkey server, and the credentials.
#[derive(Clone)]
pub struct Server {
    host: String,
    port: u16,
    db: u32,
    is_tls: bool,
    /// User; empty for the default user.
    pub username: String,
    /// Password; empty for none.
    pub password: String,
    /// TLS configuration; required for rediss.
    pub tls: Option<Arc<ClientConfig>>,
    /// Server name for TLS, if it differs from the host.
    pub server_name: Option<String>,
}

/// Error: the URL is not that of a Redis or Valkey server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected redis://HOST:PORT/DB or rediss://HOST:PORT/DB, without a user or password")]
pub struct BadUrl;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// An open connection after the login.
pub(super) struct Conn {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
    /// Length of the replies at the start of `received` that have been returned.
    taken: usize,
}

impl Server {
    /// Parses `redis://HOST:PORT/DB` or `rediss://HOST:PORT/DB`; the default port is 6379 and the
    /// default database 0.
    ///
    /// # Errors
    /// The URL does not have this form.
    pub fn new(url: &str) -> Result<Self, BadUrl> {
        let (scheme, rest) = url.split_once("://").ok_or(BadUrl)?;
        let is_tls = match scheme {
            "redis" => false,
            "rediss" => true,
            _ => return Err(BadUrl),
        };
        let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
        let db = if db.is_empty() { 0 } else { digits(db).ok_or(BadUrl)? };
        // An IPv6 address has brackets, because its colons would end the host.
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or(BadUrl)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => digits(port).filter(|port| *port > 0).ok_or(BadUrl)?,
            None if port.is_empty() => PORT,
            None => return Err(BadUrl),
        };
        if host.is_empty() || host.contains(|char: char| "@?#%[]".contains(char) || char.is_whitespace()) {
            return Err(BadUrl);
        }
        let (username, password) = (String::new(), String::new());
        let host = host.to_owned();
        Ok(Self { host, port, db, is_tls, username, password, tls: None, server_name: None })
    }

    /// Whether the connection uses TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The number of the database.
    pub(super) const fn db(&self) -> u32 {
        self.db
    }

    /// Connects, and logs in.
    pub(super) async fn connect(&self) -> Result<Conn, StoreError> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| StoreError(format!("cannot connect to {self:?}: {error}")))?;
        // Without Nagle's algorithm, a command does not wait for the reply to the last one.
        let _slower = tcp.set_nodelay(true);
        let stream: Box<dyn Stream> =
            if self.is_tls { Box::new(self.over_tls(tcp).await?) } else { Box::new(tcp) };
        let mut conn = Conn { stream, received: Vec::new(), taken: 0 };
        conn.log_in(self).await?;
        Ok(conn)
    }

    async fn over_tls(
        &self,
        tcp: TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, StoreError> {
        let config = self.tls.clone().ok_or_else(|| StoreError("rediss needs a TLS configuration".into()))?;
        let name = self.server_name.as_ref().unwrap_or(&self.host);
        let name = ServerName::try_from(name.clone()).map_err(|error| StoreError(error.to_string()))?;
        let connected = TlsConnector::from(config).connect(name, tcp).await;
        connected.map_err(|error| StoreError(format!("TLS: {error}")))
    }
}

impl Conn {
    async fn log_in(&mut self, server: &Server) -> Result<(), StoreError> {
        let word = |text: &str| text.as_bytes().to_vec();
        if !server.password.is_empty() {
            let user = (!server.username.is_empty()).then(|| word(&server.username));
            let words = [Some(word("AUTH")), user, Some(word(&server.password))];
            self.expect_ok("AUTH", &words.into_iter().flatten().collect::<Vec<_>>()).await?;
        }
        if server.db != 0 {
            self.expect_ok("SELECT", &[word("SELECT"), word(&server.db.to_string())]).await?;
        }
        // A server that is loading its data, or requires a password, refuses PING.
        self.expect_ok("PING", &[word("PING")]).await
    }

    async fn expect_ok(&mut self, name: &str, command: &[Vec<u8>]) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        resp::write(command, &mut bytes);
        self.write(&bytes).await?;
        match self.read().await? {
            Value::Simple(_) => Ok(()),
            Value::Error(why) => Err(StoreError(format!("{name}: {why}"))),
            _ => Err(StoreError(format!("{name}: {NotReply}"))),
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let broken = |error: std::io::Error| StoreError(format!("cannot send: {error}"));
        self.stream.write_all(bytes).await.map_err(broken)?;
        self.stream.flush().await.map_err(broken)
    }

    /// Receives the next reply. Cancel safe.
    pub(super) async fn read(&mut self) -> Result<Value, StoreError> {
        loop {
            let first = resp::read(&self.received[self.taken..]);
            if let Some((value, len)) = first.map_err(|error| StoreError(error.to_string()))? {
                self.taken += len;
                return Ok(value);
            }
            self.received.drain(..self.taken);
            self.taken = 0;
            // The buffer doubles, so that a long reply is parsed only a few times.
            self.received.reserve(READ_LEN.max(self.received.len()));
            match self.stream.read_buf(&mut self.received).await {
                Ok(0) => return Err(StoreError("the server closed the connection".into())),
                Ok(_) => {}
                Err(error) => return Err(StoreError(format!("cannot receive: {error}"))),
            }
        }
    }
}

fn digits<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{scheme}://{host}:{}/{}", self.port, self.db)
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("received", &self.received.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_their_defaults() {
        for (url, expected) in [
            ("redis://cache", Some("redis://cache:6379/0")),
            ("redis://cache/", Some("redis://cache:6379/0")),
            ("rediss://cache:1/15", Some("rediss://cache:1/15")),
            ("redis://[::1]:7000/2", Some("redis://[::1]:7000/2")),
            ("redis://[::1]", Some("redis://[::1]:6379/0")),
            ("redis://10.0.0.7:1", Some("redis://10.0.0.7:1/0")),
            ("cache:6379", None),
            ("http://cache", None),
            ("redis://:secret@cache", None),
            ("redis://cache/one", None),
            ("redis://cache/+1", None),
            ("redis://cache?db=1", None),
            ("redis://cache:0", None),
            ("redis://cache:65536", None),
            ("redis://::1", None),
            ("redis://[::1]x", None),
            ("redis://", None),
            ("", None),
        ] {
            let found = Server::new(url).ok().map(|server| format!("{server:?}"));
            assert_eq!(found.as_deref(), expected, "{url}");
        }
    }
}
