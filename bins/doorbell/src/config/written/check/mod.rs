//! `[check.NAME]` and `[check_defaults]` as they were written.
//!
//! Does not know about: defaults, which endpoint uses a check.

mod http;
mod local;
mod parts;
mod remote;

pub(crate) use http::{Basic, HTTP_VERSIONS, HttpAsked, REDIRECTS};
pub(crate) use local::{ExecAsked, FileWatched, GaugeAsked, METRICS};
pub(crate) use parts::{Addresses, Certificates, CheckTls, Latencies, PREFERS};
pub(crate) use remote::{
    CODES, DnsAsked, GrpcAsked, MODES as GRPC_MODES, RECORDS, RedisAsked, TcpAsked, TlsAsked,
};

use doorbell_config::{At, Problem, Section, did_you_mean, quoted};
use doorbell_egress::{PortChoice, Strategy};
use doorbell_health::{FlapRule, Initial, Severity};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::de::DeValue;

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
    pub(crate) cache: Option<At<Duration>>,
}

/// `[check_defaults]`
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) pace: Pace,
    pub(crate) egress: Egress,
}

#[derive(Debug, Default)]
pub(crate) struct Egress {
    pub(crate) source: Vec<At<IpAddr>>,
    pub(crate) port_window: Option<At<PortChoice>>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Dns(Box<DnsAsked>),
    Exec(ExecAsked),
    File(FileWatched),
    Gauge(Box<GaugeAsked>),
    Grpc(Box<GrpcAsked>),
    Http(Box<HttpAsked>),
    Redis(Box<RedisAsked>),
    Tcp(Box<TcpAsked>),
    Tls(Box<TlsAsked>),
    Ttl {
        /// Whether `ttl` is written, right or wrong.
        has_ttl: bool,
        ttl: Option<At<Duration>>,
    },
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

pub(crate) const TYPES: [&str; 10] =
    ["dns", "exec", "file", "gauge", "grpc", "http", "redis", "tcp", "tls", "ttl"];

/// Ten a second are enough for anybody, and a day is more than any thing to look at takes.
pub(crate) const INTERVAL_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(86_400);
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(600);
const AGE_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30 * 86_400);
/// A run comes late by less than half of an interval, so that it stays within its own.
const JITTER_MAX: u32 = 50;

/// Results that a board remembers of one check.
const HISTORY_MAX: u32 = 4096;
const _: () = assert!(HISTORY_MAX as usize == doorbell_health::limits::HISTORY_LEN_MAX);

impl Defaults {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let pace = Pace::read(&mut at);
        let egress = at.section("egress").map(Egress::read).unwrap_or_default();
        at.finish();
        Self { pace, egress }
    }
}

impl Egress {
    fn read(mut at: Section<'_>) -> Self {
        let egress = Self { source: read_sources(&mut at), port_window: read_ports(&mut at) };
        at.finish();
        egress
    }
}

fn read_sources(at: &mut Section<'_>) -> Vec<At<IpAddr>> {
    let texts = at.strings("source").map(|texts| texts.value).unwrap_or_default();
    let read = |text: At<String>| match text.value.parse::<IpAddr>() {
        Ok(ip) if !ip.is_unspecified() && !ip.is_multicast() => Some(At { value: ip, span: text.span }),
        _ => {
            let message = format!("{:?} is not an address to connect from", text.value);
            let problem = Problem::error("bad-value", text.span, message);
            at.problem(
                problem.help("write addresses of this machine, as in [\"192.0.2.10\", \"2001:db8::10\"]"),
            );
            None
        }
    };
    texts.into_iter().filter_map(read).collect()
}

/// A word, or the number of ports of a window.
fn read_ports(at: &mut Section<'_>) -> Option<At<PortChoice>> {
    let value = at.value("port_window")?;
    if let DeValue::Integer(_) = value.get_ref() {
        let width = at.integer("port_window", 1..=65_535)?;
        let number = u16::try_from(width.value).ok().and_then(NonZeroU16::new)?;
        return Some(At { value: PortChoice::Only(Strategy::Window(number)), span: width.span });
    }
    if !value.get_ref().is_str() {
        return at.wrong_type(value, "\"auto\", \"off\" or a number of ports");
    }
    let text = at.string("port_window")?;
    match text.value.parse() {
        Ok(value) => Some(At { value, span: text.span }),
        Err(help) => {
            let message = format!("`port_window` cannot be {:?}", text.value);
            at.problem(Problem::error("bad-value", text.span, message).help(help));
            None
        }
    }
}

impl Pace {
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
            cache: at.duration("cache", INTERVAL_RANGE),
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
            "dns" => Self::Dns(Box::new(DnsAsked::read(at))),
            "exec" => Self::Exec(ExecAsked::read(at)),
            "file" => Self::File(FileWatched::read(at)),
            "gauge" => Self::Gauge(Box::new(GaugeAsked::read(at))),
            "grpc" => Self::Grpc(Box::new(GrpcAsked::read(at))),
            "http" => Self::Http(Box::new(HttpAsked::read(at))),
            "redis" => Self::Redis(Box::new(RedisAsked::read(at))),
            "tcp" => Self::Tcp(Box::new(TcpAsked::read(at))),
            "tls" => Self::Tls(Box::new(TlsAsked::read(at))),
            "ttl" => {
                let has_ttl = at.value("ttl").is_some();
                Self::Ttl { has_ttl, ttl: at.duration("ttl", AGE_RANGE) }
            }
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
