//! `[blackbox]`: probes that somebody asks for, as of Prometheus' blackbox_exporter.
//!
//! Does not know about: how a probe is made.

use crate::http::forwarded::Network;
use std::net::SocketAddr;
use std::time::Duration;

/// `[blackbox]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blackbox {
    /// Where it listens.
    pub binds: Vec<SocketAddr>,
    /// What may be probed: every address that a target leads to must be in one of them.
    pub targets: Vec<Network>,
    /// Which probes may be asked for.
    pub modules: Vec<Module>,
    /// How long the result of a probe is given to everybody who asks for the same.
    pub cache: Duration,
    /// How long a probe may take, unless whoever asks wants it sooner.
    pub timeout: Duration,
}

/// A kind of probe, by its name in blackbox_exporter's own example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Module {
    /// `grpc.health.v1` over TLS.
    Grpc,
    /// The same in plain text.
    GrpcPlain,
    /// GET, and 2xx.
    Http2xx,
    /// POST, and 2xx.
    HttpPost2xx,
    /// A connection.
    TcpConnect,
    /// A TLS handshake.
    TlsConnect,
}

impl Module {
    /// All of them, by the names of the file and of the query.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("grpc", Self::Grpc),
        ("grpc_plain", Self::GrpcPlain),
        ("http_2xx", Self::Http2xx),
        ("http_post_2xx", Self::HttpPost2xx),
        ("tcp_connect", Self::TcpConnect),
        ("tls_connect", Self::TlsConnect),
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, module)| *module == self).map_or("unknown", |(name, _)| name)
    }
}

impl Blackbox {
    /// How long a result is given out if nothing else is said.
    pub const CACHE: Duration = Duration::from_secs(5);

    /// How long a probe may take if nothing else is said. Prometheus waits for ten seconds.
    pub const TIMEOUT: Duration = Duration::from_millis(9_500);
}
