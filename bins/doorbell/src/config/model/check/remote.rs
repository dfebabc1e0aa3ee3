//! Servers that are asked in another way than by HTTP.
//!
//! Does not know about: what they are asked for by whom.

use super::super::Secret;
use super::http::Pattern;
use super::place::{ClientTls, HostPort, Place, Resolve};
use std::net::IpAddr;
use std::time::Duration;

/// `type = "grpc"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcCheck {
    /// Where to connect.
    pub address: Place,
    /// Which service is asked for; the empty name is the server as a whole.
    pub service: String,
    /// Whether it is asked, or tells.
    pub mode: GrpcMode,
    /// Whether calls say that they are not to be traced.
    pub traceparent: bool,
    /// Without it the connection is plain.
    pub tls: Option<ClientTls>,
    /// How long it may take.
    pub max_latency: Option<Duration>,
    /// What takes longer is well with a complaint.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are taken.
    pub resolve: Resolve,
    /// Who it says asks: doorbell, or as others do where `doorbell probe` asks in their manner.
    pub user_agent: Option<&'static str>,
    /// The server's name, where a probe says another one than that of the address.
    pub authority: Option<String>,
    /// What else a probe says.
    pub headers: Vec<(String, String)>,
}

/// How a gRPC service is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrpcMode {
    /// `Check`, each time on a connection of its own.
    #[default]
    Check,
    /// `Watch`: one call that stays, on which every change is told at once.
    Watch,
}

/// `type = "tcp"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpCheck {
    /// Where to connect.
    pub address: Place,
    /// What is sent first.
    pub send: Vec<u8>,
    /// What must come.
    pub contains: Vec<u8>,
    /// What matches all that comes, as text.
    pub matches: Option<Pattern>,
    /// How long it may take.
    pub max_latency: Option<Duration>,
    /// What takes longer is well with a complaint.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are taken.
    pub resolve: Resolve,
}

/// `type = "tls"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsCheck {
    /// Where to connect.
    pub address: Place,
    /// Whom to believe.
    pub tls: ClientTls,
    /// How long the certificates must be good for.
    pub certificate: CertificateRule,
    /// How long it may take.
    pub max_latency: Option<Duration>,
    /// What takes longer is well with a complaint.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are taken.
    pub resolve: Resolve,
}

/// How long certificates must be good for: the first one of a chain that ends counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CertificateRule {
    /// With less left it is down.
    pub expires_after: Option<Duration>,
    /// With less left it is well with a complaint.
    pub expires_within: Option<Duration>,
}

/// `type = "redis"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisCheck {
    /// Where to connect.
    pub address: Place,
    /// Who asks; without it the server's default user.
    pub username: Option<String>,
    /// Without it nobody says who he is.
    pub password: Option<Secret>,
    /// Without it the connection is plain.
    pub tls: Option<ClientTls>,
    /// What PING is answered with.
    pub reply: String,
    /// While this key is there, the server is in maintenance.
    pub maintenance_key: Option<String>,
    /// How long it may take.
    pub max_latency: Option<Duration>,
    /// What takes longer is well with a complaint.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are taken.
    pub resolve: Resolve,
}

/// `type = "dns"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsCheck {
    /// The server that is asked.
    pub server: HostPort,
    /// Which name.
    pub name: String,
    /// For which records.
    pub record: DnsRecord,
    /// How the server must answer.
    pub code: DnsCode,
    /// Records that must be among the answers.
    pub contains: Vec<String>,
    /// How many answers there must be.
    pub min_answers: u32,
    /// How long it may take.
    pub max_latency: Option<Duration>,
    /// What takes longer is well with a complaint.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are taken.
    pub resolve: Resolve,
}

/// Records that can be asked for.
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

/// What a server says about a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsCode {
    /// `NOERROR`
    #[default]
    NoError,
    /// `NXDOMAIN`: there is no such name.
    NxDomain,
    /// `REFUSED`
    Refused,
}

impl CertificateRule {
    /// Whether nothing is asked of a certificate.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.expires_after.is_none() && self.expires_within.is_none()
    }
}

impl GrpcCheck {
    /// The default for this address: the server as a whole, without TLS.
    #[must_use]
    pub fn of(address: Place) -> Self {
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
    /// The default for this address: it is enough that somebody accepts.
    #[must_use]
    pub fn of(address: Place) -> Self {
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
    /// The default for this address: a handshake with whom this system trusts.
    #[must_use]
    pub fn of(address: Place) -> Self {
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
    /// The default for this address.
    #[must_use]
    pub fn of(address: Place) -> Self {
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
    /// The default for this server and name: it has an address.
    #[must_use]
    pub fn of(server: HostPort, name: String) -> Self {
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

    /// Whether this is how a record of this kind is written in `contains`.
    #[must_use]
    pub fn can_contain(&self, text: &str) -> bool {
        match self.record {
            DnsRecord::A => text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()),
            DnsRecord::Aaaa => text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()),
            _ => !text.is_empty(),
        }
    }
}
