//! `[check.NAME]`: what is looked at, how often, and what counts as well.
//!
//! Does not know about: endpoints, running a check.

use super::super::statuses::Statuses;
use super::Secret;
use crate::http::Method;
pub use doorbell_health::{FlapRule, Initial, Severity};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
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
}

/// What a check looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckKind {
    /// A file.
    File(FileCheck),
    /// The answer of `grpc.health.v1`.
    Grpc(Box<GrpcCheck>),
    /// The answer to an HTTP request.
    Http(Box<HttpCheck>),
    /// A connection, and perhaps what is said on it.
    Tcp(TcpCheck),
    /// Nothing: somebody tells, and what was told holds for this long.
    Ttl(Duration),
}

/// `type = "grpc"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcCheck {
    /// Where to connect.
    pub address: HostPort,
    /// Which service is asked for; the empty name is the server as a whole.
    pub service: String,
    /// Without it the connection is plain.
    pub tls: Option<ClientTls>,
    /// How long it may take.
    pub max_latency: Option<Duration>,
    /// What takes longer is well with a complaint.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are taken.
    pub resolve: Resolve,
}

/// `type = "http"`
#[derive(Clone, Debug, PartialEq)]
pub struct HttpCheck {
    /// With scheme, host and path.
    pub url: Url,
    /// The method.
    pub method: Method,
    /// Further header fields; `Host` replaces that of the URL.
    pub headers: Vec<(String, String)>,
    /// Sent as `Authorization: Bearer`, to the host of the URL only.
    pub bearer: Option<Secret>,
    /// Which redirects are followed.
    pub follow_redirects: FollowRedirects,
    /// Bytes of the content that are read.
    pub body_bytes: u32,
    /// For `https`.
    pub tls: ClientTls,
    /// Which addresses of a name are taken.
    pub resolve: Resolve,
    /// What is well.
    pub expect: HttpExpect,
    /// What is well with a complaint.
    pub degraded: HttpDegraded,
}

/// Of an `http` check: what is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpExpect {
    /// The codes.
    pub status: Statuses,
    /// A part of the content.
    pub body_contains: Option<String>,
    /// Values in JSON content, each with its pointer (RFC 6901).
    pub json: Vec<(String, String)>,
    /// How long it may take.
    pub max_latency: Option<Duration>,
}

/// Of an `http` check: what is well with a complaint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpDegraded {
    /// The codes, whatever the content is.
    pub status: Statuses,
    /// A part of the content.
    pub body_contains: Option<String>,
    /// Values in JSON content, each with its pointer.
    pub json: Vec<(String, String)>,
    /// What takes longer.
    pub max_latency: Option<Duration>,
}

/// Which redirects are followed; at most ten, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowRedirects {
    /// All.
    All,
    /// None.
    No,
    /// To the same host, as the kubelet does.
    #[default]
    SameHost,
}

/// How a check talks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// Who signs the server's certificate; without it, whom this system trusts.
    pub ca: Option<PathBuf>,
    /// Our certificate, with its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that is asked for; without it, the host.
    pub server_name: Option<String>,
    /// Whether the certificate is looked at. The kubelet does not.
    pub verify: bool,
}

/// `type = "tcp"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpCheck {
    /// Where to connect.
    pub address: HostPort,
    /// What is sent first.
    pub send: Vec<u8>,
    /// What must come.
    pub contains: Vec<u8>,
    /// How long it may take.
    pub max_latency: Option<Duration>,
    /// What takes longer is well with a complaint.
    pub degraded_latency: Option<Duration>,
    /// Which addresses of a name are taken.
    pub resolve: Resolve,
}

/// `type = "file"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCheck {
    /// Which file.
    pub path: PathBuf,
    /// Whether it must be there, or must not.
    pub exists: bool,
    /// A part of its content.
    pub contains: Option<String>,
    /// How long ago it may have changed.
    pub max_age: Option<Duration>,
}

/// Which addresses of a name are taken, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// Which come first.
    pub prefer: Prefer,
    /// How long they are not asked for again.
    pub ttl: Duration,
}

/// Which addresses come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// As the system orders them.
    #[default]
    Any,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

