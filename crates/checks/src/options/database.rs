//! Keys that the checks of databases have in common.

use super::address::{Address, ClientTls, Resolve};
use super::latency::LatencyRule;
use super::remote::CertificateRule;
use doorbell_config::{Problem, Secret, Section, Table};

/// Login, expectations and connection of a database check.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct DatabaseAccess {
    /// Password of `username`, preferably ${file:PATH}. Default: none.
    pub password: Option<Secret>,
    /// Whether the server accepts writes: true requires a primary, false a replica, a standby or
    /// another server that is read-only. Default: either.
    #[key(table = "expect")]
    pub writable: Option<bool>,
    /// TLS of the connection. Default: none.
    #[key(shown)]
    pub tls: Option<ClientTls>,
    /// Limits on the remaining lifetime of the certificates.
    #[key(flatten)]
    pub certificate: CertificateRule,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

impl DatabaseAccess {
    /// Whether a password may be sent in clear text: over verified TLS, or to this machine.
    pub(crate) fn is_private(&self, address: &Address) -> bool {
        address.remote().is_none() || self.tls.as_ref().is_some_and(|tls| tls.verify)
    }

    fn check(&self, at: &Section<'_>) {
        let keys = ["password", "database", "expect.writable"].into_iter();
        for key in keys.filter(|_| at.place("username").is_none()) {
            if let Some(place) = at.right_place(key) {
                let name = key.rsplit('.').next().unwrap_or(key);
                let problem = Problem::error("missing-key", place, format!("`{name}` without a login"));
                at.problem(problem.help("add `username`, or remove it"));
            }
        }
        CertificateRule::needs_tls(at, self.tls.is_some(), "add `tls = {}`, or remove it");
    }
}
