//! `[check.NAME]`: what is looked at, how often, and what counts as well.
//!
//! Does not know about: endpoints, running a check.

mod http;
mod local;
mod place;
mod remote;

use doorbell_egress::PortChoice;
pub use doorbell_health::{FlapRule, Initial, Severity};
pub use http::{FieldValue, FollowRedirects, HttpCheck, HttpDegraded, HttpExpect, HttpVersion, Pattern};
pub use local::{BadIs, ExecCheck, FileCheck, GaugeCheck, Level, Metric};
pub use place::{ClientTls, HostPort, Place, Prefer, Resolve, Url};
pub use remote::{
    CertificateRule, DnsCheck, DnsCode, DnsRecord, GrpcCheck, GrpcMode, RedisCheck, TcpCheck, TlsCheck,
};
use std::net::IpAddr;
use std::time::Duration;

/// Checks of one configuration.
pub const CHECKS_MAX: usize = 10_000;

/// `[check.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Named by health endpoints, logs and metrics.
    pub name: String,
    /// What it means to an endpoint that does not list its checks.
    pub severity: Severity,
    /// When it runs and what follows from its results.
    pub pace: Pace,
    /// What is looked at.
    pub kind: CheckKind,
}

/// When a check runs and what follows from its results. `[check_defaults]` has the same keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the start of one run to the start of the next.
    pub interval: Duration,
    /// The same while it goes up or down, or nothing is known.
    pub fast_interval: Duration,
    /// The same while it is down.
    pub down_interval: Duration,
    /// Of a whole run.
    pub timeout: Duration,
    /// Of the part until there is a connection.
    pub connect_timeout: Duration,
    /// By how much a run may come late at random, in percent of the interval.
    pub jitter: u32,
    /// Successes from down to up.
    pub rise: u32,
    /// Failures from up to down.
    pub fall: u32,
    /// What is believed before the first result.
    pub initial: Initial,
    /// How old a result may be.
    pub max_age: Duration,
    /// When it is held down because it changes too often.
    pub flap: Option<FlapRule>,
    /// Results that are kept.
    pub history: u32,
    /// When somebody asks and the last run is older than this, another one follows at once. Without an interval of its own a check
    /// that has this runs only then, and else before what is known of it is older than `max_age`.
    pub cache: Option<Duration>,
    /// Whether it runs by `interval`, and not only when somebody asks or before `max_age` is over.
    pub is_scheduled: bool,
}

/// Where connections of checks come from. The kernel chooses what is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// Addresses of this machine, each of the target's family in turn.
    pub sources: Vec<IpAddr>,
    /// How the ports are chosen.
    pub ports: PortChoice,
}

/// What a check looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckKind {
    /// What a name server answers.
    Dns(Box<DnsCheck>),
    /// A program.
    Exec(ExecCheck),
    /// A file.
    File(FileCheck),
    /// How much there is of something on this machine.
    Gauge(GaugeCheck),
    /// The answer of `grpc.health.v1`.
    Grpc(Box<GrpcCheck>),
    /// The answer to an HTTP request.
    Http(Box<HttpCheck>),
    /// A Redis server.
    Redis(Box<RedisCheck>),
    /// A connection, and perhaps what is said on it.
    Tcp(TcpCheck),
    /// A TLS handshake and the certificates.
    Tls(Box<TlsCheck>),
    /// Nothing: somebody tells, and what was told holds for this long.
    Ttl(Duration),
}

impl Pace {
    /// The default with this interval.
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

    /// The default of a check whose results are pushed and hold for `ttl`, as Consul's: the last one decides alone.
    #[must_use]
    pub fn told(ttl: Duration) -> Self {
        Self { rise: 1, fall: 1, max_age: ttl, ..Self::default() }
    }

    /// Three times the longest of the intervals; a minute at least where nobody may ask for a while.
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
    /// A check as one word says it: `http://..`, `https://..`, `tcp://HOST:PORT`, `unix:/PATH`, `tls://HOST`, `redis://HOST`,
    /// `grpc://HOST:PORT/SERVICE` or `grpcs://..`.
    #[must_use]
    pub fn parse(target: &str) -> Option<Self> {
        if let Some(address) = target.strip_prefix("tcp://") {
            return HostPort::parse(address, None).map(Place::Tcp).map(TcpCheck::of).map(Self::Tcp);
        }
        if let Some(path) = target.strip_prefix("unix:") {
            return Place::parse(&format!("unix:{path}")).map(TcpCheck::of).map(Self::Tcp);
        }
        if let Some(address) = target.strip_prefix("tls://") {
            let address = Place::Tcp(HostPort::parse(address, Some(443))?);
            return Some(Self::Tls(Box::new(TlsCheck::of(address))));
        }
        if let Some(address) = target.strip_prefix("redis://") {
            let address = Place::Tcp(HostPort::parse(address, Some(6379))?);
            return Some(Self::Redis(Box::new(RedisCheck::of(address))));
        }
        for (scheme, tls) in [("grpc://", None), ("grpcs://", Some(ClientTls::default()))] {
            if let Some(rest) = target.strip_prefix(scheme) {
                let (address, service) = rest.split_once('/').unwrap_or((rest, ""));
                let default = GrpcCheck::of(Place::Tcp(HostPort::parse(address, None)?));
                return Some(Self::Grpc(Box::new(GrpcCheck { service: service.to_owned(), tls, ..default })));
            }
        }
        Url::parse(target).map(HttpCheck::of).map(Box::new).map(Self::Http)
    }

    /// The word in the file.
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

    /// Whether it asks the same as another one. How long a pushed result holds is no question.
    #[must_use]
    pub fn asks_as(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Ttl(_), Self::Ttl(_))) || self == other
    }

    /// The host it asks, where it is not this one.
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
