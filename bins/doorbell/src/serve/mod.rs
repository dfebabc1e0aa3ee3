//! From a configuration to a running server, and the only place that knows the engine's builder.
//!
//! Does not know about: files, command lines.

mod access;
mod admin;
mod board;
mod census;
mod checks;
mod compute;
mod door;
mod files;
mod guards;
mod inherit;
mod inquiry;
mod lane;
mod lifecycle;
mod links;
mod listener;
mod metrics;
pub(crate) mod ops;
mod raw;
mod sample;
mod stored;
mod subject;
mod tls;
mod totals;
mod watch;

pub use sample::service;

use crate::config::format_duration;
use crate::config::model::{Admin, Config, Descriptors, Engine, OnWorkerFailure, Timeouts};
use crate::exit::{Exit, Failure};
use board::Keeper;
use compute::Reading;
use door::Materials;
use doorbell::{Event, Handle, LocalAddr, Server, ServerBuilder, StartError, StartErrorKind, Workers};
use guards::Common;
use lane::{Lane, Plan};
use lifecycle::{Duties, Supervisor};
use ops::{MaintenanceFiles, Operator, Ops, Running};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use stored::Stores;
use totals::Totals;
use watch::{Watch, Watched};

/// How long the last lines of the access log may take.
const ACCESS_LOG_END: Duration = Duration::from_secs(2);

/// Serves until a signal ends it. `origin` says where the configuration came from.
pub(crate) fn run(config: &Config, origin: &str) -> Result<Exit, Failure> {
    let supervisor = Supervisor::start()?;
    let operator = Operator::new(supervisor.notes());
    let bad_config = |why| Failure::new(Exit::BadConfig, why);
    let keeper = Keeper::build(config).map_err(bad_config)?;
    let (checks, push) = checks::plan(config).map_err(bad_config)?.unzip();
    let mut watched: Vec<Box<dyn Watched>> = Vec::new();
    if let Some(path) = &config.lifecycle.state_file {
        operator.keep_in(path);
    }
    operator.adopt(&keeper);
    let files = config.maintenance.file_dir.as_ref();
    let files = files.map(|directory| MaintenanceFiles::new(directory, &operator));
    watched.extend(files.map(|files| Box::new(files) as Box<dyn Watched>));
    let lane = compute::start(config)?;
    let stores = Stores::open(config, &Reading::new(lane.clone()), &mut watched).map_err(bad_config)?;
    let (common, readers) = Common::build(config, lane).map_err(bad_config)?;
    watched.extend(readers.into_iter().map(|reader| Box::new(reader) as Box<dyn Watched>));
    let access = access::start(config)?;
    let materials =
        Materials { config, keeper: &keeper, push: push.as_ref(), common: &common, stores: &stores };
    let mut totals = Totals::of(&common);
    let mut builder = builder(config, &keeper, &operator);
    let for_checks = checks.as_ref().map_or(0, |checks| checks.descriptors());
    builder = builder.keep_descriptors(for_checks + Ops::descriptors(config) + admin::descriptors(config));
    let mut plan = Plan::new(config, &keeper);
    for position in 0..config.listeners.len() {
        let access = access.as_ref();
        builder = listener::add(builder, &materials, position, access, &mut watched, &mut totals, &mut plan)?;
    }
    if let Some(plan) = &plan {
        totals.set_http2(plan.counters());
        builder = plan.attach(builder);
    }
    let lane = plan.map(Plan::start).transpose()?;
    let admin = config.admin.as_ref().map(bind_admin).transpose()?;
    let server = builder.start().map_err(|error| start_failure(&error))?;
    let watch = Watch::start(watched)
        .map_err(|error| Failure::new(Exit::Failure, format!("no thread could be started: {error}")))?;
    if let Some(checks) = &checks {
        totals.set_checks(checks.counters());
    }
    let totals = Arc::new(totals);
    let hurry = checks.as_ref().map(crate::checks::Plan::hurry);
    operator.install(running(config, origin, &keeper, &server, &totals, hurry));
    let no_thread =
        |error: std::io::Error| Failure::new(Exit::Failure, format!("no thread could be started: {error}"));
    let ops = Ops::start(config, &operator).map_err(no_thread)?;
    let admin_addr = admin.and_then(|admin| admin.start(ops.lane(), &operator));
    announce(&server, config, origin, &ops, admin_addr);
    let checks = checks.map(|plan| plan.start(Arc::clone(&keeper))).transpose().map_err(no_thread)?;
    let duties = Duties { access: access.as_ref(), watch: &watch, lane: lane.as_ref() };
    let handle = server.handle();
    let ended = supervisor.serve(server, &operator, &duties);
    drop(checks);
    drop(ops);
    lane.into_iter().for_each(Lane::end);
    drop(watch);
    if let Some(access) = access
        && !access.stop(ACCESS_LOG_END)
    {
        tracing::warn!("the access log did not take its last lines");
    }
    if ended.is_ok() {
        sum_up(config, &handle, &totals);
    }
    ended
}

