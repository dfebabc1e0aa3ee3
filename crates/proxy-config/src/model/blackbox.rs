//! `[blackbox]`: probes on request, compatible with Prometheus' blackbox_exporter.

use super::super::bind::addresses;
use super::super::networks;
use doorbell::http::forwarded::Network;
use doorbell_checks::options::{CheckKind, ClientTls, GrpcMode, UntargetedKind};
use doorbell_config::{At, Named, Problem, Section, Table, Words};
use std::net::SocketAddr;
use std::time::Duration;

/// Probes on request at /probe?target=..&module=.., compatible with Prometheus' blackbox_exporter.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(check = Self::check)]
pub struct Blackbox {
    /// Addresses and ports to listen on; one or a list. Required.
    #[key(name = "bind", required = "\"127.0.0.1:9115\"", filled, read = addresses)]
    pub binds: Vec<At<SocketAddr>>,
    /// Networks that may be probed, such as "10.0.0.0/8": every address of a target must be in one
    /// of them. Required.
    #[key(with = networks)]
    pub targets: Vec<At<Network>>,
    /// Permitted built-in modules, named as in the example of blackbox_exporter.
    #[key(
        default = ["grpc", "grpc_plain", "http_2xx", "http_post_2xx", "tcp_connect", "tls_connect"],
        filled
    )]
    pub modules: Vec<Module>,
    /// How long a result is shared between identical requests.
    #[key(default = "5s", range = "0s..=1h")]
    pub cache: Duration,
    // Prometheus waits for ten seconds by default.
    /// Maximum duration of a probe, or the scrape timeout of Prometheus minus 500ms if that is
    /// shorter.
    #[key(default = "9s500ms", range = "100ms..=2m")]
    pub timeout: Duration,
    /// Further modules, `[blackbox.module.NAME]`, which replace built-in modules of the same name.
    #[key(name = "module")]
    pub own_modules: Named<OwnModule>,
}

/// One module: a check whose target is the parameter `target` of the request.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(check = Self::check, useless = Self::useless)]
pub struct OwnModule {
    /// Value of the parameter `module`.
    #[key(table_name)]
    pub name: String,
    /// Maximum duration of a probe. Default: `timeout` of `[blackbox]`.
    #[key(range = "100ms..=2m")]
    pub timeout: Option<Duration>,
    /// What a probe does.
    #[key(flatten)]
    pub kind: UntargetedKind,
}

/// A built-in module, named as in the example of blackbox_exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Words)]
pub enum Module {
    /// `grpc.health.v1` over TLS.
    Grpc,
    /// `grpc.health.v1` without TLS.
    #[word("grpc_plain")]
    GrpcPlain,
    /// GET with a 2xx response.
    #[word("http_2xx")]
    Http2xx,
    /// POST with a 2xx response.
    #[word("http_post_2xx")]
    HttpPost2xx,
    /// A TCP connection.
    #[word("tcp_connect")]
    TcpConnect,
    /// A TLS handshake.
    #[word("tls_connect")]
    TlsConnect,
}

impl OwnModule {
    /// Keys that have no effect on a single probe.
    const fn useless(&self) -> &'static [&'static str] {
        &["resolve.all", "resolve.ttl"]
    }

    /// Reports keys that have no effect on a single probe, and a UDP `wait` that is not shorter
    /// than `timeout`.
    fn check(&self, at: &Section<'_>) {
        if let (CheckKind::Udp(udp), Some(timeout)) = (&self.kind.0, self.timeout) {
            udp.check_wait(timeout, at);
        }
        let is_watch = matches!(&self.kind.0, CheckKind::Grpc(grpc) if grpc.mode == GrpcMode::Watch);
        let keys = [("mode", is_watch), ("resolve.all", true), ("resolve.ttl", true)];
        for (key, _) in keys.into_iter().filter(|(_, is_useless)| *is_useless) {
            if let Some(place) = at.right_place(key) {
                let message = format!("`{key}` has no effect: a probe is one connection to one address");
                at.problem(Problem::error("no-effect", place, message).help("remove it"));
            }
        }
    }
}

impl Blackbox {
    /// Whether a module reads certificates from files.
    #[must_use]
    pub fn reads_files(&self) -> bool {
        self.own_modules.iter().filter_map(|module| module.kind.0.tls()).any(ClientTls::reads_files)
    }

    fn check(&self, at: &Section<'_>) {
        if self.targets.is_empty() {
            let message = "without `targets`, every client of this port could probe any address";
            let problem = Problem::error("no-targets", at.span.clone(), message);
            at.problem(problem.help("add the networks that may be probed: `targets = [\"10.0.0.0/8\"]`"));
        }
        let is_all = |network: &&At<Network>| ["0.0.0.0/0", "::/0"].contains(&&*network.to_string());
        if let Some(all) = self.targets.iter().find(is_all) {
            let message =
                "every address may be probed, including those of this machine and of cloud metadata";
            let problem = Problem::warning("any-target", all.span.clone(), message);
            at.problem(problem.help("list the networks to probe"));
        }
    }
}
