//! Address and credentials of a server, and the opening of connections.

use super::client::Done;
use super::conn_state::{ConnState, LimitedStream, limited};
use crate::format::at_most;
use crate::store::StoreError;
use futures_util::FutureExt as _;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsConnector;

/// Maximum length of an error of the server that is shown.
const ERROR_LEN_MAX: usize = 512;

/// A Redis or Valkey server, and the credentials.
#[derive(Clone, Default)]
pub struct Server {
    /// Host name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Number of the database.
    pub db: u32,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// User; empty for the default user.
    pub username: String,
    /// Password; empty for none.
    pub password: String,
    /// TLS configuration; required for TLS.
    pub tls: Option<Arc<ClientConfig>>,
    /// Server name for TLS, if it differs from the host.
    pub server_name: Option<String>,
}

/// An open connection after the login.
pub(super) struct Conn {
    pub(super) redis: MultiplexedConnection,
    pub(super) state: Arc<ConnState>,
    /// The driver of the connection, and commands.
    pub(super) tasks: JoinSet<Option<Done>>,
    pub(super) driver: AbortHandle,
}

impl Server {
    /// Connects, and logs in.
    pub(super) async fn connect(&self, within: Duration) -> Result<Conn, StoreError> {
        let state = Arc::new(ConnState::default());
        let stream = self.open(within, &state).await?;
        // The login follows in `log_in`, because the library does not return why the server refuses
        // it.
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let opened = MultiplexedConnection::new_with_config(&login, stream, config).await;
        let (redis, driver) = opened.map_err(|error| reason(&error, &state))?;
        let mut tasks = JoinSet::new();
        let end = Arc::clone(&state);
        let driver = tasks.spawn(driver.map(move |()| {
            // The library does not report invalid bytes unless a command waits for a reply.
            end.end(not_reply());
            None
        }));
        let mut conn = Conn { redis, state, tasks, driver };
        conn.log_in(self).await?;
        Ok(conn)
    }

    /// Opens a connection for messages, and logs in.
    pub(super) async fn listen(&self, within: Duration) -> Result<(PubSub, Arc<ConnState>), StoreError> {
        let state = Arc::new(ConnState::default());
        let stream = self.open(within, &state).await?;
        // Channels do not belong to a database.
        let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
        if !self.password.is_empty() {
            login = login.set_password(&self.password);
        }
        if !self.username.is_empty() {
            login = login.set_username(&self.username);
        }
        let opened = PubSub::new(&login, stream).await.map_err(|error| reason(&error, &state))?;
        Ok((opened, state))
    }

    async fn open(&self, within: Duration, state: &Arc<ConnState>) -> Result<LimitedStream, StoreError> {
        let tcp = doorbell_link::net::connect(&self.host, self.port, within).await;
        let tcp = tcp.map_err(|error| StoreError(format!("cannot connect to {self:?}: {error}")))?;
        Ok(if self.is_tls { limited(self.over_tls(tcp).await?, state) } else { limited(tcp, state) })
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
        if !server.password.is_empty() {
            let user = (!server.username.is_empty()).then_some(&server.username);
            self.expect_ok("AUTH", redis::cmd("AUTH").arg(user).arg(&server.password)).await?;
        }
        if server.db != 0 {
            self.expect_ok("SELECT", redis::cmd("SELECT").arg(server.db)).await?;
        }
        // A server that is loading its data, or requires a password, refuses PING.
        self.expect_ok("PING", &redis::cmd("PING")).await
    }

    async fn expect_ok(&mut self, name: &str, command: &Cmd) -> Result<(), StoreError> {
        let why = match command.query_async(&mut self.redis).await {
            Ok(Value::Okay | Value::SimpleString(_)) => return Ok(()),
            Ok(_) => not_reply(),
            Err(error) => reason(&error, &self.state),
        };
        Err(StoreError(format!("{name}: {why}")))
    }
}

/// Why a command failed: the error of the server, or the end of the connection.
pub(super) fn reason(error: &RedisError, state: &ConnState) -> StoreError {
    match error.code() {
        Some(code) => {
            let text = format!("{code} {}", error.detail().unwrap_or_default());
            // The text is shown in terminals and logs.
            StoreError(at_most(&text, ERROR_LEN_MAX).replace(char::is_control, " "))
        }
        // The connection has ended.
        None if error.is_io_error() => state.end(StoreError(error.to_string())),
        None => state.end(not_reply()),
    }
}

pub(super) fn not_reply() -> StoreError {
    StoreError("invalid reply from the server".to_owned())
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{scheme}://{host}:{}/{}", self.port, self.db)
    }
}
