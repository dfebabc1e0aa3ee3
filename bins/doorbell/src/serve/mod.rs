//! From a configuration to a running server, and the only place that knows the engine's builder.
//!
//! Does not know about: files, command lines.

mod door;
mod inherit;
mod lifecycle;
mod raw;
mod state;

use crate::config::model::{
    Config, Descriptors, Engine, Http1, Listener, OnWorkerFailure, Protocol, Timeouts,
};
use crate::config::{Bind, format_duration};
use crate::exit::{Exit, Failure};
use door::Door;
use doorbell::{Event, Listen, LocalAddr, Server, ServerBuilder, StartError, StartErrorKind, Workers};
use lifecycle::SignalWatch;
use raw::FixedReply;
use state::State;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// How long the kernel waits for a client's first bytes before it lets us accept without them.
const DEFER_ACCEPT: Duration = Duration::from_secs(3);

/// Serves until a signal ends it. `origin` says where the configuration came from.
pub(crate) fn run(config: &Config, origin: &str) -> Result<Exit, Failure> {
    let state = Arc::new(State::default());
    let signals = SignalWatch::start()?;
    let mut builder = builder(config, &state);
    for (position, listener) in config.listeners.iter().enumerate() {
        builder = add_listener(builder, config, position, listener, &state)?;
    }
    let server = builder.start().map_err(|error| start_failure(&error))?;
    announce(&server, config, origin);
    let ended = signals.serve(server, &config.lifecycle, &state);
    if ended.is_ok() {
        tracing::info!("stopped");
    }
    ended
}

fn builder(config: &Config, state: &Arc<State>) -> ServerBuilder {
    let runtime = &config.runtime;
    let observed = Arc::clone(state);
    let mut builder = Server::builder();
    let common = config.listeners.first();
    let Timeouts { write, linger, .. } = common.map(|listener| listener.timeouts.clone()).unwrap_or_default();
    if let Some(count) = runtime.max_connections {
        builder = builder.conns_max(count);
    }
    if let Some(listener) = common {
        builder = builder.conns_per_ip_max(listener.connections_per_ip);
    }
    let workers = runtime.workers.and_then(|count| u16::try_from(count).ok()).and_then(NonZeroU16::new);
    builder
        .workers(workers.map_or(Workers::Auto, Workers::Count))
        .pin_cpus(runtime.pin_cpus)
        .engine(match runtime.engine {
            Engine::Auto => doorbell::Engine::Auto,
            Engine::Epoll => doorbell::Engine::Epoll,
            Engine::IoUring => doorbell::Engine::IoUring,
        })
        .tuning(config.tuning.engine.clone())
        .descriptors(match config.tuning.descriptors {
            Descriptors::Direct => doorbell::Descriptors::Direct,
            Descriptors::Ordinary => doorbell::Descriptors::Auto,
        })
        .on_worker_failure(match runtime.on_worker_failure {
            OnWorkerFailure::Degrade => doorbell::OnWorkerFailure::Degrade,
            OnWorkerFailure::Exit => doorbell::OnWorkerFailure::Stop,
        })
        .write_timeout(write)
        .linger_timeout(linger)
        .drain_timeout(config.lifecycle.drain_timeout)
        .observer(move |event| observe(event, &observed))
}

fn add_listener(
    mut builder: ServerBuilder,
    config: &Config,
    position: usize,
    listener: &Listener,
    state: &Arc<State>,
) -> Result<ServerBuilder, Failure> {
    for bind in &listener.binds {
        for listen in listens(bind, config)? {
            let listen = listen
                .backlog(listener.tcp.backlog)
                .defer_accept(listener.tcp.defer_accept.then_some(DEFER_ACCEPT))
                .nodelay(listener.tcp.nodelay)
                .quickack(listener.tcp.quickack);
            builder = match &listener.protocol {
                Protocol::Http1(http1) => {
                    let door = Door::build(config, position, state)
                        .map_err(|error| Failure::new(Exit::BadConfig, error.to_string()))?;
                    let limits = http_limits(http1, &listener.timeouts);
                    builder.listen(listen, doorbell::Http1::new(door).limits(limits))
                }
                Protocol::Raw { reply, speaks_first } => {
                    let raw = doorbell::Raw::new(FixedReply::new(reply, *speaks_first));
                    builder.listen(listen, raw.timeout(listener.timeouts.header))
                }
            };
        }
    }
    Ok(builder)
}

