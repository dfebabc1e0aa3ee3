//! `[blackbox]`: probes that somebody asks for, as of Prometheus' blackbox_exporter.
//!
//! Does not know about: how a probe is made.

use super::super::bind::addresses;
use super::super::networks;
use crate::http::forwarded::Network;
use doorbell_config::{At, Problem, Section, Table, Words};
use std::net::SocketAddr;
use std::time::Duration;

/// /probe?target=..&module=.. as of Prometheus' blackbox_exporter.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Blackbox {
    /// Where it listens: an address and a port; one or a list.
    #[key(name = "bind", required = "\"127.0.0.1:9115\"", filled, read = addresses)]
    pub binds: Vec<At<SocketAddr>>,
    /// Networks that may be probed, as in "10.0.0.0/8": every address a target leads to must be in one of them.
    #[key(with = networks)]
    pub targets: Vec<At<Network>>,
    /// Modules that may be asked for, by the names they have in blackbox_exporter's example.
    #[key(
        default = ["grpc", "grpc_plain", "http_2xx", "http_post_2xx", "tcp_connect", "tls_connect"],
        filled
    )]
    pub modules: Vec<Module>,
    /// For so long everybody who asks the same gets the same result.
    #[key(default = "5s", range = "0s..=1h")]
    pub cache: Duration,
    // Prometheus waits for ten seconds.
    /// Longest probe; Prometheus' own scrape timeout makes it shorter.
    #[key(default = "9s500ms", range = "100ms..=2m")]
    pub timeout: Duration,
}

/// A kind of probe, by its name in blackbox_exporter's own example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Words)]
pub enum Module {
    /// `grpc.health.v1` over TLS.
    Grpc,
    /// The same in plain text.
    #[word("grpc_plain")]
    GrpcPlain,
    /// GET, and 2xx.
    #[word("http_2xx")]
    Http2xx,
    /// POST, and 2xx.
    #[word("http_post_2xx")]
    HttpPost2xx,
    /// A connection.
    #[word("tcp_connect")]
    TcpConnect,
    /// A TLS handshake.
    #[word("tls_connect")]
    TlsConnect,
}

impl Blackbox {
    fn check(&self, at: &Section<'_>) {
        if self.targets.is_empty() {
            let message = "without `targets` whoever reaches the port could have any address asked";
            let problem = Problem::error("no-targets", at.span.clone(), message);
            at.problem(problem.help("add the networks that may be probed: `targets = [\"10.0.0.0/8\"]`"));
        }
        let is_all = |network: &&At<Network>| ["0.0.0.0/0", "::/0"].contains(&&*network.to_string());
        if let Some(all) = self.targets.iter().find(is_all) {
            let message =
                "every address may be probed, this machine's own and those of cloud metadata among them";
            let problem = Problem::warning("any-target", all.span.clone(), message);
            at.problem(problem.help("write the networks that are to be probed"));
        }
    }
}
