//! Options of `mysql` checks.

use super::address::Address;
use super::database::DatabaseAccess;
use super::target::target;
use doorbell_config::Table;

/// The greeting of a MySQL or MariaDB server, and optionally a login.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct MysqlCheck {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"127.0.0.1:3306\"")]
    pub address: Address,
    /// User to log in as; the login must succeed. Default: a login as doorbell without a password,
    /// which the server may refuse. A connection that ends without a login would count against the
    /// server's max_connect_errors.
    pub username: Option<String>,
    /// The login and the connection.
    #[key(flatten)]
    pub access: DatabaseAccess,
}

impl MysqlCheck {
    /// Expects a greeting and the result of a login, without TLS.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::default() }
    }
}

target!(check: MysqlCheck, check.address.remote(), check.access.tls.as_ref());
