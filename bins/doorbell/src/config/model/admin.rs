//! `[admin]`: where people, scrapers and hooks ask a running doorbell.
//!
//! Does not know about: what can be asked.

use super::super::bind::Bind;
use super::Secret;
use crate::http::auth::{TokenWarning, Tokens};
use crate::http::router::host;
use doorbell_config::{Entry, Problem, Section, TEXTS, Table};
use std::net::SocketAddr;

/// Metrics and the pages for people and for scripts, below /-/. Without the table nobody listens, unless doorbell runs without a file.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Admin {
    /// An IP address and a port.
    #[key(default = "127.0.0.1:9130", read = Bind::address, shown)]
    pub bind: SocketAddr,
    /// Names by which clients reach the address; one or a list. Requests for another name are refused: those of clients on the same machine
    /// always, as a name of another site can be rebound to the loopback, all others where this key is given. IP addresses, localhost and the
    /// name of the machine need no entry.
    #[key(read = hosts)]
    pub hosts: Vec<String>,
    /// The bearer token of whoever changes something. Without one, changes are for clients on the same machine, and refused where a proxy
    /// sent them (X-Forwarded-For, Via, Forwarded and the like).
    pub token: Option<Secret>,
    /// True says that others than this machine are meant to see it; without it `doorbell validate` warns of such an address.
    #[key(default = false)]
    pub open: bool,
    /// Whether nobody asked for it, as without a file: then it only shows, and does without its address where somebody else has that.
    #[key(skip)]
    pub by_itself: bool,
}

impl Admin {
    /// What is there without a file.
    #[must_use]
    pub fn by_itself() -> Self {
        Self { by_itself: true, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        let outside = at.right_place("bind").filter(|_| !self.open && !self.bind.ip().is_loopback());
        if let (Some(token), Some(span)) = (&self.token, at.place("token")) {
            match Tokens::new().add("admin", token.reveal().as_bytes()) {
                Ok(None) => {}
                Ok(Some(warning @ TokenWarning::Short)) => {
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
                "everybody who reaches this address sees all states and metrics, and nobody there can drain";
            at.problem(
                Problem::warning("open-admin", place, message)
                    .help("set `token = \"${file:/run/secrets/doorbell-admin}\"`, say `open = true` where that is meant, or bind \"127.0.0.1:9130\""),
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
