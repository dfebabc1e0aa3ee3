//! Options of the kinds that contact a server without HTTP requests: gRPC, TCP, TLS, Redis, DNS.
//!
//! Does not know about: protocols in operation.

use super::address::{Address, ClientTls, HostPort, Resolve};
use super::http::Pattern;
use doorbell_config::Secret;
use std::net::IpAddr;
use std::time::Duration;

/// Options of a check with `type = "grpc"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcCheck {
    /// Where to connect.
    pub address: Address,
    /// Name of the service; empty for the server as a whole.
    pub service: String,
    /// One call for each run, or a stream of changes.
    pub mode: GrpcMode,
    /// Sends a `traceparent` that is not sampled.
    pub traceparent: bool,
    /// TLS; `None` for a plain connection.
    pub tls: Option<ClientTls>,
    /// Latency above which the check fails.
    pub max_latency: Option<Duration>,
    /// Latency above which the result is degraded.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are used.
    pub resolve: Resolve,
    /// `User-Agent` of an imitated prober; `None` for our own.
    pub user_agent: Option<&'static str>,
    /// `:authority`; `None` for the address.
    pub authority: Option<String>,
    /// Further metadata of each call.
    pub headers: Vec<(String, String)>,
}

/// Method of `grpc.health.v1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrpcMode {
    /// `Check`, on a new connection for each run.
    #[default]
    Check,
    /// `Watch`: one call that stays open and reports each change.
    Watch,
}

/// Options of a check with `type = "tcp"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpCheck {
    /// Where to connect.
    pub address: Address,
    /// Bytes to send after connecting.
    pub send: Vec<u8>,
    /// Bytes that the response must contain.
    pub contains: Vec<u8>,
    /// Expression that the response must match, as text.
    pub matches: Option<Pattern>,
    /// Latency above which the check fails.
    pub max_latency: Option<Duration>,
    /// Latency above which the result is degraded.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are used.
    pub resolve: Resolve,
}

/// Options of a check with `type = "tls"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsCheck {
    /// Where to connect.
    pub address: Address,
    /// Verification of the certificates.
    pub tls: ClientTls,
    /// Required lifetime of the certificates.
    pub certificate: CertificateRule,
    /// Latency above which the check fails.
    pub max_latency: Option<Duration>,
    /// Latency above which the result is degraded.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are used.
    pub resolve: Resolve,
}

/// Required remaining lifetime of certificates; the earliest expiry of the chain counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CertificateRule {
    /// Remaining lifetime below which the check fails.
    pub expires_after: Option<Duration>,
    /// Remaining lifetime below which the result is degraded.
    pub expires_within: Option<Duration>,
}

/// Options of a check with `type = "redis"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisCheck {
    /// Where to connect.
    pub address: Address,
    /// User; `None` for the default user of the server.
    pub username: Option<String>,
    /// Password; `None` skips `AUTH`.
    pub password: Option<Secret>,
    /// TLS; `None` for a plain connection.
    pub tls: Option<ClientTls>,
    /// Expected reply to `PING`.
    pub reply: String,
    /// Key whose existence means maintenance.
    pub maintenance_key: Option<String>,
    /// Latency above which the check fails.
    pub max_latency: Option<Duration>,
    /// Latency above which the result is degraded.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are used.
    pub resolve: Resolve,
}

/// Options of a check with `type = "dns"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsCheck {
    /// Name server.
    pub server: HostPort,
    /// Name to look up.
    pub name: String,
    /// Record type.
    pub record: DnsRecord,
    /// Expected response code.
    pub code: DnsCode,
    /// Records that the answer must contain.
    pub contains: Vec<String>,
    /// Minimum number of records.
    pub min_answers: u32,
    /// Latency above which the check fails.
    pub max_latency: Option<Duration>,
    /// Latency above which the result is degraded.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are used.
    pub resolve: Resolve,
}

/// Record types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum DnsRecord {
    #[default]
    A,
    Aaaa,
    Caa,
    Cname,
    Mx,
    Ns,
    Ptr,
    Soa,
    Srv,
    Txt,
}

/// Response codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsCode {
    /// `NOERROR`
    #[default]
    NoError,
    /// `NXDOMAIN`
    NxDomain,
    /// `REFUSED`
    Refused,
}

impl CertificateRule {
    /// Whether the rule has no requirement.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.expires_after.is_none() && self.expires_within.is_none()
    }
}

impl GrpcCheck {
    /// Checks the server as a whole, without TLS.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            service: String::new(),
            mode: GrpcMode::Check,
            traceparent: true,
            tls: None,
            max_latency: None,
            degraded_latency: None,
            resolve: Resolve::default(),
            user_agent: Some(concat!("doorbell/", env!("CARGO_PKG_VERSION"))),
            authority: None,
            headers: Vec::new(),
        }
    }
}

impl TcpCheck {
    /// Succeeds if a connection is accepted.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            send: Vec::new(),
            contains: Vec::new(),
            matches: None,
            max_latency: None,
            degraded_latency: None,
            resolve: Resolve::default(),
        }
    }
}

impl TlsCheck {
    /// A handshake, verified by the roots of this system.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            tls: ClientTls::default(),
            certificate: CertificateRule::default(),
            max_latency: None,
            degraded_latency: None,
            resolve: Resolve::default(),
        }
    }
}

impl RedisCheck {
    /// `PING` without TLS and authentication.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            username: None,
            password: None,
            tls: None,
            reply: "PONG".to_owned(),
            maintenance_key: None,
            max_latency: None,
            degraded_latency: None,
            resolve: Resolve::default(),
        }
    }
}

impl DnsCheck {
    /// Succeeds if the name has an IPv4 address.
    #[must_use]
    pub fn new(server: HostPort, name: String) -> Self {
        Self {
            server,
            name,
            record: DnsRecord::default(),
            code: DnsCode::default(),
            contains: Vec::new(),
            min_answers: 1,
            max_latency: None,
            degraded_latency: None,
            resolve: Resolve::default(),
        }
    }

    /// Whether `text` is a valid record of this type.
    #[must_use]
    pub fn can_contain(&self, text: &str) -> bool {
        match self.record {
            DnsRecord::A => text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()),
            DnsRecord::Aaaa => text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()),
            _ => !text.is_empty(),
        }
    }
}
