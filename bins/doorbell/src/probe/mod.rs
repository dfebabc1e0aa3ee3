//! One probe of one target, as a given prober sends it, and its result.
//!
//! Does not know about: command lines, schedules. Entry: [`Probe::run`].

mod checked;
mod exchange;
mod exported;
mod prober;
mod response;
#[cfg(test)]
mod tests;

use doorbell_checks::options::{CheckKind, ClientTls, HostPort, ProxyHeader, Url};
use doorbell_checks::{Phases, Seen};
use doorbell_proxy_config::is_credential;
pub(crate) use exported::{Exported, Kind};
pub(crate) use prober::Prober;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The target of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A database, a mail server or a WebSocket, as [`CheckKind::parse`] reads it.
    Check(String),
    /// `grpc://HOST:PORT/SERVICE` and `grpcs://..`
    Grpc { at: HostPort, service: String, is_tls: bool },
    /// `http://..` and `https://..`
    Http(Url),
    /// `icmp://HOST`: an echo.
    Icmp(HostPort),
    /// `redis://HOST:PORT`
    Redis(HostPort),
    /// `tcp://HOST:PORT`
    Tcp(HostPort),
    /// `tls://HOST:PORT`: a TLS handshake.
    Tls(HostPort),
    /// `udp://HOST:PORT`: a datagram, which must cause no ICMP error.
    Udp(HostPort),
    /// `unix:PATH`
    Unix(PathBuf),
}

/// The forms of a target, for error messages.
pub(crate) const TARGET_FORM: &str = "expected http://HOST:PORT/PATH, https://HOST/PATH, tcp://HOST:PORT, tls://HOST, grpc://HOST:PORT/SERVICE, grpcs://HOST:PORT/SERVICE, redis://HOST, udp://HOST:PORT, icmp://HOST, postgres://HOST, mysql://HOST, smtp://HOST, imap://HOST, pop3://HOST, ws://HOST:PORT/PATH, wss://HOST/PATH or unix:/PATH";

/// Parameters of a probe, which can be run any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) target: Target,
    pub(crate) prober: Prober,
    /// Healthy status codes; `None` for those of the prober.
    pub(crate) statuses: Option<Vec<RangeInclusive<u16>>>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) host: Option<String>,
    pub(crate) tls: ClientTls,
    /// PROXY header to send first.
    pub(crate) proxy_header: Option<ProxyHeader>,
    /// Whether to send HAProxy's state of the server (`http-check send-state`).
    pub(crate) send_state: bool,
    /// Maximum time from the name lookup to the last byte.
    pub(crate) timeout: Duration,
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The connection failed.
    ConnectFailed,
    Healthy,
    /// The TLS handshake failed, or the response is invalid.
    #[default]
    ProtocolFailed,
    TimedOut,
    /// The response is negative.
    Unhealthy,
}

/// The report of one probe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) verdict: Verdict,
    /// The reason, without a full stop.
    pub(crate) reason: String,
    pub(crate) status: Option<u16>,
    /// Sums over the first request and all redirects.
    pub(crate) phases: Phases,
    pub(crate) redirects: u32,
    /// Observations of the connection and of the last response.
    pub(crate) seen: Seen,
    pub(crate) total: Duration,
    /// Bytes sent on the last connection.
    pub(crate) sent: Vec<u8>,
    /// Received bytes, truncated to a limit.
    pub(crate) received: Vec<u8>,
}

impl Target {
    /// Whether TLS is used, or may be used after a redirect.
    pub(crate) fn may_be_tls(&self, prober: Prober) -> bool {
        match self {
            Self::Check(text) => text.starts_with("wss://"),
            Self::Grpc { is_tls, .. } => *is_tls,
            Self::Http(url) => url.is_https || prober.follows_redirects(),
            Self::Icmp(_) | Self::Redis(_) | Self::Tcp(_) | Self::Udp(_) | Self::Unix(_) => false,
            Self::Tls(_) => true,
        }
    }

