//! The file as it was written: each key with its place, nothing resolved against anything else.
//!
//! Does not know about: defaults, other tables, what a key is good for.

use super::bind::{BIND_FORM, Bind, BindError};
use super::model::{Engine, HealthState, LogFormat, LogLevel, OnWorkerFailure, Tuning};
use super::problem::Problem;
use super::section::{At, Section};
use super::tuning;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::de::DeValue;

/// A whole file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) runtime: Runtime,
    pub(crate) log: Log,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) tuning: Tuning,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) health: Vec<Health>,
    pub(crate) routes: Vec<super::written_route::Route>,
}

#[derive(Debug, Default)]
pub(crate) struct Runtime {
    pub(crate) engine: Option<At<Engine>>,
    pub(crate) workers: Option<At<u32>>,
    pub(crate) pin_cpus: Option<At<bool>>,
    pub(crate) max_connections: Option<At<u32>>,
    pub(crate) on_worker_failure: Option<At<OnWorkerFailure>>,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) format: Option<At<LogFormat>>,
    pub(crate) level: Option<At<LogLevel>>,
}

#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    pub(crate) drain_delay: Option<At<Duration>>,
    pub(crate) drain_timeout: Option<At<Duration>>,
}

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) name: At<String>,
    pub(crate) header: Range<usize>,
    pub(crate) has_bind: bool,
    pub(crate) binds: Vec<At<Bind>>,
    pub(crate) raw: Option<At<bool>>,
    pub(crate) keep_alive: Option<KeepAlive>,
    pub(crate) timeouts: Timeouts,
    pub(crate) limits: Limits,
    pub(crate) tcp: Tcp,
    pub(crate) reply: Option<At<String>>,
    pub(crate) speaks_first: Option<At<bool>>,
}

#[derive(Debug)]
pub(crate) struct KeepAlive {
    pub(crate) span: Range<usize>,
    pub(crate) enabled: Option<At<bool>>,
    pub(crate) idle: Option<At<Duration>>,
    pub(crate) max_requests: Option<At<u32>>,
}

#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    pub(crate) header: Option<At<Duration>>,
    pub(crate) body: Option<At<Duration>>,
    pub(crate) write: Option<At<Duration>>,
    pub(crate) linger: Option<At<Duration>>,
}

#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) header_bytes: Option<At<u32>>,
    pub(crate) headers: Option<At<u32>>,
    pub(crate) body_bytes: Option<At<u32>>,
    pub(crate) connections_per_ip: Option<At<u32>>,
}

#[derive(Debug, Default)]
pub(crate) struct Tcp {
    pub(crate) backlog: Option<At<u32>>,
    pub(crate) defer_accept: Option<At<bool>>,
    pub(crate) nodelay: Option<At<bool>>,
    pub(crate) quickack: Option<At<bool>>,
}

#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) name: At<String>,
    pub(crate) initial: Option<At<HealthState>>,
}

/// No deadline is shorter than what a timer can keep, none longer than a day.
pub(crate) const DEADLINE_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(86_400);

const DRAIN_RANGE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);

impl File {
    pub(crate) fn read(mut root: Section<'_>) -> Self {
        read_version(&mut root);
        let file = Self {
            runtime: root.section("runtime").map(Runtime::read).unwrap_or_default(),
            log: root.section("log").map(Log::read).unwrap_or_default(),
            lifecycle: root.section("lifecycle").map(Lifecycle::read).unwrap_or_default(),
            tuning: root.section("tuning").map(tuning::read).unwrap_or_default(),
            listeners: root
                .named("listener")
                .into_iter()
                .map(|(name, at)| Listener::read(name, at))
                .collect(),
            health: root.named("health").into_iter().map(|(name, at)| Health::read(name, at)).collect(),
            routes: root
                .named("route")
                .into_iter()
                .map(|(name, at)| super::written_route::Route::read(name, at))
                .collect(),
        };
        root.finish();
        file
    }
}

fn read_version(root: &mut Section<'_>) {
    let Some(value) = root.value("version") else {
        let problem =
            Problem::error("missing-version", 0..0, "the file does not say which version it is written for");
        root.problem(problem.help("begin it with `version = 1`"));
        return;
    };
    match value.get_ref().as_integer() {
        Some(number) if number.as_str() == "1" => {}
        Some(_) => root.problem(
            Problem::error("bad-version", value.span(), "this version of the format is not known")
                .help("only `version = 1` exists"),
        ),
        None => {
            root.wrong_type::<()>(value, "the number 1");
        }
    }
}

impl Runtime {
    fn read(mut at: Section<'_>) -> Self {
        let runtime = Self {
            engine: at.choice(
                "engine",
                &[("auto", Engine::Auto), ("epoll", Engine::Epoll), ("io_uring", Engine::IoUring)],
            ),
            workers: read_count(&mut at, "workers", 1..=1024),
            pin_cpus: at.bool("pin_cpus"),
            max_connections: read_count(&mut at, "max_connections", 16..=4_000_000),
            on_worker_failure: at.choice(
                "on_worker_failure",
                &[("degrade", OnWorkerFailure::Degrade), ("exit", OnWorkerFailure::Exit)],
            ),
        };
        at.finish();
        runtime
    }
}