/// What operators see of this server.
fn running(
    config: &Config,
    origin: &str,
    keeper: &Arc<Keeper>,
    server: &Server,
    totals: &Arc<Totals>,
    hurry: Option<crate::checks::Hurry>,
) -> Running {
    Running {
        keeper: Arc::clone(keeper),
        handle: server.handle(),
        report: server.driver_report().clone(),
        addresses: server.local_addrs().iter().map(show).collect(),
        origin: origin.to_owned(),
        lifecycle: config.lifecycle.clone(),
        check_kinds: Running::check_kinds(config),
        totals: Arc::clone(totals),
        hurry,
    }
}

/// The one line at the end: what was served and what was refused.
fn sum_up(config: &Config, handle: &Handle, totals: &Totals) {
    let stats = handle.stats();
    let http2 = totals.http2_served();
    tracing::info!(
        connections = stats.conns_accepted,
        requests = stats.requests,
        http2_connections = http2.map(|(connections, _)| connections),
        http2_requests = http2.map(|(_, requests)| requests),
        checks = totals.checks_run(),
        jobs = config.needs_compute().then(|| totals.jobs(&stats)),
        refused = totals.refused(&stats),
        closed = Totals::closed(&stats),
        "stopped"
    );
}

fn builder(config: &Config, keeper: &Arc<Keeper>, operator: &Operator) -> ServerBuilder {
    let runtime = &config.runtime;
    let (observed, told) = (Arc::clone(keeper), operator.clone());
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
        .observer(move |event| observe(event, &observed, &told))
}

fn bind_admin(config: &Admin) -> Result<admin::Bound, Failure> {
    admin::Bound::bind(config).map_err(|error| {
        let addr = config.bind;
        let (exit, fix) = match error.kind() {
            std::io::ErrorKind::AddrInUse => (Exit::AddressInUse, "choose another port as `admin.bind`"),
            std::io::ErrorKind::PermissionDenied => {
                (Exit::NoPermission, "choose a port above 1023 as `admin.bind`")
            }
            _ => (Exit::Failure, "choose an address of this machine as `admin.bind`"),
        };
        Failure::new(exit, format!("the admin address {addr} cannot be listened on: {error}; {fix}"))
    })
}

/// The one line at the start: what runs, why, and where.
fn announce(server: &Server, config: &Config, origin: &str, ops: &Ops, admin: Option<SocketAddr>) {
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
        admin = admin.map(|addr| addr.to_string()),
        control = ops.control().map(|path| path.display().to_string()),
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

fn observe(event: &Event, keeper: &Keeper, operator: &Operator) {
    match event {
        Event::DriverFellBack { worker, why } => {
            tracing::warn!(worker = worker.0, why, "a worker goes on with epoll");
            operator.worker_changed(worker.0, why.clone(), false);
        }
        Event::WorkerFailed { worker, failure } => {
            tracing::error!(worker = worker.0, %failure, "a worker failed");
            keeper.fail("a worker failed");
            operator.worker_changed(worker.0, failure.to_string(), true);
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
