//! Options of `tcp`, `tls`, `redis` and `dns` checks, and limits on the remaining lifetime of
//! certificates.

use super::address::{Address, ClientTls, HostPort, Resolve};
use super::latency::LatencyRule;
use super::payload::Payload;
use super::proxy_header::ProxyHeader;
use super::target::target;
use doorbell_config::{Entry, Problem, Secret, Section, Table, Words};
use std::net::IpAddr;
use std::time::Duration;

/// A connection, and optionally bytes on it.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct TcpCheck {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"127.0.0.1:5432\"")]
    pub address: Address,
    /// PROXY header before everything else: v1 or v2 with the addresses of the connection, or local
    /// (version 2 without addresses).
    pub proxy_protocol: Option<ProxyHeader>,
    /// Bytes to send after connecting, and to expect.
    #[key(flatten)]
    pub payload: Payload,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

/// A TLS handshake and the certificates.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct TlsCheck {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"queue.internal:8883\"")]
    pub address: Address,
    /// PROXY header before everything else: v1 or v2 with the addresses of the connection, or local
    /// (version 2 without addresses).
    pub proxy_protocol: Option<ProxyHeader>,
    /// TLS of the connection. With `cert`, the check fails if the server refuses the certificate. A
    /// TLS 1.3 server that sends no session ticket and keeps the connection open delays the result
    /// by half of the remaining `timeout`.
    pub tls: ClientTls,
    /// Limits on the remaining lifetime of the certificates.
    #[key(flatten)]
    pub certificate: CertificateRule,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

/// Limits on the remaining lifetime of the certificates of the verified chain. Without
/// verification, all certificates that the server sends count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct CertificateRule {
    /// The check fails if a certificate of the verified chain has less remaining lifetime than
    /// this.
    #[key(name = "certificate_expires_after", table = "expect", range = "1s..=3650d")]
    pub expires_after: Option<Duration>,
    /// The result is degraded if a certificate of the verified chain has less remaining lifetime
    /// than this.
    #[key(name = "certificate_expires_within", table = "degraded", range = "1s..=3650d")]
    pub expires_within: Option<Duration>,
}

/// `PING` of a Redis server.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct RedisCheck {
    /// Address to connect to, "host:port" or "unix:/path". Required.
    #[key(required = "\"127.0.0.1:6379\"")]
    pub address: Address,
    /// User of AUTH. Default: the default user of the server.
    pub username: Option<String>,
    /// Password of AUTH, preferably ${file:PATH}. Default: no AUTH.
    pub password: Option<Secret>,
    /// TLS of the connection. Default: none.
    #[key(shown)]
    pub tls: Option<ClientTls>,
    /// Expected reply to PING. Default: PONG.
    #[key(table = "expect", default = "PONG")]
    pub reply: String,
    /// Key whose existence means maintenance.
    #[key(table = "expect")]
    pub maintenance_key: Option<String>,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

/// A question to a name server.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct DnsCheck {
    /// Name server, such as "10.0.0.10" or "10.0.0.10:5353". Required.
    #[key(required = "\"10.0.0.10\"", read = server)]
    pub server: HostPort,
    /// Name to look up. Required.
    #[key(required = "\"example.com\"", read = name)]
    pub name: String,
    /// Record type.
    #[key(default = "A")]
    pub record: DnsRecord,
    /// Expected response code.
    #[key(table = "expect", default = "NOERROR")]
    pub code: DnsCode,
    /// Records that the answer must contain.
    #[key(table = "expect")]
    pub contains: Vec<String>,
    /// Minimum number of records. Default: 1, or 0 if the expected `code` is not NOERROR.
    #[key(table = "expect", range = 0..=64, default_with = Self::default_answers)]
    pub min_answers: u32,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

/// Record types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum DnsRecord {
    #[word("A")]
    A,
    #[word("AAAA")]
    Aaaa,
    #[word("CAA")]
    Caa,
    #[word("CNAME")]
    Cname,
    #[word("MX")]
    Mx,
    #[word("NS")]
    Ns,
    #[word("PTR")]
    Ptr,
    #[word("SOA")]
    Soa,
    #[word("SRV")]
    Srv,
    #[word("TXT")]
    Txt,
}

/// Response codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum DnsCode {
    /// `NOERROR`
    #[word("NOERROR")]
    NoError,
    /// `NXDOMAIN`
    #[word("NXDOMAIN")]
    NxDomain,
    /// `REFUSED`
    #[word("REFUSED")]
    Refused,
}

