//! `[check.NAME]` and `[check_defaults]` as they were written.
//!
//! Does not know about: defaults, which endpoint uses a check.

use super::super::model::{FlapRule, FollowRedirects, HostPort, Initial, Prefer, Secret, Severity, Url};
use super::super::problem::Problem;
use super::super::section::{At, Section, did_you_mean, quoted};
use super::super::statuses::{Codes, STATUSES_FORM, Statuses};
use crate::http::Method;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) name: At<String>,
    pub(crate) header: Range<usize>,
    pub(crate) severity: Option<At<Severity>>,
    pub(crate) pace: Pace,
    /// Nothing when `type` is missing or wrong.
    pub(crate) kind: Option<Kind>,
}

#[derive(Debug, Default)]
pub(crate) struct Pace {
    pub(crate) interval: Option<At<Duration>>,
    pub(crate) fast_interval: Option<At<Duration>>,
    pub(crate) down_interval: Option<At<Duration>>,
    pub(crate) timeout: Option<At<Duration>>,
    pub(crate) connect_timeout: Option<At<Duration>>,
    pub(crate) jitter: Option<At<u32>>,
    pub(crate) rise: Option<At<u32>>,
    pub(crate) fall: Option<At<u32>>,
    pub(crate) initial: Option<At<Initial>>,
    pub(crate) max_age: Option<At<Duration>>,
    pub(crate) flap: Option<At<Option<FlapRule>>>,
    pub(crate) history: Option<At<u32>>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    File(FileWatched),
    Grpc(Box<GrpcAsked>),
    Http(Box<HttpAsked>),
    Tcp(TcpAsked),
    Ttl(Option<At<Duration>>),
}

#[derive(Debug)]
pub(crate) struct FileWatched {
    /// Whether `path` is written, right or wrong.
    pub(crate) has_path: bool,
    pub(crate) path: Option<At<PathBuf>>,
    pub(crate) exists: Option<At<bool>>,
    pub(crate) contains: Option<At<String>>,
    pub(crate) max_age: Option<At<Duration>>,
}

#[derive(Debug)]
pub(crate) struct GrpcAsked {
    pub(crate) has_address: bool,
    pub(crate) address: Option<At<HostPort>>,
    pub(crate) service: Option<At<String>>,
    pub(crate) tls: Option<CheckTls>,
    pub(crate) max_latency: Option<At<Duration>>,
    pub(crate) degraded_latency: Option<At<Duration>>,
    pub(crate) resolve: Addresses,
}

#[derive(Debug)]
pub(crate) struct HttpAsked {
    pub(crate) has_url: bool,
    pub(crate) url: Option<At<Url>>,
    pub(crate) method: Option<At<Method>>,
    pub(crate) headers: Vec<(At<String>, At<String>)>,
    pub(crate) bearer: Option<At<Secret>>,
    pub(crate) follow_redirects: Option<At<FollowRedirects>>,
    pub(crate) body_bytes: Option<At<u32>>,
    pub(crate) tls: Option<CheckTls>,
    pub(crate) resolve: Addresses,
    pub(crate) expect: HttpWell,
    pub(crate) degraded: HttpWell,
}

/// `expect` or `degraded`.
#[derive(Debug, Default)]
pub(crate) struct HttpWell {
    pub(crate) status: Option<At<Statuses>>,
    pub(crate) body_contains: Option<At<String>>,
    pub(crate) json: Vec<(At<String>, At<String>)>,
    pub(crate) max_latency: Option<At<Duration>>,
}

#[derive(Debug)]
pub(crate) struct CheckTls {
    pub(crate) span: Range<usize>,
    pub(crate) ca: Option<At<PathBuf>>,
    pub(crate) cert: Option<At<PathBuf>>,
    pub(crate) key: Option<At<PathBuf>>,
    pub(crate) server_name: Option<At<String>>,
    pub(crate) verify: Option<At<bool>>,
}