/// An address of the web.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether it begins with `https`.
    pub is_https: bool,
    /// With the port of the scheme if none is written.
    pub at: HostPort,
    /// Path and query, beginning with `/`.
    pub target: String,
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
        };
        pace.max_age = pace.default_max_age();
        pace
    }

    /// The default of a check whose results are pushed and hold for `ttl`, as Consul's: the last one decides alone.
    #[must_use]
    pub fn told(ttl: Duration) -> Self {
        Self { rise: 1, fall: 1, max_age: ttl, ..Self::default() }
    }

    /// Three times the longest of the intervals.
    #[must_use]
    pub fn default_max_age(&self) -> Duration {
        self.interval.max(self.fast_interval).max(self.down_interval) * 3
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::every(Duration::from_secs(5))
    }
}

impl CheckKind {
    /// A check as one word says it: `http://..`, `https://..`, `tcp://HOST:PORT` or `grpc://HOST:PORT/SERVICE`.
    #[must_use]
    pub fn parse(target: &str) -> Option<Self> {
        if let Some(address) = target.strip_prefix("tcp://") {
            return HostPort::parse(address, None).map(TcpCheck::of).map(Self::Tcp);
        }
        if let Some(rest) = target.strip_prefix("grpc://") {
            let (address, service) = rest.split_once('/').unwrap_or((rest, ""));
            let default = GrpcCheck::of(HostPort::parse(address, None)?);
            return Some(Self::Grpc(Box::new(GrpcCheck { service: service.to_owned(), ..default })));
        }
        Url::parse(target).map(HttpCheck::of).map(Box::new).map(Self::Http)
    }

    /// The word in the file.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Grpc(_) => "grpc",
            Self::Http(_) => "http",
            Self::Tcp(_) => "tcp",
            Self::Ttl(_) => "ttl",
        }
    }

    /// The host it asks, where it is not this one.
    #[must_use]
    pub fn remote(&self) -> Option<&HostPort> {
        let at = match self {
            Self::Grpc(grpc) => &grpc.address,
            Self::Http(http) => &http.url.at,
            Self::Tcp(tcp) => &tcp.address,
            Self::File(_) | Self::Ttl(_) => return None,
        };
        (!at.is_this_machine()).then_some(at)
    }
}

impl Default for HttpExpect {
    fn default() -> Self {
        Self { status: Statuses::successful(), body_contains: None, json: Vec::new(), max_latency: None }
    }
}

impl Default for ClientTls {
    fn default() -> Self {
        Self { ca: None, identity: None, server_name: None, verify: true }
    }
}

impl Default for Resolve {
    fn default() -> Self {
        Self { prefer: Prefer::Any, ttl: Duration::from_secs(30) }
    }
}

impl HttpCheck {
    /// Bytes that are read if nothing else is said. The kubelet reads 10 KiB.
    pub const BODY_BYTES: u32 = 64 << 10;

    /// The default for this address.
    #[must_use]
    pub fn of(url: Url) -> Self {
        Self {
            url,
            method: Method::Get,
            headers: Vec::new(),
            bearer: None,
            follow_redirects: FollowRedirects::default(),
            body_bytes: Self::BODY_BYTES,
            tls: ClientTls::default(),
            resolve: Resolve::default(),
            expect: HttpExpect::default(),
            degraded: HttpDegraded::default(),
        }
    }
}

impl GrpcCheck {
    /// The default for this address: the server as a whole, without TLS.
    #[must_use]
    pub fn of(address: HostPort) -> Self {
        Self {
            address,
            service: String::new(),
            tls: None,
            max_latency: None,
            degraded_latency: None,
            resolve: Resolve::default(),
        }
    }
}

impl TcpCheck {
    /// The default for this address: it is enough that somebody accepts.
    #[must_use]
    pub fn of(address: HostPort) -> Self {
        Self {
            address,
            send: Vec::new(),
            contains: Vec::new(),
            max_latency: None,
            degraded_latency: None,
            resolve: Resolve::default(),
        }
    }
}

impl FileCheck {
    /// The default for this file: it is there.
    #[must_use]
    pub fn of(path: PathBuf) -> Self {
        Self { path, exists: true, contains: None, max_age: None }
    }
}

