//! Options of `postgres` checks.
//!
//! Does not know about: the protocol.

use super::address::{Address, ClientTls, HostPort, Resolve};
use super::latency::LatencyRule;
use super::remote::CertificateRule;
use super::session;
use super::target::Target;
use doorbell_config::{Secret, Section, Table};

/// The start of a PostgreSQL session, and optionally a login.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct PostgresCheck {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"127.0.0.1:5432\"")]
    pub address: Address,
    /// User to log in as; the check then also runs a query. Default: no login; the server's
    /// authentication request is enough, as with pg_isready.
    pub username: Option<String>,
    /// Password of `username`, preferably ${file:PATH}. Default: none, for servers that do not ask
    /// for it.
    pub password: Option<Secret>,
    /// Database of the session. Default: the one named like the user.
    pub database: Option<String>,
    /// Whether the server accepts writes: true requires a primary, false a standby or a read-only
    /// server. Default: either.
    #[key(table = "expect")]
    pub writable: Option<bool>,
    /// TLS of the connection. Default: none.
    #[key(shown)]
    pub tls: Option<ClientTls>,
    /// Required lifetime of the certificates.
    #[key(flatten)]
    pub certificate: CertificateRule,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Use of the addresses of the host.
    pub resolve: Resolve,
}

impl PostgresCheck {
    /// Expects the server's authentication request, without TLS.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        session::needs_username(at, &["password", "database", "expect.writable"]);
        session::needs_tls(at, self.tls.is_some(), "add `tls = {}`, or remove it");
    }
}

impl Target for PostgresCheck {
    fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    fn remote(&self) -> Option<&HostPort> {
        self.address.remote()
    }
}
