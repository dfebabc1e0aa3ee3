//! What several kinds of checks have: a place, TLS, times, bytes.
//!
//! Does not know about: which kind has which.

use super::TIMEOUT_RANGE;
use doorbell_checks::options::{Address, HostPort, Prefer};
use doorbell_config::{At, Problem, Section};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const PREFERS: [(&str, Prefer); 3] =
    [("any", Prefer::Any), ("ipv4", Prefer::Ipv4), ("ipv6", Prefer::Ipv6)];

const RESOLVE_RANGE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);

/// Bytes that a `tcp` check sends or looks for.
const BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct CheckTls {
    pub(crate) span: Range<usize>,
    pub(crate) ca: Option<At<PathBuf>>,
    pub(crate) cert: Option<At<PathBuf>>,
    pub(crate) key: Option<At<PathBuf>>,
    pub(crate) server_name: Option<At<String>>,
    pub(crate) verify: Option<At<bool>>,
}

#[derive(Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) prefer: Option<At<Prefer>>,
    pub(crate) fallback: Option<At<bool>>,
    pub(crate) all: Option<At<bool>>,
    pub(crate) ttl: Option<At<Duration>>,
}

/// Where to connect, and whether that is written, right or wrong.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) is_written: bool,
    pub(crate) place: Option<At<Address>>,
}

/// `max_latency` of `expect` and of `degraded`.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) expect: Option<At<Duration>>,
    pub(crate) degraded: Option<At<Duration>>,
}

/// `certificate_expires_after` of `expect` and `certificate_expires_within` of `degraded`.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    pub(crate) expires_after: Option<At<Duration>>,
    pub(crate) expires_within: Option<At<Duration>>,
}

impl CheckTls {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let tls = Self {
            span: at.span.clone(),
            ca: at.path("ca"),
            cert: at.path("cert"),
            key: at.path("key"),
            server_name: at.string("server_name"),
            verify: at.bool("verify"),
        };
        at.finish();
        tls
    }
}

impl Addresses {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let Some(mut at) = at.section("resolve") else { return Self::default() };
        let resolve = Self {
            prefer: at.choice("prefer", &PREFERS),
            fallback: at.bool("fallback"),
            all: at.bool("all"),
            ttl: at.duration("ttl", RESOLVE_RANGE),
        };
        at.finish();
        resolve
    }
}

impl Target {
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        Self { is_written: at.value("address").is_some(), place: read_place(at) }
    }
}

impl Latencies {
    /// Of tables of which this is the only key.
    pub(super) fn read(at: &mut Section<'_>) -> Self {
        let (expect, degraded) = (at.section("expect"), at.section("degraded"));
        let read = |mut at: Section<'_>| {
            let latency = read_latency(&mut at);
            at.finish();
            latency
        };
        Self { expect: expect.and_then(read), degraded: degraded.and_then(read) }
    }
}

pub(super) fn read_latency(at: &mut Section<'_>) -> Option<At<Duration>> {
    at.duration("max_latency", TIMEOUT_RANGE)
}

impl Certificates {
    /// The part of `expect`.
    pub(super) fn read_expect(&mut self, at: &mut Section<'_>) {
        self.expires_after = at.duration("certificate_expires_after", LIFE_RANGE);
    }

    /// The part of `degraded`.
    pub(super) fn read_degraded(&mut self, at: &mut Section<'_>) {
        self.expires_within = at.duration("certificate_expires_within", LIFE_RANGE);
    }
}

/// What may be left of a certificate.
const LIFE_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(10 * 365 * 86_400);

fn read_place(at: &mut Section<'_>) -> Option<At<Address>> {
    let text = at.string("address")?;
    let place = Address::parse(&text.value);
    if place.is_none() {
        let message = format!("{:?} is not a host and a port", text.value);
        at.problem(Problem::error("bad-value", text.span.clone(), message).help(
            "write \"db.internal:5432\", \"192.0.2.1:80\", \"[2001:db8::1]:80\" or \"unix:/run/app.sock\"",
        ));
    }
    Some(At { value: place?, span: text.span })
}

/// A server and its port, which may be left out.
pub(super) fn read_server(
    at: &mut Section<'_>,
    key: &'static str,
    default_port: u16,
) -> Option<At<HostPort>> {
    let text = at.string(key)?;
    let server = HostPort::parse(&text.value, Some(default_port));
    if server.is_none() {
        let message = format!("{:?} is not a server", text.value);
        at.problem(
            Problem::error("bad-value", text.span.clone(), message)
                .help("write \"10.0.0.10\", \"10.0.0.10:53\" or \"[2001:db8::53]:53\""),
        );
    }
    Some(At { value: server?, span: text.span })
}

/// Bytes as pairs of hexadecimal digits, with spaces where one likes.
pub(super) fn read_hex(at: &mut Section<'_>, key: &'static str) -> Option<At<Vec<u8>>> {
    let text = at.string(key)?;
    let bytes = parse_hex(&text.value);
    if bytes.is_none() {
        let message = format!("`{key}` is not bytes in hexadecimal");
        at.problem(
            Problem::error("bad-value", text.span.clone(), message).help(format!(
                "write pairs of digits, as in \"02 0000 50494e47\", at most {BYTES_MAX} bytes"
            )),
        );
    }
    Some(At { value: bytes?, span: text.span })
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|char| !char.is_ascii_whitespace())
        .map(|char| char.to_digit(16))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let is_whole = rest.is_empty() && (1..=BYTES_MAX).contains(&pairs.len());
    is_whole.then(|| pairs.iter().filter_map(|[high, low]| u8::try_from(high << 4 | low).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal() {
        assert_eq!(parse_hex("02 0000 50494e47").as_deref(), Some(&b"\x02\0\0PING"[..]));
        assert_eq!(parse_hex("fF").as_deref(), Some(&b"\xff"[..]));
        for bad in ["", " ", "0", "0g", "é0", "0 0 0"] {
            assert_eq!(parse_hex(bad), None, "{bad:?}");
        }
        assert!(
            parse_hex(&"00".repeat(BYTES_MAX)).is_some() && parse_hex(&"00".repeat(BYTES_MAX + 1)).is_none()
        );
    }
}
