//! Addresses of targets: hosts and ports, Unix sockets, URLs; which addresses of a name are used,
//! and TLS options.

use doorbell_config::{Entry, Problem, Section, Table, Text, Words};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Host and port of a TCP or UDP target.
    Tcp(HostPort),
    /// A Unix socket, written `unix:/PATH`.
    Unix(PathBuf),
}

/// Preferred address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum Prefer {
    /// The order of the system's resolver.
    Any,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// Which addresses of a name are used, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Resolve {
    /// Preferred address family.
    #[key(default = "any")]
    pub prefer: Prefer,
    /// Uses the other family when the preferred one has no address, or none that accepts.
    #[key(default = true)]
    pub fallback: bool,
    /// Checks every address, and all must succeed; if false, the first that accepts is enough. With
    /// types udp, dns and icmp that is the first with a route: no reply from it, or a refusal, does
    /// not lead to the next.
    #[key(default = false)]
    pub all: bool,
    /// Time for which addresses are reused.
    #[key(default = "30s", range = "0s..=1d")]
    pub ttl: Duration,
}

/// A host and, in most places, a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    /// Port; 0 for a host without a port.
    pub port: u16,
}

/// An `http` or `https` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme is `https`.
    pub is_https: bool,
    /// Host and port; the default port of the scheme if none is written.
    pub at: HostPort,
    /// Path and query, beginning with `/`.
    pub target: String,
}

/// TLS of a client.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct ClientTls {
    /// PEM file with the certificate authorities that may have signed the server's certificate.
    /// Default: those of the system.
    pub ca: Option<PathBuf>,
    /// PEM file with a client certificate, for servers that ask for one.
    pub cert: Option<PathBuf>,
    /// PEM file with the key of `cert`.
    pub key: Option<PathBuf>,
    /// Name in the handshake, which the server's certificate must have. Default: the host.
    pub server_name: Option<String>,
    /// Verifies the server's certificate; false accepts any, as the kubelet does.
    #[key(default = true)]
    pub verify: bool,
}

impl Address {
    /// Maximum length of a path in a socket address, without the terminating zero (unix(7)).
    const PATH_LEN_MAX: usize = 107;

    /// Parses `host:port` or `unix:/PATH`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("unix:") {
            Some(path) => (path.starts_with('/') && path.len() <= Self::PATH_LEN_MAX && !path.contains('\0'))
                .then(|| Self::Unix(path.into())),
            None => HostPort::parse(text, None).map(Self::Tcp),
        }
    }

    /// The host; `localhost` for a Unix socket.
    #[must_use]
    pub fn host(&self) -> &str {
        match self {
            Self::Tcp(at) => &at.host,
            Self::Unix(_) => "localhost",
        }
    }

    /// The host and port; `None` if the host is this machine.
    #[must_use]
    pub fn remote(&self) -> Option<&HostPort> {
        match self {
            Self::Tcp(at) => at.remote(),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) => at.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Text for Address {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        Self::parse(&text).or_else(|| {
            let message = format!("{text:?} is not a host and a port");
            let help = "write \"db.internal:5432\", \"192.0.2.1:80\", \"[2001:db8::1]:80\" or \"unix:/run/app.sock\"";
            entry.refuse("bad-value", message, help)
        })
    }

    fn blank() -> Self {
        Self::Tcp(HostPort::default())
    }
}

impl ClientTls {
    /// Whether certificates are read from files.
    #[must_use]
    pub const fn reads_files(&self) -> bool {
        self.ca.is_some() || self.cert.is_some()
    }

    /// All files that these options name.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let own = self.identity().into_iter().flat_map(|(cert, key)| [cert, key]);
        self.ca.as_deref().into_iter().chain(own)
    }

    /// Files of a client certificate and its key.
    #[must_use]
    pub fn identity(&self) -> Option<(&Path, &Path)> {
        Some((self.cert.as_deref()?, self.key.as_deref()?))
    }

    fn check(&self, at: &Section<'_>) {
        if let (Some(one), None) | (None, Some(one)) = (at.place("cert"), at.place("key")) {
            let problem = Problem::error("missing-key", one, "a certificate and its key are two files");
            at.problem(problem.help("write both `cert` and `key`"));
        }
        if let Some(ca) = at.right_place("ca").filter(|_| !self.verify) {
            let message = "`verify = false` accepts any certificate";
            let problem = Problem::error("contradiction", ca, message);
            at.problem(problem.help("remove `ca`, or `verify = false`"));
        }
    }
}