/// A number, or `"auto"`, which is the same as nothing.
fn read_count(at: &mut Section<'_>, key: &'static str, range: RangeInclusive<u32>) -> Option<At<u32>> {
    let value = at.value(key)?;
    match value.get_ref() {
        DeValue::Integer(_) => at.integer(key, range),
        DeValue::String(word) if word == "auto" => None,
        _ => at.wrong_type(value, "\"auto\" or a whole number"),
    }
}

impl Log {
    fn read(mut at: Section<'_>) -> Self {
        let log = Self {
            format: at.choice(
                "format",
                &[("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)],
            ),
            level: at.choice(
                "level",
                &[
                    ("error", LogLevel::Error),
                    ("warn", LogLevel::Warn),
                    ("info", LogLevel::Info),
                    ("debug", LogLevel::Debug),
                    ("trace", LogLevel::Trace),
                ],
            ),
        };
        at.finish();
        log
    }
}

impl Lifecycle {
    fn read(mut at: Section<'_>) -> Self {
        let lifecycle = Self {
            drain_delay: at.duration("drain_delay", DRAIN_RANGE),
            drain_timeout: at.duration("drain_timeout", DRAIN_RANGE),
        };
        at.finish();
        lifecycle
    }
}

impl Listener {
    fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let bind = at.strings("bind");
        let listener = Self {
            name,
            header: at.span.clone(),
            has_bind: at.value("bind").is_some(),
            binds: bind.map(|bind| read_binds(&at, bind)).unwrap_or_default(),
            raw: at.choice("protocol", &[("http1", false), ("raw", true)]),
            keep_alive: at.section("keep_alive").map(KeepAlive::read),
            timeouts: at.section("timeouts").map(Timeouts::read).unwrap_or_default(),
            limits: at.section("limits").map(Limits::read).unwrap_or_default(),
            tcp: at.section("tcp").map(Tcp::read).unwrap_or_default(),
            reply: at.string("reply"),
            speaks_first: at.bool("speaks_first"),
        };
        at.finish();
        listener
    }
}

fn read_binds(at: &Section<'_>, texts: At<Vec<At<String>>>) -> Vec<At<Bind>> {
    if texts.value.is_empty() {
        at.problem(Problem::error("empty-list", texts.span, "a listener needs an address").help(BIND_FORM));
    }
    let mut binds = Vec::new();
    for At { value: text, span } in texts.value {
        match text.parse() {
            Ok(value) => binds.push(At { value, span }),
            Err(error) => {
                let message = format!("{text:?} cannot be listened on: {error}");
                let help = match (error, text.rsplit_once(':')) {
                    (BindError::HostName, Some(("localhost", port))) => {
                        format!("write \"127.0.0.1:{port}\", \"[::1]:{port}\" or both in a list")
                    }
                    (BindError::NoPort, _) if text.contains(':') => format!("write \"[{text}]:8080\""),
                    (BindError::NoPort, _) => format!("write \"{text}:8080\""),
                    _ if text.parse::<u16>().is_ok() => format!("write \":{text}\" for every address"),
                    _ => BIND_FORM.to_owned(),
                };
                at.problem(Problem::error("bad-address", span, message).help(help));
            }
        }
    }
    binds
}

impl KeepAlive {
    fn read(mut at: Section<'_>) -> Self {
        let keep_alive = Self {
            span: at.span.clone(),
            enabled: at.bool("enabled"),
            idle: at.duration("idle", DEADLINE_RANGE),
            max_requests: at.integer("max_requests", 1..=1_000_000_000),
        };
        at.finish();
        keep_alive
    }
}

impl Timeouts {
    fn read(mut at: Section<'_>) -> Self {
        let timeouts = Self {
            header: at.duration("header", DEADLINE_RANGE),
            body: at.duration("body", DEADLINE_RANGE),
            write: at.duration("write", DEADLINE_RANGE),
            linger: at.duration("linger", DEADLINE_RANGE),
        };
        at.finish();
        timeouts
    }
}

impl Limits {
    fn read(mut at: Section<'_>) -> Self {
        let limits = Self {
            header_bytes: at.size("header_bytes", 256..=1 << 20),
            headers: at.integer("headers", 1..=1000),
            body_bytes: at.size("body_bytes", 0..=64 << 20),
            connections_per_ip: at.integer("connections_per_ip", 1..=4_000_000),
        };
        at.finish();
        limits
    }
}

impl Tcp {
    fn read(mut at: Section<'_>) -> Self {
        let tcp = Self {
            backlog: at.integer("backlog", 1..=1 << 20),
            defer_accept: at.bool("defer_accept"),
            nodelay: at.bool("nodelay"),
            quickack: at.bool("quickack"),
        };
        at.finish();
        tcp
    }
}

impl Health {
    fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let initial = at.choice("initial", &[("down", HealthState::Down), ("up", HealthState::Up)]);
        at.finish();
        Self { name, initial }
    }
}
