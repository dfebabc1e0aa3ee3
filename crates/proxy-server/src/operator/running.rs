//! The running server, which a reload replaces.

use crate::registry::HealthRegistry;
use crate::reload::Awaited;
use crate::sharing::SharedChecks;
use crate::stats::process::ProcessStats;
use crate::stats::server::ServerStats;
use doorbell::io_uring::Cause;
use doorbell::{DriverReport, Handle};
use doorbell_checks::options::Check;
use doorbell_checks::{Heartbeat, Push, RunNow};
use doorbell_control::{CheckView, WorkerView};
use doorbell_proxy_config::model::{Config, Lifecycle};
use doorbell_shared::ShareView;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The running server.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) registry: Arc<HealthRegistry>,
    pub(crate) handle: Handle,
    pub(crate) report: DriverReport,
    pub(crate) incidents: Arc<Incidents>,
    /// Listeners that wait for their certificate.
    pub(crate) awaited: Awaited,
    pub(crate) addresses: Vec<String>,
    /// Other addresses of this configuration, by purpose; set when they are open.
    pub(crate) ports: OnceLock<BTreeMap<String, Vec<String>>>,
    /// The source of the configuration.
    pub(crate) origin: String,
    pub(crate) lifecycle: Lifecycle,
    /// The kind of each check, by position.
    pub(crate) check_kinds: Vec<Kind>,
    pub(crate) config_hash: String,
    pub(crate) server_stats: Arc<ServerStats>,
    /// Counters of this server and all earlier ones.
    pub(crate) process_stats: Arc<ProcessStats>,
    /// Handle to request runs of checks; `None` without checks.
    pub(crate) run_now_handle: Option<RunNow>,
    /// Accepts pushed results; `None` without checks.
    pub(crate) push: Option<Push>,
    /// Heartbeat of the check thread; `None` without checks.
    pub(crate) heartbeat: Option<Heartbeat>,
    /// The shared checks and their store; `None` without `[shared]`.
    pub(crate) shared_checks: Option<SharedChecks>,
}

/// Fallbacks and failures of the workers of one server. An earlier server, whose workers may still
/// have connections, has its own `Incidents`.
#[derive(Debug, Default)]
pub(crate) struct Incidents(Mutex<BTreeMap<u16, Incident>>);

/// Fallback and failure of one worker.
#[derive(Clone, Debug, Default)]
struct Incident {
    /// Description and [`Cause`] of a fallback to epoll.
    fell_back: Option<(String, Cause)>,
    failed: Option<String>,
}

impl Incidents {
    pub(crate) fn fell_back(&self, worker: u16, why: String, cause: Cause) {
        self.0.lock().entry(worker).or_default().fell_back = Some((why, cause));
    }

    pub(crate) fn failed(&self, worker: u16, why: String) {
        self.0.lock().entry(worker).or_default().failed = Some(why);
    }
}

/// The kind of a check.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kind {
    /// The value of `type`.
    word: &'static str,
    /// Whether the check runs on demand.
    is_on_demand: bool,
}

impl Running {
    /// The kinds of the checks of a configuration.
    pub(crate) fn check_kinds(config: &Config) -> Vec<Kind> {
        let kind = |check: &Check| Kind { word: check.kind.word(), is_on_demand: check.pace.cache.is_some() };
        config.checks.iter().map(kind).collect()
    }

    /// Whether the check at position `check` has this `type`.
    pub(super) fn has_kind(&self, check: usize, kind: &str) -> bool {
        self.check_kinds.get(check).is_some_and(|known| known.word == kind)
    }

    /// Open connections of this server and all earlier ones, of any protocol.
    pub(super) fn conns_open(&self) -> u64 {
        self.process_stats.stats().conns_live + self.server_stats.http2_live()
    }

    pub(crate) fn checks(&self, name: Option<&str>, history: bool) -> Vec<CheckView> {
        let named = |(at, view): (usize, CheckView)| {
            let kind = self.check_kinds.get(at).copied().unwrap_or_default();
            // An on-demand check has a next run only before its first result.
            let next_in_ms = view.next_in_ms.filter(|_| !kind.is_on_demand || view.last.is_none());
            let from = self.shared_checks.as_ref().and_then(|checks| checks.view(at)?.from);
            CheckView { kind: kind.word.to_owned(), next_in_ms, from, ..view }
        };
        self.registry.checks(name, history).into_iter().map(named).collect()
    }

    /// The shared checks, each with its name and a view of its sharing.
    pub(crate) fn shared_views(&self) -> Vec<(String, ShareView)> {
        let Some(shared) = &self.shared_checks else { return Vec::new() };
        let named = self.registry.checks(None, false).into_iter();
        named.filter_map(|(at, check)| Some((check.name, shared.view(at)?))).collect()
    }

    /// Counters of the store that instances share; empty without `[shared]`.
    pub(super) fn sharing_counters(&self) -> Vec<(String, u64)> {
        let Some(shared) = &self.shared_checks else { return Vec::new() };
        let store = shared.status().counters();
        let counters = [
            ("shared_commands", store.commands),
            ("shared_errors", store.errors),
            ("shared_failing_live", u64::from(!shared.status().is_usable())),
        ];
        counters.map(|(name, count)| (name.to_owned(), count)).into()
    }

    pub(super) fn workers(&self) -> Vec<WorkerView> {
        let view = |(worker, stats): (u16, doorbell::Snapshot)| {
            let incident = self.incidents.0.lock().get(&worker).cloned().unwrap_or_default();
            let has_failed = incident.failed.is_some();
            let is_fallback = self.report.is_fallback || incident.fell_back.is_some();
            let driver = if incident.fell_back.is_some() { "epoll" } else { self.report.kind.as_str() };
            let cause = incident.fell_back.as_ref().map_or(self.report.cause, |(_, cause)| *cause);
            let fell_back = incident.fell_back.map(|(why, _)| why);
            WorkerView {
                driver: driver.to_owned(),
                why: incident.failed.or(fell_back).unwrap_or_else(|| self.report.why.clone()),
                is_fallback,
                cause: cause.word().to_owned(),
                has_failed,
                conns_live: stats.conns_live,
                requests: stats.requests,
            }
        };
        (0..).zip(self.handle.worker_stats()).map(view).collect()
    }

    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        let stats = self.process_stats.stats();
        let engine = stats.fields().filter(|(_, value)| *value > 0);
        let reloads = self.process_stats.reloads();
        let always = [
            ("conns_accepted", stats.conns_accepted),
            ("conns_live", stats.conns_live),
            ("requests", stats.requests),
            ("reloads", reloads.done),
            ("reloads_failed", reloads.failed),
            ("reloads_hurried", reloads.hurried),
            ("log_lost", crate::log::lines_lost()),
        ];
        let http2 =
            self.server_stats.http2_served().map(|_| ("http2_conns_live", self.server_stats.http2_live()));
        let all = always.into_iter().chain(http2).chain(engine);
        all.map(|(name, value)| (name.to_owned(), value)).chain(self.server_stats.counts()).collect()
    }
}
