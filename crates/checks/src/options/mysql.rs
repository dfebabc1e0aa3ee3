//! Options of `mysql` checks.
//!
//! Does not know about: the protocol.

use super::address::{Address, ClientTls, HostPort, Resolve};
use super::latency::LatencyRule;
use super::remote::CertificateRule;
use super::session;
use super::target::Target;
use doorbell_config::{Secret, Section, Table};

/// The greeting of a MySQL or MariaDB server, and optionally a login.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct MysqlCheck {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"127.0.0.1:3306\"")]
    pub address: Address,
    /// User to log in as; the login must succeed. Default: a login as doorbell without a password,
    /// which the server may refuse. A connection that ends without a login would count against the
    /// server's max_connect_errors.
    pub username: Option<String>,
    /// Password of `username`, preferably ${file:PATH}. Default: none.
    pub password: Option<Secret>,
    /// Whether the server accepts writes, by its variable read_only: true requires a primary, false
    /// a replica. Default: either.
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

impl MysqlCheck {
    /// Expects a greeting and the result of a login, without TLS.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        session::needs_username(at, &["password", "expect.writable"]);
        session::needs_tls(at, self.tls.is_some(), "add `tls = {}`, or remove it");
    }
}

impl Target for MysqlCheck {
    fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    fn remote(&self) -> Option<&HostPort> {
        self.address.remote()
    }
}
