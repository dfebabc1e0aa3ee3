//! One question to one target, in the manner of whoever is imitated, and what came of it.
//!
//! Does not know about: command lines, schedules. Entry: [`Ask::run`].

mod exchange;
mod grpc;
mod prober;
mod reply;
#[cfg(test)]
mod tests;

use crate::config::format_duration;
use crate::config::model::{ClientTls, HostPort, Url};
pub(crate) use prober::Prober;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `grpc://HOST:PORT/SERVICE`
    Grpc { at: HostPort, service: String },
    /// `http://..` and `https://..`
    Http(Url),
    /// `redis://HOST:PORT`
    Redis(HostPort),
    /// `tcp://HOST:PORT`
    Tcp(HostPort),
    /// `tls://HOST:PORT`: a handshake, and a certificate that is good.
    Tls(HostPort),
    /// `unix:PATH`
    Unix(PathBuf),
}

/// What a target looks like, for help texts.
pub(crate) const TARGET_FORM: &str = "write http://HOST:PORT/PATH, https://HOST/PATH, tcp://HOST:PORT, tls://HOST, grpc://HOST:PORT/SERVICE, redis://HOST or unix:/PATH";

/// A question, ready to be asked any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) target: Target,
    pub(crate) prober: Prober,
    /// Codes that are well, in the place of the prober's own.
    pub(crate) statuses: Option<Vec<RangeInclusive<u16>>>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) host: Option<String>,
    pub(crate) tls: ClientTls,
    /// For all of it, from the name to the last byte.
    pub(crate) timeout: Duration,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no connection.
    ConnectFailed,
    Healthy,
    /// What came is no answer.
    ProtocolFailed,
    TimedOut,
    /// There is an answer, and it is no.
    Unhealthy,
}

/// How long each part took; a part that was not reached took no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phases {
    pub(crate) resolve: Duration,
    pub(crate) connect: Duration,
    pub(crate) tls: Duration,
    /// From the last byte sent to the first byte back.
    pub(crate) processing: Duration,
    pub(crate) transfer: Duration,
}

/// What is known of the way there, and of the last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Of whoever accepted last.
    pub(crate) address: Option<IpAddr>,
    pub(crate) redirects: u32,
    /// Of HTTP: `1` or `1.1`.
    pub(crate) version: Option<&'static str>,
    /// As the answer says it.
    pub(crate) content_length: Option<usize>,
}

/// What came of one question.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) verdict: Verdict,
    /// In a sentence without a full stop.
    pub(crate) reason: String,
    pub(crate) status: Option<u16>,
    pub(crate) phases: Phases,
    pub(crate) facts: Facts,
    pub(crate) total: Duration,
    /// What was sent, as bytes.
    pub(crate) sent: Vec<u8>,
    /// What came, as far as it was kept.
    pub(crate) received: Vec<u8>,
}

impl Target {
    /// `None` when it is none of the forms.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(address) = text.strip_prefix("tcp://") {
            return HostPort::parse(address, None).map(Self::Tcp);
        }
        if let Some(address) = text.strip_prefix("tls://") {
            return HostPort::parse(address, Some(443)).map(Self::Tls);
        }
        if let Some(address) = text.strip_prefix("redis://") {
            return HostPort::parse(address, Some(6379)).map(Self::Redis);
        }
        if let Some(rest) = text.strip_prefix("grpc://") {
            let (address, service) = rest.split_once('/').unwrap_or((rest, ""));
            return Some(Self::Grpc { at: HostPort::parse(address, None)?, service: service.to_owned() });
        }
        if let Some(path) = text.strip_prefix("unix:") {
            // 107 bytes and a NUL fit into sockaddr_un (unix(7)).
            let is_good = !path.is_empty() && path.len() <= 107 && !path.contains('\0');
            return is_good.then(|| Self::Unix(path.into()));
        }
        Url::parse(text).map(Self::Http)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grpc { at, service } if service.is_empty() => write!(f, "grpc://{at}"),
            Self::Grpc { at, service } => write!(f, "grpc://{at}/{service}"),
            Self::Http(url) => url.fmt(f),
            Self::Redis(at) => write!(f, "redis://{at}"),
            Self::Tcp(at) => write!(f, "tcp://{at}"),
            Self::Tls(at) => write!(f, "tls://{at}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Ask {
    /// The default question to a target, by nobody in particular.
    pub(crate) fn of(target: Target, prober: Prober) -> Self {
        let tls = ClientTls { verify: prober.verifies(), ..ClientTls::default() };
        let timeout = prober.timeout();
        Self { target, prober, statuses: None, headers: Vec::new(), host: None, tls, timeout }
    }

    /// Asks once. Whatever the other side does, it ends in time.
    pub(crate) fn run(&self) -> Report {
        match &self.target {
            Target::Grpc { at, service } => grpc::run(self, at, service),
            Target::Http(_) | Target::Redis(_) | Target::Tcp(_) | Target::Tls(_) | Target::Unix(_) => {
                exchange::run(self)
            }
        }
    }

    /// Whether a status is well, and if it is not, why.
    fn judge(&self, status: u16) -> Result<(), String> {
        let is_well = match &self.statuses {
            Some(ranges) => ranges.iter().any(|range| range.contains(&status)),
            None => self.prober.accepts(status),
        };
        if is_well { Ok(()) } else { Err(format!("the status is {status}")) }
    }
}

impl Report {
    fn timed_out(timeout: Duration, doing: &str) -> (Verdict, String) {
        (Verdict::TimedOut, format!("no {doing} within {}", format_duration(timeout)))
    }
}

impl Verdict {
    /// The word in reports.
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
