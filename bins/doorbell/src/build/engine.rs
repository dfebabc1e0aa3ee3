//! The engine as a configuration wants it: its builder, what is said when it starts, and when it cannot.
//!
//! Does not know about: listeners, which are added elsewhere; other generations.

use crate::config::format_duration;
use crate::config::model::{Config, Descriptors, Driver, OnWorkerFailure, Timeouts};
use crate::control_plane::ControlPlane;
use crate::exit::{Exit, Failure};
use crate::operator::Operator;
use crate::registry::HealthRegistry;
use crate::sockets::activation;
use crate::workers;
use doorbell::{Event, LocalAddr, Server, ServerBuilder, StartError, StartErrorKind, Workers};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

pub(crate) fn builder(config: &Config, registry: &Arc<HealthRegistry>, operator: &Operator) -> ServerBuilder {
    let runtime = &config.runtime;
    let (observed, told) = (Arc::clone(registry), operator.clone());
    let mut builder = Server::builder();
    let common = config.listeners.first();
    let Timeouts { write, linger, .. } = common.map(|listener| listener.timeouts.clone()).unwrap_or_default();
    if let Some(count) = runtime.max_connections {
        builder = builder.conns_max(count);
    }
    if let Some(listener) = common {
        builder = builder.conns_per_ip_max(listener.limits.connections_per_ip.unwrap_or(0));
    }
    let workers = u16::try_from(workers::count(config)).ok().and_then(NonZeroU16::new);
    builder
        .workers(Workers::Count(workers.unwrap_or(NonZeroU16::MIN)))
        .pin_cpus(runtime.pin_cpus)
        .engine(match runtime.driver {
            Driver::Auto => doorbell::Engine::Auto,
            Driver::Epoll => doorbell::Engine::Epoll,
            Driver::IoUring => doorbell::Engine::IoUring,
        })
        .tuning(config.tuning.engine())
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
        .client_v6_len(runtime.client_ipv6_prefix)
        .drain_timeout(config.lifecycle.drain_timeout)
        .observer(move |event| observe(event, &observed, &told))
}

/// The one line at the start: what runs, why, and where.
pub(crate) fn announce(
    operator: &Operator,
    config: &Config,
    control_plane: &ControlPlane,
    admin: Option<SocketAddr>,
) {
    let Some(running) = operator.running() else { return };
    let report = &running.report;
    if report.is_fallback {
        tracing::warn!(driver = %report.kind, why = %report.why, "io_uring does not work here; epoll stands in");
    }
    tracing::info!(
        driver = %report.kind,
        why = %report.why,
        workers = workers::count(config),
        workers_by = config.runtime.workers.is_none().then(|| workers::usual().why.as_str()),
        addresses = running.addresses.join(" "),
        config = running.origin,
        admin = admin.map(|addr| addr.to_string()),
        control = control_plane.control().map(|path| path.display().to_string()),
        drain = format_duration(config.lifecycle.drain_delay + config.lifecycle.drain_timeout),
        "doorbell {} is ready",
        env!("CARGO_PKG_VERSION"),
    );
}

pub(crate) fn show(addr: &LocalAddr) -> String {
    match addr {
        LocalAddr::Tcp(addr) => addr.to_string(),
        LocalAddr::Unix(Some(path)) => format!("unix:{}", path.display()),
        LocalAddr::Unix(None) => "unix".into(),
    }
}

fn observe(event: &Event, registry: &HealthRegistry, operator: &Operator) {
    match event {
        Event::DriverFellBack { worker, why, cause } => {
            tracing::warn!(worker = worker.0, why, "a worker goes on with epoll");
            operator.worker_changed(worker.0, why.clone(), Some(*cause));
        }
        Event::HandlerMisuse { worker, misuse } => {
            tracing::error!(worker = worker.0, %misuse, "invalid reply of a handler: sent a 500");
        }
        Event::WorkerFailed { worker, failure } => {
            tracing::error!(worker = worker.0, %failure, "a worker failed");
            registry.fail("a worker failed");
            operator.worker_changed(worker.0, failure.to_string(), None);
        }
        // The engine may learn to tell more.
        _ => {}
    }
}

/// One sentence with a fix, and the exit code.
pub(crate) fn start_failure(error: &StartError) -> Failure {
    let addr = match error {
        StartError::Listen(listen) => listen.addr.as_str(),
        _ => "the address",
    };
    let (exit, message) = match error.kind() {
        StartErrorKind::AddressInUse => (
            Exit::AddressInUse,
            match addr.parse().ok().and_then(activation::holder_of) {
                Some(holder) => format!("{addr} is in use: {holder}"),
                None => format!(
                    "{addr} is in use: stop the process that listens there (ss -ltnp; for a .socket unit that is systemd), or choose another address"
                ),
            },
        ),
        StartErrorKind::EngineUnavailable => {
            (Exit::DriverUnavailable, format!("{error}; use `--driver auto`, which falls back to epoll"))
        }
        StartErrorKind::Misconfigured => (Exit::BadConfig, error.to_string()),
        StartErrorKind::PermissionDenied => (
            Exit::NoPermission,
            format!(
                "no permission to listen on {addr}: a port below 1024 needs CAP_NET_BIND_SERVICE or root; choose a higher port or grant it"
            ),
        ),
        _ if is_elsewhere(error) => (
            Exit::Failure,
            format!(
                "{addr} is no address of this machine (ip addr lists them): choose one that is, or [::]:PORT for all of them"
            ),
        ),
        StartErrorKind::TooFewDescriptors => (Exit::TooFewDescriptors, error.to_string()),
        _ => (Exit::Failure, error.to_string()),
    };
    Failure::new(exit, message)
}

/// Whether the address belongs to another machine.
fn is_elsewhere(error: &StartError) -> bool {
    matches!(error, StartError::Listen(listen) if listen.error.kind() == std::io::ErrorKind::AddrNotAvailable)
}
