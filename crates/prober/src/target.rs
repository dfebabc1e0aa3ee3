//! The targets of probes, and their text.

use doorbell_checks::options::{CheckKind, HostPort, Url};
use std::fmt;
use std::path::PathBuf;

/// The target of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A database, a mail server or a WebSocket, as [`CheckKind::parse`] reads it.
    Check(String),
    /// `grpc://HOST:PORT/SERVICE` and `grpcs://..`
    Grpc {
        /// Host and port.
        at: HostPort,
        /// Service; empty for the whole server.
        service: String,
        /// Whether to use TLS.
        is_tls: bool,
    },
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
pub const TARGET_FORM: &str = "expected http://HOST:PORT/PATH, https://HOST/PATH, tcp://HOST:PORT, tls://HOST, grpc://HOST:PORT/SERVICE, grpcs://HOST:PORT/SERVICE, redis://HOST, udp://HOST:PORT, icmp://HOST, postgres://HOST, mysql://HOST, smtp://HOST, imap://HOST, pop3://HOST, ws://HOST:PORT/PATH, wss://HOST/PATH or unix:/PATH";

impl Target {
    /// Parses a target; `None` if the text has none of the forms.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
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
