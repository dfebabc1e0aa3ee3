//! Options of checks: what is checked, how often, and what a result must be.
//!
//! Does not know about: running a check.

mod address;
mod http;
mod local;
mod remote;
mod status;

pub use address::{Address, ClientTls, HostPort, Prefer, Resolve, Url};
use doorbell_egress::PortChoice;
use doorbell_health::{FlapRule, Initial, Severity};
pub use http::{FieldValue, FollowRedirects, HttpCheck, HttpDegraded, HttpExpect, HttpVersion, Pattern};
pub use local::{BadIs, ExecCheck, FileCheck, GaugeCheck, Level, Metric};
pub use remote::{
    CertificateRule, DnsCheck, DnsCode, DnsRecord, GrpcCheck, GrpcMode, RedisCheck, TcpCheck, TlsCheck,
};
pub use status::{StatusRange, StatusSet};
use std::net::IpAddr;
use std::time::Duration;

/// One check.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Name in endpoints, logs and metrics.
    pub name: String,
    /// Severity in endpoints that do not list their checks.
    pub severity: Severity,
    /// When it runs and how its results become states.
    pub pace: Pace,
    /// What it checks.
    pub kind: CheckKind,
}

/// When a check runs and how its results become states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time from the start of one run to the start of the next.
    pub interval: Duration,
    /// Interval while the state is changing or unknown.
    pub fast_interval: Duration,
    /// Interval while the check is down.
    pub down_interval: Duration,
    /// Maximum time of a run.
    pub timeout: Duration,
    /// Maximum time until a connection is established.
    pub connect_timeout: Duration,
    /// Maximum random delay of a run, in percent of the interval.
    pub jitter: u32,
    /// Consecutive successes before the check counts as up.
    pub rise: u32,
    /// Consecutive failures before the check counts as down.
    pub fall: u32,
    /// State before the first result.
    pub initial: Initial,
    /// Maximum age of a result.
    pub max_age: Duration,
    /// Rule against flapping, if any.
    pub flap: Option<FlapRule>,
    /// Number of results to keep.
    pub history: u32,
    /// Age of the last run above which a probe triggers another one. An unscheduled check with this
    /// option runs only then, and before its result reaches `max_age`.
    pub cache: Option<Duration>,
    /// Whether it runs every `interval`; otherwise only on request or before `max_age` is over.
    pub is_scheduled: bool,
}

/// Source addresses and ports of the connections of all checks.
///
/// The default leaves both to the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressOptions {
    /// Addresses of this machine, each of the target's family in turn.
    pub sources: Vec<IpAddr>,
    /// Choice of ports.
    pub ports: PortChoice,
}

/// What a check does.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckKind {
    /// A question to a name server.
    Dns(Box<DnsCheck>),
    /// A program.
    Exec(ExecCheck),
    /// A file.
    File(FileCheck),
    /// A metric of this machine.
    Gauge(GaugeCheck),
    /// A call of `grpc.health.v1`.
    Grpc(Box<GrpcCheck>),
    /// An HTTP request.
    Http(Box<HttpCheck>),
    /// `PING` of a Redis server.
    Redis(Box<RedisCheck>),
    /// A connection, and optionally bytes on it.
    Tcp(TcpCheck),
    /// A TLS handshake and the certificates.
    Tls(Box<TlsCheck>),
    /// No runs: results are pushed and valid for this long.
    Ttl(Duration),
}

impl Check {
    /// A required check with the default pace.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: impl Into<CheckKind>) -> Self {
        let (severity, pace) = (Severity::Required, Pace::default());
        Self { name: name.into(), severity, pace, kind: kind.into() }
    }
}

impl Pace {
    /// The defaults for an interval.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        let mut pace = Self {
            interval,
            fast_interval: interval.min(Duration::from_secs(1)),
            down_interval: interval * 2,
            timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            jitter: 10,
            rise: 2,
            fall: 3,
            initial: Initial::Unknown,
            max_age: Duration::ZERO,
            flap: None,
            history: 200,
            cache: None,
            is_scheduled: true,
        };
        pace.max_age = pace.default_max_age();
        pace
    }

    /// The defaults of a check whose results are pushed and valid for `ttl`: the last one decides,
    /// as in Consul.
    #[must_use]
    pub fn pushed(ttl: Duration) -> Self {
        Self { rise: 1, fall: 1, max_age: ttl, ..Self::default() }
    }

    /// Three times the longest interval; at least a minute without a schedule.
    #[must_use]
    pub fn default_max_age(&self) -> Duration {
        let age = self.interval.max(self.fast_interval).max(self.down_interval) * 3;
        match self.cache {
            Some(cache) if !self.is_scheduled => age.max(cache * 3).max(Duration::from_mins(1)),
            _ => age,
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::every(Duration::from_secs(5))
    }
}