impl HostPort {
    /// `host:port`, `192.0.2.1:80` or `[2001:db8::1]:80`; where `default_port` is given the port may be left out. `None` when it is
    /// none of these.
    #[must_use]
    pub fn parse(text: &str, default_port: Option<u16>) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']')?;
                let port = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
                (host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()).then_some(host)?, port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        let is_port = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            Some(port) => Some(port).filter(is_port)?.parse().ok()?,
            None => default_port?,
        };
        let is_host = (1..=253).contains(&host.len()) && host.bytes().all(allowed);
        (is_host && port != 0).then(|| Self { host: host.to_owned(), port })
    }

    /// Whether it is an address of the loopback, or a name of it.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(ip) => ip.to_canonical().is_loopback(),
            Err(_) => self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }

    /// As it stands in front of a port or in `Host`: an IPv6 address in brackets.
    #[must_use]
    pub fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bracketed(), self.port)
    }
}

impl Url {
    /// `http://host/path?query`. `None` when it is none, or has a user or a fragment.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (is_https, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = match target.starts_with('/') {
            true => target.to_owned(),
            false => format!("/{target}"),
        };
        let is_plain = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        let default_port = if is_https { 443 } else { 80 };
        let at = HostPort::parse(authority, Some(default_port)).filter(|_| is_plain)?;
        Some(Self { is_https, at, target })
    }

    /// The value of `Host`: without the port of the scheme.
    #[must_use]
    pub fn authority(&self) -> String {
        let default_port = if self.is_https { 443 } else { 80 };
        if self.at.port == default_port { self.at.bracketed() } else { self.at.to_string() }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (text, default_port, expected) in [
            ("db:5432", None, Some("db:5432")),
            ("127.0.0.1:80", None, Some("127.0.0.1:80")),
            ("[::1]:80", None, Some("[::1]:80")),
            ("[::1]", Some(80), Some("[::1]:80")),
            ("db", Some(443), Some("db:443")),
            ("db", None, None),
            ("db:", None, None),
            ("db:0", None, None),
            ("db:65536", None, None),
            ("db:+1", None, None),
            (":80", None, None),
            ("::1:80", None, None),
            ("[db]:80", None, None),
            ("[127.0.0.1]:80", None, None),
            ("[::1]80", None, None),
            ("a b:80", None, None),
            ("a@b:80", None, None),
            ("", Some(80), None),
        ] {
            let found = HostPort::parse(text, default_port).map(|at| at.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn urls() {
        for (text, expected) in [
            ("http://a", Some("http://a/")),
            ("http://a:80/", Some("http://a/")),
            ("https://a:443/x?y=1", Some("https://a/x?y=1")),
            ("http://a:443?y", Some("http://a:443/?y")),
            ("https://[::1]:8443/x", Some("https://[::1]:8443/x")),
            ("http://127.0.0.1:3000/healthz", Some("http://127.0.0.1:3000/healthz")),
            ("a", None),
            ("ftp://a/", None),
            ("HTTP://a/", None),
            ("http://", None),
            ("http:///x", None),
            ("http://user@a/", None),
            ("http://user:secret@a/", None),
            ("http://a/x#y", None),
            ("http://a/ x", None),
            ("http://a/\r\nx", None),
        ] {
            assert_eq!(Url::parse(text).map(|url| url.to_string()).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn targets() {
        for (target, expected) in [
            ("http://a/x", Some("http a:80")),
            ("https://a", Some("http a:443")),
            ("tcp://[::1]:5", Some("tcp [::1]:5")),
            ("grpc://a:5/shop.Cart", Some("grpc a:5")),
            ("grpc://a:5", Some("grpc a:5")),
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
        let Some(CheckKind::Grpc(grpc)) = CheckKind::parse("grpc://a:5/shop.Cart") else {
            panic!("it is gRPC")
        };
        assert_eq!(grpc.service, "shop.Cart");
    }

    #[test]
    fn what_is_near() {
        let near = |text| HostPort::parse(text, Some(1)).unwrap().is_this_machine();
        assert!(near("127.0.0.1") && near("127.9.9.9") && near("[::1]") && near("localhost"));
        assert!(near("[::ffff:127.0.0.1]") && near("app.localhost"));
        assert!(!near("10.0.0.1") && !near("db") && !near("notlocalhost") && !near("localhost.example"));
    }
}