    /// Parses a target; `None` if the text has none of the forms.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        type FromPlace = fn(HostPort) -> Target;
        let places: [(&str, Option<u16>, FromPlace); 4] = [
            ("tcp://", None, Self::Tcp),
            ("tls://", Some(443), Self::Tls),
            ("redis://", Some(6379), Self::Redis),
            ("udp://", None, Self::Udp),
        ];
        for (scheme, port, target) in places {
            if let Some(address) = text.strip_prefix(scheme) {
                return HostPort::parse(address, port).map(target);
            }
        }
        if let Some(host) = text.strip_prefix("icmp://") {
            return HostPort::parse_host(host).map(Self::Icmp);
        }
        for (scheme, is_tls) in [("grpc://", false), ("grpcs://", true)] {
            if let Some(rest) = text.strip_prefix(scheme) {
                let (address, service) = rest.split_once('/').unwrap_or((rest, ""));
                let at = HostPort::parse(address, None)?;
                return Some(Self::Grpc { at, service: service.to_owned(), is_tls });
            }
        }
        if let Some(path) = text.strip_prefix("unix:") {
            // 107 bytes and a NUL fit into sockaddr_un (unix(7)).
            let is_good = !path.is_empty() && path.len() <= 107 && !path.contains('\0');
            return is_good.then(|| Self::Unix(path.into()));
        }
        if let Some(url) = Url::parse(text) {
            return Some(Self::Http(url));
        }
        CheckKind::parse(text).map(|_kind| Self::Check(text.to_owned()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(text) => f.write_str(text),
            Self::Grpc { at, service, is_tls } => {
                let scheme = if *is_tls { "grpcs" } else { "grpc" };
                let slash = if service.is_empty() { "" } else { "/" };
                write!(f, "{scheme}://{at}{slash}{service}")
            }
            Self::Http(url) => url.fmt(f),
            Self::Icmp(host) => write!(f, "icmp://{host}"),
            Self::Redis(at) => write!(f, "redis://{at}"),
            Self::Tcp(at) => write!(f, "tcp://{at}"),
            Self::Tls(at) => write!(f, "tls://{at}"),
            Self::Udp(at) => write!(f, "udp://{at}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Probe {
    /// Returns the same probe without credentials, for another origin.
    fn without_credentials(&self) -> Self {
        let headers = self.headers.iter().filter(|(name, _)| !is_credential(name)).cloned().collect();
        let tls = ClientTls { cert: None, key: None, ..self.tls.clone() };
        Self { headers, host: None, tls, ..self.clone() }
    }

    /// Creates the default probe of a target by a prober.
    pub(crate) fn of(target: Target, prober: Prober) -> Self {
        let tls = ClientTls { verify: prober.verifies(), ..ClientTls::default() };
        let timeout = prober.timeout();
        Self {
            target,
            prober,
            statuses: None,
            headers: Vec::new(),
            host: None,
            tls,
            proxy_header: None,
            send_state: false,
            timeout,
        }
    }

    /// Runs the probe once. It ends within its timeout, regardless of the target's behavior.
    pub(crate) fn run(&self) -> Report {
        match &self.target {
            Target::Check(text) => checked::session(self, text),
            Target::Grpc { at, service, is_tls } => checked::grpc(self, at, service, *is_tls),
            Target::Icmp(host) => checked::icmp(self, host),
            Target::Udp(at) => checked::udp(self, at),
            Target::Http(_) | Target::Redis(_) | Target::Tcp(_) | Target::Tls(_) | Target::Unix(_) => {
                exchange::run(self)
            }
        }
    }

    /// Returns an error if a status is not healthy.
    fn judge(&self, status: u16) -> Result<(), String> {
        let is_well = match &self.statuses {
            Some(ranges) => ranges.iter().any(|range| range.contains(&status)),
            None => self.prober.accepts(status),
        };
        if is_well { Ok(()) } else { Err(format!("status {status}")) }
    }
}

impl Report {
    /// Converts the report into metrics of blackbox_exporter.
    pub(crate) fn exported(&self, probe: &Probe) -> String {
        let kind = match probe.target {
            Target::Grpc { .. } => Kind::Grpc,
            Target::Http(_) => Kind::Http,
            Target::Icmp(_) => Kind::Icmp,
            Target::Check(_)
            | Target::Redis(_)
            | Target::Tcp(_)
            | Target::Tls(_)
            | Target::Udp(_)
            | Target::Unix(_) => Kind::Tcp,
        };
        Exported { kind, timeout: probe.timeout, lookup: self.phases.resolve, report: self.clone() }
            .finished()
    }
}

impl Verdict {
    /// The word for the verdict in reports.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::ConnectFailed => "connect-failed",
            Self::Healthy => "healthy",
            Self::ProtocolFailed => "protocol-failed",
            Self::TimedOut => "timeout",
            Self::Unhealthy => "unhealthy",
        }
    }
}