#[derive(Debug)]
pub(crate) struct TcpAsked {
    pub(crate) has_address: bool,
    pub(crate) address: Option<At<HostPort>>,
    pub(crate) send: Option<At<String>>,
    pub(crate) send_hex: Option<At<Vec<u8>>>,
    pub(crate) contains: Option<At<String>>,
    pub(crate) contains_hex: Option<At<Vec<u8>>>,
    pub(crate) max_latency: Option<At<Duration>>,
    pub(crate) degraded_latency: Option<At<Duration>>,
    pub(crate) resolve: Addresses,
}

#[derive(Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) prefer: Option<At<Prefer>>,
    pub(crate) ttl: Option<At<Duration>>,
}

pub(crate) const SEVERITIES: [(&str, Severity); 3] =
    [("degrading", Severity::Degrading), ("info", Severity::Info), ("required", Severity::Required)];

pub(crate) const INITIALS: [(&str, Initial); 5] = [
    ("down", Initial::Down),
    ("fully-down", Initial::FullyDown),
    ("fully-up", Initial::FullyUp),
    ("unknown", Initial::Unknown),
    ("up", Initial::Up),
];

pub(crate) const REDIRECTS: [(&str, FollowRedirects); 3] =
    [("all", FollowRedirects::All), ("no", FollowRedirects::No), ("same-host", FollowRedirects::SameHost)];

pub(crate) const PREFERS: [(&str, Prefer); 3] =
    [("any", Prefer::Any), ("ipv4", Prefer::Ipv4), ("ipv6", Prefer::Ipv6)];

const TYPES: [&str; 5] = ["file", "grpc", "http", "tcp", "ttl"];

/// Ten a second are enough for anybody, and a day is more than any thing to look at takes.
pub(crate) const INTERVAL_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(86_400);
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(600);
const AGE_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30 * 86_400);
const RESOLVE_RANGE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);

/// A run comes late by less than half of an interval, so that it stays within its own.
const JITTER_MAX: u32 = 50;

/// What a check reads at most; it is kept until the run is over.
const BODY_RANGE: RangeInclusive<u32> = 0..=4 << 20;

/// Results that a board remembers of one check.
const HISTORY_MAX: u32 = 4096;
const _: () = assert!(HISTORY_MAX as usize == doorbell_health::limits::HISTORY_LEN_MAX);

/// Bytes that a `tcp` check sends or looks for.
const BYTES_MAX: usize = 4096;

impl Pace {
    pub(super) fn read_defaults(mut at: Section<'_>) -> Self {
        let pace = Self::read(&mut at);
        at.finish();
        pace
    }

    fn read(at: &mut Section<'_>) -> Self {
        Self {
            interval: at.duration("interval", INTERVAL_RANGE),
            fast_interval: at.duration("fast_interval", INTERVAL_RANGE),
            down_interval: at.duration("down_interval", INTERVAL_RANGE),
            timeout: at.duration("timeout", TIMEOUT_RANGE),
            connect_timeout: at.duration("connect_timeout", TIMEOUT_RANGE),
            jitter: at.integer("jitter", 0..=JITTER_MAX),
            rise: at.integer("rise", 1..=1000),
            fall: at.integer("fall", 1..=1000),
            initial: at.choice("initial", &INITIALS),
            max_age: at.duration("max_age", AGE_RANGE),
            flap: read_flap(at),
            history: at.integer("history", 0..=HISTORY_MAX),
        }
    }
}

/// A table, or `"off"`, which is `None` inside.
fn read_flap(at: &mut Section<'_>) -> Option<At<Option<FlapRule>>> {
    let value = at.value("flap")?;
    if value.get_ref().as_str() == Some("off") {
        return Some(At { value: None, span: value.span() });
    }
    let mut table = at.section("flap")?;
    let default = FlapRule::default();
    let window = table.duration("window", AGE_RANGE);
    let transitions = table.integer("max_transitions", 1..=doorbell_health::limits::FLAP_TRANSITIONS_MAX);
    let hold = table.duration("hold", AGE_RANGE);
    let span = table.span.clone();
    table.finish();
    let rule = FlapRule {
        window: window.map_or(default.window, |at| at.value),
        transitions_max: transitions.map_or(default.transitions_max, |at| at.value),
        hold: hold.map_or(default.hold, |at| at.value),
    };
    Some(At { value: Some(rule), span })
}

