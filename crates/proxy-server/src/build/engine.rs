//! Builds the engine from the configuration, and logs its start or explains its failure.

use crate::control_plane::ControlPlane;
use crate::exit::{Exit, Failure};
use crate::operator::{Incidents, Operator};
use crate::registry::HealthRegistry;
use crate::sockets::port;
use crate::workers;
use doorbell::{Event, LocalAddr, Server, ServerBuilder, StartError, StartErrorKind, Workers};
use doorbell_proxy_config::format_duration;
use doorbell_proxy_config::model::{Config, Driver};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Returns the builder of the server, and the list for fallbacks and failures of its workers.
pub(crate) fn builder(
    config: &Config,
    registry: &Arc<HealthRegistry>,
    operator: &Operator,
) -> (ServerBuilder, Arc<Incidents>) {
    let runtime = &config.runtime;
    let (registry, operator) = (Arc::clone(registry), operator.clone());
    let incidents: Arc<Incidents> = Arc::default();
    let known = Arc::clone(&incidents);
    let mut builder = Server::builder();
    let connections = &config.connections;
    if let Some(count) = runtime.max_connections {
        builder = builder.conns_max(count);
    }
    let workers = u16::try_from(workers::count(config)).ok().and_then(NonZeroU16::new);
    let builder = builder
        .workers(Workers::Count(workers.unwrap_or(NonZeroU16::MIN)))
        .pin_cpus(runtime.pin_cpus)
        .engine(match runtime.driver {
            Driver::Auto => doorbell::Engine::Auto,
            Driver::Epoll => doorbell::Engine::Epoll,
            Driver::IoUring => doorbell::Engine::IoUring,
        })
        .tuning(config.tuning.engine())
        .descriptors(config.tuning.descriptors)
        .on_worker_failure(runtime.on_worker_failure)
        .conns_per_ip_max(connections.per_ip_max.unwrap_or(0))
        .write_timeout(connections.write_timeout)
        .linger_timeout(connections.linger_timeout)
        .client_v6_len(runtime.client_ipv6_prefix)
        .drain_timeout(config.lifecycle.drain_timeout)
        .observer(move |event| observe(event, &registry, &known, &operator));
    (builder, incidents)
}

/// Logs the start: driver, workers, addresses.
pub(crate) fn announce(
    operator: &Operator,
    config: &Config,
    control_plane: &ControlPlane,
    admin: Option<SocketAddr>,
) {
    let Some(running) = operator.running() else { return };
    let report = &running.report;
    if report.is_fallback {
        tracing::warn!(driver = %report.kind, why = %report.why, "io_uring is not available: using epoll");
    }
    tracing::info!(
        driver = %report.kind,
        why = %report.why,
        workers = workers::count(config),
        workers_by = config.runtime.workers.is_none().then(|| workers::default_workers().why.as_str()),
        addresses = running.addresses.join(" "),
        config = running.origin,
        admin = admin.map(|addr| addr.to_string()),
        control = control_plane.control().map(|path| path.display().to_string()),
        drain = format_duration(config.lifecycle.drain_delay + config.lifecycle.drain_timeout),
        "doorbell {} is ready",
        env!("CARGO_PKG_VERSION"),
    );
}

/// The addresses of a server, those of datagram listeners last.
pub(crate) fn addresses(server: &Server) -> Vec<String> {
    let datagrams = server.datagram_addrs().iter().map(|addr| show(&LocalAddr::Udp(*addr)));
    server.local_addrs().iter().map(show).chain(datagrams).collect()
}

fn show(addr: &LocalAddr) -> String {
    match addr {
        LocalAddr::Tcp(addr) => addr.to_string(),
        LocalAddr::Udp(addr) => format!("udp:{addr}"),
        LocalAddr::Unix(Some(path)) => format!("unix:{}", path.display()),
        LocalAddr::Unix(None) => "unix".into(),
    }
}

fn observe(event: &Event, registry: &HealthRegistry, incidents: &Incidents, operator: &Operator) {
    match event {
        Event::DriverFellBack { worker, why, cause } => {
            tracing::warn!(worker = worker.0, why, "worker fell back to epoll");
            incidents.fell_back(worker.0, why.clone(), *cause);
            operator.events().record_worker(worker.0, why.clone());
        }
        Event::HandlerMisuse { worker, misuse } => {
            tracing::error!(worker = worker.0, %misuse, "invalid reply of a handler: sent 500");
        }
        Event::WorkerFailed { worker, failure } => {
            tracing::error!(worker = worker.0, %failure, "worker failed");
            registry.fail("a worker failed");
            incidents.failed(worker.0, failure.to_string());
            operator.events().record_worker(worker.0, failure.to_string());
        }
        // The enum is non-exhaustive.
        _ => {}
    }
}

/// Converts an error into a message with a fix, and an exit code.
pub(crate) fn start_failure(error: &StartError) -> Failure {
    let (exit, message) = match error.kind() {
        StartErrorKind::EngineUnavailable => {
            (Exit::DriverUnavailable, format!("{error}; use `--driver auto`, which falls back to epoll"))
        }
        StartErrorKind::Misconfigured => (Exit::BadConfig, error.to_string()),
        StartErrorKind::TooFewDescriptors => (Exit::TooFewDescriptors, error.to_string()),
        _ => match error {
            StartError::Listen(listen) if port::is_about_address(&listen.error) => {
                return port::cannot_bind(&listen.addr, &listen.addr, &listen.error);
            }
            _ => (Exit::Failure, error.to_string()),
        },
    };
    Failure::new(exit, message)
}
