//! Builds the registry, checks, routes and listeners of a generation, without starting its server.

use super::awaited::Awaited;
use super::ports::Ports;
use super::rollback_files::RollbackFiles;
use super::{Generation, SharedLog, SharedState};
use crate::build::engine;
use crate::build::stores::Stores;
use crate::build::{access_log, checks, compute, http2};
use crate::control_plane::ControlPlane;
use crate::exit::Failure;
use crate::guards::Common;
use crate::guards::client_limits::Tables;
use crate::history;
use crate::operator::{Incidents, admin};
use crate::registry::HealthRegistry;
use crate::registry::agent;
use crate::reload::watch::Watched;
use crate::routes::{Materials, RouteServices};
use crate::sharing;
use crate::sockets::udp::{self, Closable};
use crate::sockets::{descriptor_store, listener};
use crate::stats::server::ServerStats;
use crate::workers;
use doorbell::{Offload, ServerBuilder};
use doorbell_checks::Plan as ChecksPlan;
use doorbell_checks::Push;
use doorbell_http2::Plan;
use doorbell_proxy_config::model::Config;
use parking_lot::Mutex;
use std::sync::Arc;

/// Parts of a generation whose server is not started yet.
pub(super) struct Built {
    pub(super) registry: Arc<HealthRegistry>,
    pub(super) access: Option<SharedLog>,
    pub(super) server_stats: ServerStats,
    pub(super) incidents: Arc<Incidents>,
    pub(super) watched: Vec<Box<dyn Watched>>,
    pub(super) checks: Option<ChecksPlan>,
    pub(super) push: Option<Push>,
    pub(super) plan: Option<Plan>,
    /// UDP ports that are closed while their endpoint does not serve.
    pub(super) closable: Closable,
    pub(super) builder: ServerBuilder,
    pub(super) tables: Arc<Tables>,
    pub(super) compute: Option<Offload>,
    pub(super) rollback_files: RollbackFiles,
    pub(super) awaited: Awaited,
    pub(super) services: RouteServices,
}

impl Built {
    /// Builds the parts of a generation, while `before` may be serving. A failure changes nothing.
    pub(super) fn new(
        shared: &SharedState,
        config: &Config,
        before: Option<&Generation>,
    ) -> Result<Self, Failure> {
        let (registry, checks, push) = health(shared, config, before)?;
        let mut watched: Vec<Box<dyn Watched>> = Vec::new();
        let lane = shared.compute(config)?;
        let scan_runner = compute::ScanRunner::new(lane.clone());
        let stores = Stores::open(config, &scan_runner, &mut watched).map_err(Failure::bad_config)?;
        let tables = Arc::new(tables(config, before)?);
        let (common, readers) =
            Common::build(config, Arc::clone(&tables), lane.clone()).map_err(Failure::bad_config)?;
        watched.extend(readers.into_iter().map(|reader| Box::new(reader) as Box<dyn Watched>));
        let rollback_files = RollbackFiles::of(config);
        let services = RouteServices::default();
        let access = log(config, before)?;
        let materials = Materials {
            config,
            registry: &registry,
            push: push.as_ref(),
            common: &common,
            stores: &stores,
            services: &services,
        };
        let mut server_stats = server_stats(&common, config, access.as_ref());
        let (builder, incidents) = engine::builder(config, &registry, &shared.operator);
        let builder = builder.keep_descriptors(descriptors(config, checks.as_ref()));
        let (mut builder, closable) = udp::add(builder, config, &registry, &mut server_stats);
        if let Some(connector) = checks.as_ref().and_then(doorbell_checks::Plan::connector) {
            server_stats.checks = Some(Arc::clone(&shared.checks));
            server_stats.connector = Some(Arc::clone(connector));
            tracing::debug!("ports of checks: {}", connector.report());
        }
        let mut plan = http2::plan(config, &registry, Arc::clone(&shared.http2));
        let awaited = Awaited::default();
        let is_open = |listener: &str| before.is_some_and(|before| before.has_open(listener));
        for position in 0..config.listeners.len() {
            let access = access.as_ref().map(|access| access.lock());
            let access = access.as_deref();
            let acceptor = match config.tls_of(position).map(|table| (position, table)) {
                None => None,
                Some(table) => match awaited.pairs(config, table, is_open)? {
                    None => continue,
                    Some(pairs) => Some(listener::acceptor(pairs, &materials, table, &mut watched)?),
                },
            };
            builder =
                listener::add(builder, &materials, position, access, acceptor, &mut server_stats, &mut plan)?;
        }
        builder = agent::add(builder, config, &registry, |name| {
            server_stats.listeners.push(format!("agent.{name}").into());
            plan.iter_mut().for_each(Plan::add_none);
        })?;
        count_http2(&mut server_stats, shared, plan.is_some(), before);
        if let Some(plan) = &plan {
            builder = plan.attach(builder);
        }
        Ok(Self {
            registry,
            access,
            server_stats,
            incidents,
            watched,
            checks,
            push,
            plan,
            closable,
            builder,
            tables,
            compute: lane,
            rollback_files,
            awaited,
            services,
        })
    }
}