impl Check {
    pub(super) fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let header = at.span.clone();
        let severity = at.choice("severity", &SEVERITIES);
        let pace = Pace::read(&mut at);
        let kind = Kind::read(&name, &mut at);
        // Without a type nobody can say which keys are known.
        if kind.is_some() {
            at.finish();
        }
        Self { name, header, severity, pace, kind }
    }
}

impl Kind {
    fn read(name: &At<String>, at: &mut Section<'_>) -> Option<Self> {
        if at.value("type").is_none() {
            let message = format!("check `{}` does not say what it looks at", name.value);
            let problem = Problem::error("missing-key", at.span.clone(), message);
            at.problem(problem.help(format!("add `type = `, one of {}", quoted(&TYPES))));
            return None;
        }
        let word = at.string("type")?;
        Some(match word.value.as_str() {
            "file" => Self::File(FileWatched::read(at)),
            "grpc" => Self::Grpc(Box::new(GrpcAsked::read(at))),
            "http" => Self::Http(Box::new(HttpAsked::read(at))),
            "tcp" => Self::Tcp(TcpAsked::read(at)),
            "ttl" => Self::Ttl(at.duration("ttl", AGE_RANGE)),
            other => {
                let help =
                    did_you_mean(other, &TYPES).unwrap_or_else(|| format!("one of {}", quoted(&TYPES)));
                let message = format!("there is no check of type {other:?}");
                at.problem(Problem::error("bad-value", word.span, message).help(help));
                return None;
            }
        })
    }
}

impl FileWatched {
    fn read(at: &mut Section<'_>) -> Self {
        let has_path = at.value("path").is_some();
        let path = at.path("path");
        let mut file = Self { has_path, path, exists: None, contains: None, max_age: None };
        if let Some(mut expect) = at.section("expect") {
            file.exists = expect.bool("exists");
            file.contains = expect.string("contains");
            file.max_age = expect.duration("max_age", AGE_RANGE);
            expect.finish();
        }
        file
    }
}

impl GrpcAsked {
    fn read(at: &mut Section<'_>) -> Self {
        let mut grpc = Self {
            has_address: at.value("address").is_some(),
            address: read_address(at),
            service: at.string("service"),
            tls: at.section("tls").map(CheckTls::read),
            max_latency: None,
            degraded_latency: None,
            resolve: at.section("resolve").map(Addresses::read).unwrap_or_default(),
        };
        if let Some(expect) = at.section("expect") {
            grpc.max_latency = read_latency(expect);
        }
        if let Some(degraded) = at.section("degraded") {
            grpc.degraded_latency = read_latency(degraded);
        }
        grpc
    }
}

/// A table of which this is the only key.
fn read_latency(mut at: Section<'_>) -> Option<At<Duration>> {
    let latency = at.duration("max_latency", TIMEOUT_RANGE);
    at.finish();
    latency
}

impl HttpAsked {
    fn read(at: &mut Section<'_>) -> Self {
        Self {
            has_url: at.value("url").is_some(),
            url: read_url(at),
            method: read_method(at),
            headers: at.section("headers").map(|headers| headers.all_strings()).unwrap_or_default(),
            bearer: at.secret("bearer"),
            follow_redirects: at.choice("follow_redirects", &REDIRECTS),
            body_bytes: at.size("max_body", BODY_RANGE),
            tls: at.section("tls").map(CheckTls::read),
            resolve: at.section("resolve").map(Addresses::read).unwrap_or_default(),
            expect: at.section("expect").map(HttpWell::read).unwrap_or_default(),
            degraded: at.section("degraded").map(HttpWell::read).unwrap_or_default(),
        }
    }
}

impl HttpWell {
    fn read(mut at: Section<'_>) -> Self {
        let well = Self {
            status: read_statuses(&mut at),
            body_contains: at.string("body_contains"),
            json: at.section("json").map(|json| json.all_strings()).unwrap_or_default(),
            max_latency: at.duration("max_latency", TIMEOUT_RANGE),
        };
        for (pointer, _) in &well.json {
            if !pointer.value.is_empty() && !pointer.value.starts_with('/') {
                let message = format!("{:?} is not a JSON pointer", pointer.value);
                let problem = Problem::error("bad-value", pointer.span.clone(), message);
                at.problem(problem.help(format!("write \"/{}\"", pointer.value.replace('.', "/"))));
            }
        }
        at.finish();
        well
    }
}