impl Resolve {
    fn check(&self, at: &Section<'_>) {
        let fallback = at.right_place("fallback").filter(|_| !self.fallback && self.prefer == Prefer::Any);
        if let Some(fallback) = fallback {
            let message = "`fallback = false` needs a preferred family";
            let problem = Problem::error("contradiction", fallback, message);
            at.problem(problem.help("add `prefer = \"ipv4\"` or `prefer = \"ipv6\"`"));
        }
    }
}

/// Placeholder for a value that is missing or invalid.
impl Default for HostPort {
    fn default() -> Self {
        Self { host: String::new(), port: 1 }
    }
}

impl HostPort {
    /// Parses `host:port`, `192.0.2.1:80` or `[2001:db8::1]:80`. With a `default_port`, the port is
    /// optional. `None` for any other text.
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

    /// Parses a host without a port: a name, `192.0.2.1`, `2001:db8::1` or `[2001:db8::1]`.
    #[must_use]
    pub fn parse_host(text: &str) -> Option<Self> {
        if text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
            return Some(Self { host: text.to_owned(), port: 0 });
        }
        let has_port = |text: &str| text.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let parsed = Self::parse(text, Some(1)).filter(|_| !has_port(text));
        parsed.map(|at| Self { port: 0, ..at })
    }

    /// Whether the host is a loopback address or a name of a loopback address.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(ip) => ip.to_canonical().is_loopback(),
            // An empty host is the placeholder for an invalid value.
            Err(_) => self.host.is_empty() || self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }

    /// The host and port; `None` if the host is this machine.
    #[must_use]
    pub fn remote(&self) -> Option<&Self> {
        (!self.is_this_machine()).then_some(self)
    }

    /// The host as written before a port or in `Host`: an IPv6 address in brackets.
    #[must_use]
    pub fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.port == 0 {
            return f.write_str(&self.host);
        }
        write!(f, "{}:{}", self.bracketed(), self.port)
    }
}

/// The form of a host without a port.
impl Text for HostPort {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        Self::parse_host(&text).or_else(|| {
            let help = "write a name or an address without a port, as in \"db.internal\" or \"2001:db8::1\"";
            entry.refuse("bad-value", format!("{text:?} is not a host"), help)
        })
    }

    fn blank() -> Self {
        Self::default()
    }
}

/// Placeholder for a value that is missing or invalid.
impl Default for Url {
    fn default() -> Self {
        Self { is_https: false, at: HostPort::default(), target: "/".to_owned() }
    }
}

impl Url {
    /// Parses `http://host/path?query`. `None` for any other text, including a URL with a user or a
    /// fragment.
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

    /// The value of `Host`, without a port that is the default of the scheme.
    #[must_use]
    pub fn authority(&self) -> String {
        let default_port = if self.is_https { 443 } else { 80 };
        if self.at.port == default_port { self.at.bracketed() } else { self.at.to_string() }
    }
}

impl Text for Url {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        Self::parse(&text).or_else(|| {
            let help = if !text.contains("://") {
                format!("write \"http://{text}\"")
            } else if text.contains('@') {
                "put the credentials into `headers`, not into the URL".to_owned()
            } else {
                "write \"http://host:port/path\" or \"https://host/path\", without `#`".to_owned()
            };
            let message = format!("{text:?} is not a URL that can be requested");
            entry.refuse("bad-value", message, help)
        })
    }

    fn blank() -> Self {
        Self::default()
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
    fn hosts_without_ports() {
        for (text, expected) in [
            ("a.test", Some("a.test")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("a.test:80", None),
            ("192.0.2.1:80", None),
            ("[2001:db8::1]:80", None),
            ("a b", None),
            ("", None),
        ] {
            let found = HostPort::parse_host(text).map(|at| at.to_string());
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
    fn loopback() {
        let is_local = |text| HostPort::parse(text, Some(1)).unwrap().is_this_machine();
        assert!(is_local("127.0.0.1") && is_local("127.9.9.9") && is_local("[::1]") && is_local("localhost"));
        assert!(is_local("[::ffff:127.0.0.1]") && is_local("app.localhost"));
        assert!(
            !is_local("10.0.0.1")
                && !is_local("db")
                && !is_local("notlocalhost")
                && !is_local("localhost.example")
        );
    }

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("db:5432", Some("db:5432")),
            ("unix:/run/a.sock", Some("unix:/run/a.sock")),
            ("unix:a.sock", None),
            ("unix:", None),
            ("unix:/a\0b", None),
            ("db", None),
        ] {
            assert_eq!(Address::parse(text).map(|at| at.to_string()).as_deref(), expected, "{text:?}");
        }
        assert!(Address::parse(&format!("unix:/{}", "a".repeat(107))).is_none());
        assert_eq!(Address::parse("unix:/a").unwrap().host(), "localhost");
    }
}
