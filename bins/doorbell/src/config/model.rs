//! A configuration that can be used: every value checked, every name resolved, every default filled in.
//!
//! Does not know about: TOML, where a value was written.

use super::bind::Bind;
use crate::http::Method;
use crate::http::redirect::{RedirectStatus, Scheme};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Everything a file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[runtime]`
    pub runtime: Runtime,
    /// `[log]`
    pub log: Log,
    /// `[lifecycle]`
    pub lifecycle: Lifecycle,
    /// `[tuning]`
    pub tuning: Tuning,
    /// `[listener.NAME]`, in the order of the file.
    pub listeners: Vec<Listener>,
    /// `[health.NAME]`; `livez` and `readyz` are always there.
    pub health: Vec<Health>,
    /// `[route.NAME]`, in the order of the file.
    pub routes: Vec<Route>,
}

/// `[runtime]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Which driver; the default is the best that works.
    pub engine: Engine,
    /// Threads; `None` is one for each core we may use.
    pub workers: Option<u32>,
    /// Whether a worker stays on its core.
    pub pin_cpus: bool,
    /// Connections of the whole process; `None` is 65,536, or fewer where open files are limited.
    pub max_connections: Option<u32>,
    /// What a failed worker means for the process.
    pub on_worker_failure: OnWorkerFailure,
}

/// Which driver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// io_uring where it works, epoll elsewhere.
    Auto,
    /// epoll only.
    Epoll,
    /// io_uring or nothing.
    IoUring,
}

/// What a failed worker means for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnWorkerFailure {
    /// Stay, but not ready.
    Degrade,
    /// Exit with status 1.
    Exit,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How a line looks.
    pub format: LogFormat,
    /// The least severe level that is written.
    pub level: LogLevel,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Levels, the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names are the levels")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// `[lifecycle]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// After SIGTERM: not ready, but everything is still served.
    pub drain_delay: Duration,
    /// After that: no new connections, those that are open may finish.
    pub drain_timeout: Duration,
}

/// `[tuning]`: switches of the engine. The defaults are what measured best; they exist so that each can be measured, and turned off
/// where a kernel errs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// The techniques of the drivers, each with the name and the default of its field.
    pub engine: doorbell::Tuning,
    /// Which descriptors io_uring uses.
    pub descriptors: Descriptors,
}

/// Which descriptors io_uring uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Descriptors {
    /// Of the ring, where the kernel closes them at once; ordinary ones elsewhere.
    Direct,
    /// Those of the process.
    #[default]
    Ordinary,
}

/// `[listener.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Named in logs and errors.
    pub name: String,
    /// All addresses of the listener.
    pub binds: Vec<Bind>,
    /// What is spoken.
    pub protocol: Protocol,
    /// Deadlines.
    pub timeouts: Timeouts,
    /// Connections one address may hold. The same on every listener.
    pub connections_per_ip: u32,
    /// Socket options.
    pub tcp: Tcp,
}

/// What a listener speaks.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1.
    Http1(Http1),
    /// The same bytes for everybody, then close.
    Raw {
        /// What is sent.
        reply: String,
        /// True when it is sent without waiting for the client's first bytes.
        speaks_first: bool,
    },
}

/// Limits of HTTP/1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http1 {
    /// Whether a connection may carry more than one request.
    pub keep_alive: bool,
    /// How long a connection may wait for the next request.
    pub idle: Duration,
    /// Requests of one connection.
    pub max_requests: u32,
    /// Bytes of request line and header fields.
    pub header_bytes: u32,
    /// Number of header fields.
    pub headers: u32,
    /// Bytes of a request body.
    pub body_bytes: u32,
}

/// Deadlines of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte, or from the accept, to the end of the header.
    pub header: Duration,
    /// Between two pieces of a body.
    pub body: Duration,
    /// Without progress of a reply. The same on every listener.
    pub write: Duration,
    /// Reading what still comes after a reply that closes. The same on every listener.
    pub linger: Duration,
}

/// Socket options of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Connections the kernel keeps for us.
    pub backlog: u32,
    /// Whether the kernel wakes us only when data came (`TCP_DEFER_ACCEPT`, tcp(7)).
    pub defer_accept: bool,
    /// Whether small segments go out at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Whether a request is acknowledged before its reply (`TCP_QUICKACK`).
    pub quickack: bool,
}

/// `[health.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Named by routes.
    pub name: String,
    /// The state until something changes it.
    pub initial: HealthState,
}

/// The state of a health endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    /// Answered with 503.
    Down,
    /// Answered with 200.
    Up,
}

/// `[route.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Named in logs and errors.
    pub name: String,
    /// Positions in [`Config::listeners`].
    pub listeners: Vec<usize>,
    /// Hosts; none means any.
    pub hosts: Vec<String>,
    /// Path patterns.
    pub paths: Vec<String>,
    /// Methods; GET brings HEAD along.
    pub methods: Vec<Method>,
    /// Further header fields of the reply.
    pub headers: Vec<(String, String)>,
    /// What is answered.
    pub action: Action,
}

/// What a route answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The state of a health endpoint, by its position in [`Config::health`].
    Health(usize),
    /// A redirect.
    Redirect(RedirectTo),
    /// Always the same.
    Reply(Reply),
}

/// `redirect = { .. }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectTo {
    /// How the location begins.
    pub scheme: Scheme,
    /// Where hosts that are not listed go; with listed hosts, where they all go.
    pub host: Option<String>,
    /// The port; `None` is the scheme's own.
    pub port: Option<u16>,
    /// The path template.
    pub path: String,
    /// The status.
    pub status: RedirectStatus,
    /// Whether the query goes along.
    pub keep_query: bool,
}

/// `reply = { .. }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// From 200 to 599.
    pub status: u16,
    /// The content.
    pub body: String,
    /// The type of the content.
    pub content_type: String,
}

/// The address when nothing else is said: reachable from this machine only.
pub const DEFAULT_ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

impl Default for Runtime {
    fn default() -> Self {
        Self {
            engine: Engine::Auto,
            workers: None,
            pin_cpus: false,
            max_connections: None,
            on_worker_failure: OnWorkerFailure::Exit,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: LogLevel::Info }
    }
}

impl Default for Lifecycle {
    /// Together below the 30 seconds that Kubernetes grants by default.
    fn default() -> Self {
        Self { drain_delay: Duration::from_secs(5), drain_timeout: Duration::from_secs(20) }
    }
}

impl Default for Http1 {
    fn default() -> Self {
        Self {
            keep_alive: true,
            idle: Duration::from_secs(30),
            max_requests: 1000,
            header_bytes: 16 << 10,
            headers: 100,
            body_bytes: 64 << 10,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            body: Duration::from_secs(10),
            write: Duration::from_secs(10),
            linger: Duration::from_secs(1),
        }
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Self { backlog: 4096, defer_accept: true, nodelay: true, quickack: true }
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            name: "default".into(),
            binds: vec![Bind::Tcp(DEFAULT_ADDR)],
            protocol: Protocol::Http1(Http1::default()),
            timeouts: Timeouts::default(),
            connections_per_ip: 1024,
            tcp: Tcp::default(),
        }
    }
}

impl Default for RedirectTo {
    fn default() -> Self {
        Self {
            scheme: Scheme::Https,
            host: None,
            port: None,
            path: "{path}".into(),
            status: RedirectStatus::default(),
            keep_query: true,
        }
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self { status: 200, body: String::new(), content_type: "text/plain; charset=utf-8".into() }
    }
}