impl CheckKind {
    /// Parses a check from a URL: `http://..`, `https://..`, `tcp://HOST:PORT`, `unix:/PATH`,
    /// `tls://HOST`, `redis://HOST`, `grpc://HOST:PORT/SERVICE` or `grpcs://..`.
    #[must_use]
    pub fn parse(target: &str) -> Option<Self> {
        if let Some(address) = target.strip_prefix("tcp://") {
            return HostPort::parse(address, None).map(Address::Tcp).map(TcpCheck::new).map(Self::from);
        }
        if let Some(path) = target.strip_prefix("unix:") {
            return Address::parse(&format!("unix:{path}")).map(TcpCheck::new).map(Self::from);
        }
        if let Some(address) = target.strip_prefix("tls://") {
            let address = Address::Tcp(HostPort::parse(address, Some(443))?);
            return Some(TlsCheck::new(address).into());
        }
        if let Some(address) = target.strip_prefix("redis://") {
            let address = Address::Tcp(HostPort::parse(address, Some(6379))?);
            return Some(RedisCheck::new(address).into());
        }
        for (scheme, tls) in [("grpc://", None), ("grpcs://", Some(ClientTls::default()))] {
            if let Some(rest) = target.strip_prefix(scheme) {
                let (address, service) = rest.split_once('/').unwrap_or((rest, ""));
                let default = GrpcCheck::new(Address::Tcp(HostPort::parse(address, None)?));
                return Some(GrpcCheck { service: service.to_owned(), tls, ..default }.into());
            }
        }
        Url::parse(target).map(HttpCheck::new).map(Self::from)
    }

    /// The name of the kind.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Dns(_) => "dns",
            Self::Exec(_) => "exec",
            Self::File(_) => "file",
            Self::Gauge(_) => "gauge",
            Self::Grpc(_) => "grpc",
            Self::Http(_) => "http",
            Self::Redis(_) => "redis",
            Self::Tcp(_) => "tcp",
            Self::Tls(_) => "tls",
            Self::Ttl(_) => "ttl",
        }
    }

    /// Whether both check the same target in the same way, regardless of the lifetime of pushed
    /// results.
    #[must_use]
    pub fn asks_as(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Ttl(_), Self::Ttl(_))) || self == other
    }

    /// The host it connects to, unless it is this machine.
    #[must_use]
    pub fn remote(&self) -> Option<&HostPort> {
        match self {
            Self::Dns(dns) => (!dns.server.is_this_machine()).then_some(&dns.server),
            Self::Grpc(grpc) => grpc.address.remote(),
            Self::Http(http) => match &http.address {
                Some(place) => place.remote(),
                None => (!http.url.at.is_this_machine()).then_some(&http.url.at),
            },
            Self::Redis(redis) => redis.address.remote(),
            Self::Tcp(tcp) => tcp.address.remote(),
            Self::Tls(tls) => tls.address.remote(),
            Self::Exec(_) | Self::File(_) | Self::Gauge(_) | Self::Ttl(_) => None,
        }
    }
}

impl From<DnsCheck> for CheckKind {
    fn from(check: DnsCheck) -> Self {
        Self::Dns(Box::new(check))
    }
}

impl From<ExecCheck> for CheckKind {
    fn from(check: ExecCheck) -> Self {
        Self::Exec(check)
    }
}

impl From<FileCheck> for CheckKind {
    fn from(check: FileCheck) -> Self {
        Self::File(check)
    }
}

impl From<GaugeCheck> for CheckKind {
    fn from(check: GaugeCheck) -> Self {
        Self::Gauge(check)
    }
}

impl From<GrpcCheck> for CheckKind {
    fn from(check: GrpcCheck) -> Self {
        Self::Grpc(Box::new(check))
    }
}

impl From<HttpCheck> for CheckKind {
    fn from(check: HttpCheck) -> Self {
        Self::Http(Box::new(check))
    }
}

impl From<RedisCheck> for CheckKind {
    fn from(check: RedisCheck) -> Self {
        Self::Redis(Box::new(check))
    }
}

impl From<TcpCheck> for CheckKind {
    fn from(check: TcpCheck) -> Self {
        Self::Tcp(check)
    }
}

impl From<TlsCheck> for CheckKind {
    fn from(check: TlsCheck) -> Self {
        Self::Tls(Box::new(check))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (target, expected) in [
            ("http://a/x", Some("http a:80")),
            ("https://a", Some("http a:443")),
            ("tcp://[::1]:5", Some("tcp [::1]:5")),
            ("grpc://a:5/shop.Cart", Some("grpc a:5")),
            ("grpc://a:5", Some("grpc a:5")),
            ("grpcs://a:5/x", Some("grpc a:5")),
            ("tcp://a", None),
            ("tcp://a:5/x", None),
            ("grpc://a", None),
            ("a:5", None),
            ("udp://a:5", None),
            ("", None),
        ] {
            let found = CheckKind::parse(target);
            let found = found.map(|kind| {
                format!(
                    "{} {}",
                    kind.word(),
                    kind.remote().map_or_else(|| "[::1]:5".into(), ToString::to_string)
                )
            });
            assert_eq!(found.as_deref(), expected, "{target:?}");
        }
        for (target, is_tls) in [("grpc://a:5/shop.Cart", false), ("grpcs://a:5/shop.Cart", true)] {
            let Some(CheckKind::Grpc(grpc)) = CheckKind::parse(target) else { panic!("it is gRPC") };
            assert_eq!((grpc.service.as_str(), grpc.tls.is_some()), ("shop.Cart", is_tls), "{target}");
        }
    }
}