impl CheckTls {
    fn read(mut at: Section<'_>) -> Self {
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

impl TcpAsked {
    fn read(at: &mut Section<'_>) -> Self {
        let mut tcp = Self {
            has_address: at.value("address").is_some(),
            address: read_address(at),
            send: at.string("send"),
            send_hex: read_hex(at, "send_hex"),
            contains: None,
            contains_hex: None,
            max_latency: None,
            degraded_latency: None,
            resolve: at.section("resolve").map(Addresses::read).unwrap_or_default(),
        };
        if let Some(mut expect) = at.section("expect") {
            tcp.contains = expect.string("contains");
            tcp.contains_hex = read_hex(&mut expect, "hex");
            tcp.max_latency = expect.duration("max_latency", TIMEOUT_RANGE);
            expect.finish();
        }
        if let Some(degraded) = at.section("degraded") {
            tcp.degraded_latency = read_latency(degraded);
        }
        tcp
    }
}

impl Addresses {
    fn read(mut at: Section<'_>) -> Self {
        let resolve = Self { prefer: at.choice("prefer", &PREFERS), ttl: at.duration("ttl", RESOLVE_RANGE) };
        at.finish();
        resolve
    }
}

fn read_url(at: &mut Section<'_>) -> Option<At<Url>> {
    let text = at.string("url")?;
    let url = Url::parse(&text.value);
    if url.is_none() {
        let help = if !text.value.contains("://") {
            format!("write \"http://{}\"", text.value)
        } else if text.value.contains('@') {
            "write who asks into `headers`, not into the URL".to_owned()
        } else {
            "write \"http://host:port/path\" or \"https://host/path\", without `#`".to_owned()
        };
        // One with a password is shown below, without it.
        let message = match text.value.contains('@') {
            true => "this is not a URL that can be asked".to_owned(),
            false => format!("{:?} is not a URL that can be asked", text.value),
        };
        at.problem(Problem::error("bad-value", text.span.clone(), message).help(help));
    }
    Some(At { value: url?, span: text.span })
}

fn read_address(at: &mut Section<'_>) -> Option<At<HostPort>> {
    let text = at.string("address")?;
    let address = HostPort::parse(&text.value, None);
    if address.is_none() {
        let message = format!("{:?} is not a host and a port", text.value);
        at.problem(
            Problem::error("bad-value", text.span.clone(), message)
                .help("write \"db.internal:5432\", \"192.0.2.1:80\" or \"[2001:db8::1]:80\""),
        );
    }
    Some(At { value: address?, span: text.span })
}

fn read_method(at: &mut Section<'_>) -> Option<At<Method>> {
    let methods: Vec<(&str, Method)> = Method::ALL
        .into_iter()
        .filter(|method| *method != Method::Connect)
        .map(|method| (method.as_str(), method))
        .collect();
    at.choice("method", &methods)
}

fn read_statuses(at: &mut Section<'_>) -> Option<At<Statuses>> {
    let At { value: texts, span } = at.strings("status")?;
    if texts.is_empty() {
        let problem = Problem::error("empty-list", span, "a list of codes without a code");
        at.problem(problem.help(format!("write {STATUSES_FORM}, or remove it")));
        return None;
    }
    let given = texts.len();
    let read = |text: At<String>| {
        let codes = Codes::parse(&text.value);
        if codes.is_none() {
            let message = format!("{:?} is not a status", text.value);
            let problem = Problem::error("bad-value", text.span, message);
            at.problem(problem.help(format!("write {STATUSES_FORM}, from 200 to 599")));
        }
        codes
    };
    let codes: Vec<Codes> = texts.into_iter().filter_map(read).collect();
    (codes.len() == given).then(|| At { value: codes.into_iter().collect(), span })
}

/// Bytes as pairs of hexadecimal digits, with spaces where one likes.
fn read_hex(at: &mut Section<'_>, key: &'static str) -> Option<At<Vec<u8>>> {
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