/// A registry, the plan of its checks, and the receiver of pushed results.
type Health = (Arc<HealthRegistry>, Option<ChecksPlan>, Option<Push>);

/// Builds the registry and the checks of a configuration.
fn health(shared: &SharedState, config: &Config, before: Option<&Generation>) -> Result<Health, Failure> {
    let registry = match before {
        Some(before) => HealthRegistry::build_after(config, &before.running.registry),
        None => HealthRegistry::build(config),
    };
    let registry = registry.map_err(Failure::bad_config)?;
    let handover = before.and_then(|before| before.handover.as_ref());
    let (checks, push) = checks::plan(config, &shared.checks, handover, registry.registry())
        .map_err(Failure::bad_config)?
        .unzip();
    registry.run_on_demand(checks.iter().flat_map(|plan: &ChecksPlan| plan.run_requests()));
    checks.iter().for_each(|plan| registry.count_in(plan.stats()));
    Ok((registry, checks, push))
}

/// The counters of clients; unchanged limits keep those of the previous generation.
fn tables(config: &Config, before: Option<&Generation>) -> Result<Tables, Failure> {
    let none = Tables::default();
    Tables::after(before.map_or(&none, |before| &before.tables), config).map_err(Failure::bad_config)
}

fn server_stats(common: &Common, config: &Config, access: Option<&SharedLog>) -> ServerStats {
    let mut server_stats = ServerStats::of(common, config);
    server_stats.access = access.map(|access| (Arc::as_ptr(access).addr(), access.lock().sink()));
    server_stats
}

/// Shows the counters of HTTP/2 if this configuration or an earlier one serves HTTP/2: connections
/// of the earlier one may still be open.
fn count_http2(stats: &mut ServerStats, shared: &SharedState, serves: bool, before: Option<&Generation>) {
    let counters = shared.http2.counters();
    if serves || before.is_some_and(|before| before.http2.is_some()) || counters.served().0 > 0 {
        stats.http2 = Some(Arc::clone(counters));
    }
}

/// Upper bound on open descriptors, in addition to those of connections and the engine.
fn descriptors(config: &Config, checks: Option<&ChecksPlan>) -> u32 {
    let of_admin = if config.admin.is_some() { admin::DESCRIPTORS } else { 0 };
    let of_checks = checks.map_or(0, ChecksPlan::descriptors);
    let of_history = if config.history.clickhouse.is_some() { history::DESCRIPTORS } else { 0 };
    let of_shared = if config.shared.is_some() { sharing::DESCRIPTORS } else { 0 };
    let of_store = descriptor_store::descriptors(config, workers::count(config));
    let all = [
        of_admin,
        of_checks,
        of_history,
        of_shared,
        of_store,
        ControlPlane::descriptors(config),
        Ports::descriptors(config),
    ];
    all.into_iter().fold(0, u32::saturating_add)
}

/// Returns the access log of the previous generation if its settings and the names of all routes
/// are the same, otherwise a new one. Log lines refer to routes by position.
fn log(config: &Config, before: Option<&Generation>) -> Result<Option<SharedLog>, Failure> {
    let names = |config: &Config| config.routes.iter().map(|route| route.name.clone()).collect::<Vec<_>>();
    let is_same = |before: &&Generation| {
        before.config.log.has_access_of(&config.log) && names(&before.config) == names(config)
    };
    if let Some(before) = before.filter(is_same) {
        return Ok(before.access.clone());
    }
    Ok(access_log::start(config)?.map(|log| Arc::new(Mutex::new(log))))
}
