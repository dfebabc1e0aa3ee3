//! `[admin]`: address of metrics, pages and the admin API of a running instance.

use super::super::bind::Bind;
use super::Secret;
use doorbell::http::auth::Tokens;
use doorbell::http::router::host;
use doorbell_config::{Entry, Problem, Section, TEXTS, Table};
use std::net::SocketAddr;

/// Metrics at /metrics, and pages for operators and scripts below /-/. Default: none, except
/// without a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Admin {
    /// IP address and port.
    #[key(default = "127.0.0.1:9130", read = Bind::address, shown)]
    pub bind: SocketAddr,
    /// Accepted host names; one or a list. IP addresses, localhost and the name of the machine are
    /// always accepted. A request with another host name and without the token is refused if it
    /// comes from the same machine (to prevent DNS rebinding), or if this key is set.
    #[key(read = hosts)]
    pub hosts: Vec<String>,
    /// Bearer token for changes. Default: only clients on the same machine may make changes, and
    /// not through a proxy (X-Forwarded-For, Via, Forwarded and similar fields).
    pub token: Option<Secret>,
    /// Confirms that remote access is intended; otherwise `doorbell validate` warns of an address
    /// that is not a loopback address, unless `token` is set.
    #[key(default = false)]
    pub open: bool,
    /// Whether this is the default without a configuration file: read-only, and skipped if its
    /// address cannot be bound.
    #[key(skip)]
    pub is_implicit: bool,
}

impl Admin {
    /// The admin address of an instance without a configuration file.
    #[must_use]
    pub fn implicit() -> Self {
        Self { is_implicit: true, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        let outside = at.right_place("bind").filter(|_| !self.open && !self.bind.ip().is_loopback());
        if let (Some(token), Some(span)) = (&self.token, at.place("token")) {
            match Tokens::new().add("admin", token.reveal().as_bytes()) {
                Ok(None) => {}
                Ok(Some(warning)) => {
                    let problem = Problem::warning("short-secret", span, "the token of `admin` is short");
                    at.problem(problem.help(warning.to_string()));
                }
                Err(error) => {
                    let problem = Problem::error("bad-secret", span, "the token of `admin` cannot be used");
                    at.problem(problem.help(error.to_string()));
                }
            }
        } else if let Some(place) = outside {
            let message =
                "every client that reaches this address sees all states and metrics, but no client can drain";
            at.problem(
                Problem::warning("open-admin", place, message)
                    .help("set `token = \"${file:/run/secrets/doorbell-admin}\"`, set `open = true` if that is intended, or bind \"127.0.0.1:9130\""),
            );
        }
    }
}

fn hosts(entry: &Entry<'_>) -> Option<Vec<String>> {
    entry.list(TEXTS, |entry| {
        let text = entry.string()?;
        let help = "write a name without a port and without `*`, such as \"doorbell.example.com\"";
        host::canonical_pattern(&text)
            .filter(|host| !host.contains('*'))
            .or_else(|| entry.refuse("bad-host", format!("{text:?} is not the name of a host"), help))
    })
}