fn listens(bind: &Bind, config: &Config) -> Result<Vec<Listen>, Failure> {
    let env = |name: &str| std::env::var(name).ok();
    Ok(match bind {
        Bind::Fd(fd) => vec![Listen::inherited(inherit::numbered(*fd)?)],
        Bind::Systemd(name) => inherit::named(name, &env)?.into_iter().map(Listen::inherited).collect(),
        Bind::Tcp(addr) if addr.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !has_ipv6() => {
            tracing::warn!("this machine has no IPv6: {addr} is taken as every IPv4 address");
            vec![Listen::tcp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), addr.port()))]
        }
        Bind::Tcp(addr) => vec![Listen::tcp(*addr).v6_only(is_taken_on_ipv4(*addr, config))],
        Bind::Unix(path) => vec![Listen::unix(path)],
    })
}

/// False where the kernel was started without IPv6; `:8080` must work there too.
fn has_ipv6() -> bool {
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET6, rustix::net::SocketType::STREAM, None);
    !matches!(socket, Err(rustix::io::Errno::AFNOSUPPORT))
}

/// `[::]:80` takes IPv4 clients too, unless `0.0.0.0:80` is listed beside it.
fn is_taken_on_ipv4(addr: SocketAddr, config: &Config) -> bool {
    let binds = config.listeners.iter().flat_map(|listener| &listener.binds);
    addr.is_ipv6()
        && addr.ip().is_unspecified()
        && binds.into_iter().any(|bind| match bind {
            Bind::Tcp(other) => {
                matches!(other.ip(), IpAddr::V4(_)) && other.port() == addr.port() && addr.port() != 0
            }
            Bind::Fd(_) | Bind::Systemd(_) | Bind::Unix(_) => false,
        })
}

fn http_limits(http1: &Http1, timeouts: &Timeouts) -> crate::http::Limits {
    let default = crate::http::Limits::default();
    let head_bytes_max = http1.header_bytes as usize;
    crate::http::Limits {
        head_bytes_max,
        request_line_bytes_max: default.request_line_bytes_max.min(head_bytes_max),
        fields_max: http1.headers,
        body_bytes_max: http1.body_bytes as usize,
        requests_per_conn_max: http1.max_requests,
        header_timeout: timeouts.header,
        idle_timeout: http1.idle,
        body_idle_timeout: timeouts.body,
        body_total_timeout: default.body_total_timeout.max(timeouts.body),
        keep_alive: http1.keep_alive,
        ..default
    }
}

/// The one line at the start: what runs, why, and where.
fn announce(server: &Server, config: &Config, origin: &str) {
    let report = server.driver_report();
    if report.is_fallback {
        tracing::warn!(driver = %report.kind, why = %report.why, "io_uring does not work here; epoll stands in");
    }
    for note in server.notes() {
        tracing::info!("{note}");
    }
    let addrs: Vec<String> = server.local_addrs().iter().map(show).collect();
    tracing::info!(
        driver = %report.kind,
        why = %report.why,
        addresses = addrs.join(" "),
        config = origin,
        drain = format_duration(config.lifecycle.drain_delay + config.lifecycle.drain_timeout),
        "doorbell {} is ready",
        env!("CARGO_PKG_VERSION"),
    );
}

fn show(addr: &LocalAddr) -> String {
    match addr {
        LocalAddr::Tcp(addr) => addr.to_string(),
        LocalAddr::Unix(Some(path)) => format!("unix:{}", path.display()),
        LocalAddr::Unix(None) => "unix".into(),
    }
}

fn observe(event: &Event, state: &State) {
    match event {
        Event::DriverFellBack { worker, why } => {
            tracing::warn!(worker = worker.0, why, "a worker goes on with epoll");
        }
        Event::WorkerFailed { worker, failure } => {
            state.set_degraded();
            tracing::error!(worker = worker.0, %failure, "a worker failed");
        }
        // The engine may learn to tell more.
        _ => {}
    }
}

/// One sentence with a fix, and the exit code.
fn start_failure(error: &StartError) -> Failure {
    let addr = match error {
        StartError::Listen(listen) => listen.addr.as_str(),
        _ => "the address",
    };
    let (exit, message) = match error.kind() {
        StartErrorKind::AddressInUse => (
            Exit::AddressInUse,
            format!(
                "{addr} is in use: stop the process that listens there (ss -ltnp), or choose another address"
            ),
        ),
        StartErrorKind::EngineUnavailable => (
            Exit::EngineUnavailable,
            format!("{error}; leave --engine at auto, which takes epoll where it must"),
        ),
        StartErrorKind::Misconfigured => (Exit::BadConfig, error.to_string()),
        StartErrorKind::PermissionDenied => (
            Exit::NoPermission,
            format!(
                "no permission to listen on {addr}: a port below 1024 needs CAP_NET_BIND_SERVICE or root; choose a higher port or grant it"
            ),
        ),
        StartErrorKind::TooFewDescriptors => (Exit::TooFewDescriptors, error.to_string()),
        _ => (Exit::Failure, error.to_string()),
    };
    Failure::new(exit, message)
}