impl CertificateRule {
    /// Reports limits that have no effect, because the check does not use TLS.
    #[cfg(any(feature = "mail", feature = "mysql", feature = "postgres", feature = "websocket"))]
    pub(super) fn needs_tls(at: &Section<'_>, has_tls: bool, help: &str) {
        for key in ["expect.certificate_expires_after", "degraded.certificate_expires_within"] {
            if let Some(place) = at.right_place(key).filter(|_| !has_tls) {
                let problem = Problem::error("missing-key", place, "without TLS there is no certificate");
                at.problem(problem.help(help));
            }
        }
    }

    /// Whether the rule has no requirement.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.expires_after.is_none() && self.expires_within.is_none()
    }

    /// Reports a limit of `degraded` that is not above the limit of `expect`: it has no effect,
    /// because the check is down with such a certificate.
    fn check(&self, at: &Section<'_>) {
        let keys = ["expect.certificate_expires_after", "degraded.certificate_expires_within"];
        let [after_place, within_place] = keys.map(|key| at.right_place(key));
        if let (Some(after), Some(within)) = (self.expires_after, self.expires_within)
            && let (Some(after_place), Some(within_place)) = (after_place, within_place)
            && within <= after
        {
            let message = "with this remaining lifetime the check is already down, so never degraded";
            at.problem(
                Problem::error("contradiction", within_place, message)
                    .also(after_place, "down from here on")
                    .help("make `certificate_expires_within` the longer one"),
            );
        }
    }
}

target!(check: TcpCheck, check.address.remote());

impl TcpCheck {
    /// A check that succeeds if the connection is accepted.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::default() }
    }
}

target!(check: TlsCheck, check.address.remote(), Some(&check.tls));

impl TlsCheck {
    /// A handshake, verified by the roots of this system.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::default() }
    }
}

target!(check: RedisCheck, check.address.remote(), check.tls.as_ref());

impl RedisCheck {
    /// `PING` without TLS and authentication.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        if let (Some(username), None) = (at.right_place("username"), at.place("password")) {
            let problem = Problem::error("missing-key", username, "a name without a password");
            at.problem(problem.help("add `password = \"${file:/run/secrets/redis}\"`"));
        }
    }
}

target!(check: DnsCheck, check.server.remote());

impl DnsCheck {
    /// Succeeds if the name has an IPv4 address.
    #[must_use]
    pub fn new(server: HostPort, name: String) -> Self {
        Self { server, name, ..Self::default() }
    }

    /// Whether `text` may be a record of the requested type.
    #[must_use]
    pub fn can_contain(&self, text: &str) -> bool {
        match self.record {
            DnsRecord::A => text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()),
            DnsRecord::Aaaa => text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()),
            _ => !text.is_empty(),
        }
    }

    fn default_answers(&self) -> u32 {
        u32::from(self.code == DnsCode::NoError)
    }

    fn check(&self, at: &Section<'_>) {
        let contains = at.right_place("expect.contains");
        for text in self.contains.iter().filter(|text| !self.can_contain(text)) {
            let message = format!("{text:?} cannot be a record of this type");
            let problem = Problem::error("bad-value", contains.clone().unwrap_or_default(), message);
            at.problem(problem.help("an A record is an IPv4 address, an AAAA record an IPv6 address"));
        }
        let least = at.right_place("expect.min_answers").filter(|_| self.min_answers > 0);
        let wants_answers = contains.or(least);
        if let (Some(place), true) = (wants_answers, self.code != DnsCode::NoError) {
            let problem = Problem::error("contradiction", place, "an error response has no answers");
            at.problem(problem.help("remove it, or `code`"));
        }
    }
}

/// Parses a DNS name (RFC 1035 2.3.4), which may contain underscores (RFC 2782).
fn name(entry: &Entry<'_>) -> Option<String> {
    let text = entry.string()?;
    let plain = text.strip_suffix('.').unwrap_or(&text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_*".contains(&byte))
    };
    if plain.is_empty() || (plain.len() <= 253 && plain.split('.').all(is_label)) {
        return Some(text);
    }
    let help = "write it in ASCII, as in \"example.com\" or \"10.2.0.192.in-addr.arpa\"";
    entry.refuse("bad-value", format!("{text:?} is not a valid DNS name"), help)
}

/// Reads a host and an optional port.
fn server(entry: &Entry<'_>) -> Option<HostPort> {
    let text = entry.string()?;
    HostPort::parse(&text, Some(53)).or_else(|| {
        let help = "write \"10.0.0.10\", \"10.0.0.10:53\" or \"[2001:db8::53]:53\"";
        entry.refuse("bad-value", format!("{text:?} is not a server"), help)
    })
}
