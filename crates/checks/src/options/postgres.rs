//! Options of `postgres` checks.

use super::address::Address;
use super::database::DatabaseAccess;
use super::target::target;
use doorbell_config::Table;

/// The start of a PostgreSQL session, and optionally a login.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct PostgresCheck {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"127.0.0.1:5432\"")]
    pub address: Address,
    /// User to log in as; the check then also runs a query. Default: no login; the server's
    /// authentication request is enough, as with pg_isready.
    pub username: Option<String>,
    /// Database of the session. Default: the database named like the user.
    pub database: Option<String>,
    /// The login and the connection.
    #[key(flatten)]
    pub access: DatabaseAccess,
}

impl PostgresCheck {
    /// Expects the server's authentication request, without TLS.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::default() }
    }
}

target!(check: PostgresCheck, check.address.remote(), check.access.tls.as_ref());
