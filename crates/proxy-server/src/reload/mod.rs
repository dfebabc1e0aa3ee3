//! A generation: all components of one configuration, from its registry to its sockets.
//!
//! The first generation is created when the program starts. A later one is built completely while
//! the current one serves, and started on the same listening sockets; then the current one retires
//! ([`generations`]). A failure before the new server starts leaves the current generation and all
//! shared state unchanged. Steps that can fail precede the start of the server and can be rolled
//! back; steps that cannot be rolled back follow the start and cannot fail.

mod awaited;
mod build;
mod file;
mod fixed;
mod generations;
mod ports;
mod rollback_files;
mod sink;
mod waiter;
pub(crate) mod watch;

pub(crate) use awaited::Awaited;
pub(crate) use file::{ConfigFile, GenerationFiles};
pub(crate) use generations::Generations;
pub use generations::{Read, Reading};

use crate::build::checks::CheckHandover;
use crate::build::{compute, engine};
use crate::exit::{Exit, Failure};
use crate::guards::client_limits::Tables;
use crate::history::{self, HistorySlot, Prepared, Results};
use crate::links::{self, LinkPeers};
use crate::operator::admin::Guard;
use crate::operator::{MaintenanceFiles, Operator, Running, Window, time_of_day};
use crate::registry::HealthRegistry;
use crate::reload::watch::{Stamps, Watch, Watched};
use crate::routes::RouteServices;
use crate::sharing::{self, SharingSlot};
use crate::sockets::udp::Closable;
use crate::stats::process::ProcessStats;
use build::Built;
use doorbell::access_log::AccessLog;
use doorbell::{Offload, Server};
use doorbell_checks::options::ClientTls;
use doorbell_checks::{Plan as ChecksPlan, ReadyScheduler, RunStart, Scheduler as Checks, SchedulerCounters};
use doorbell_http2::Http2;
use doorbell_probes::SameChecks;
use doorbell_proxy_config::model::{Compute, Config};
use parking_lot::{Mutex, MutexGuard};
use ports::{Ports, Unopened};
use sink::CheckSink;
use std::collections::HashMap;
use std::hash::{Hash as _, Hasher as _};
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use waiter::Waiter;

/// Maximum time to write the last lines of an access log.
const ACCESS_LOG_END: Duration = Duration::from_secs(2);

/// Maximum number of bytes of a certificate file that are compared.
const FILE_LEN_MAX: u64 = 1 << 20;

/// State shared by all generations of a process.
pub(crate) struct SharedState {
    pub(crate) operator: Operator,
    pub(crate) process_stats: Arc<ProcessStats>,
    /// The guard of the admin listener.
    guard: Arc<Guard>,
    checks: Arc<SchedulerCounters>,
    http2: Arc<doorbell_http2::Common>,
    history: HistorySlot,
    links: Arc<LinkPeers>,
    sharing: SharingSlot,
    /// The threads of `[compute]` and their settings. Created on first use and never dropped,
    /// because running jobs need the threads.
    compute: OnceLock<(Compute, Offload)>,
    /// Maintenance files, before the watcher takes them.
    files: Mutex<Option<Box<dyn Watched>>>,
}

/// All components of one configuration.
#[derive(Debug)]
pub(crate) struct Generation {
    number: u64,
    config: Config,
    /// The components that operators see.
    running: Arc<Running>,
    http2: Option<Arc<Http2>>,
    access: Option<SharedLog>,
    /// State of the checks for the next generation.
    handover: Option<CheckHandover>,
    tables: Arc<Tables>,
    services: RouteServices,
    /// Stamps of [`stamped_files`].
    stamps: Stamps,
    /// Hash of their contents.
    contents: u64,
    current: Mutex<CurrentParts>,
}

/// What only the current generation has.
#[derive(Debug, Default)]
struct CurrentParts {
    checks: Option<Checks>,
    ports: Ports,
    watch: Option<Watch>,
}

/// An access log that generations with the same settings share.
type SharedLog = Arc<Mutex<AccessLog>>;

/// A generation that accepts connections at the same time as its predecessor.
#[derive(Debug)]
pub(crate) struct Started {
    generation: Generation,
    server: Server,
    /// The result of [`same_checks`] for the predecessor's configuration and this one.
    same: SameChecks,
    checks: Option<ReadyScheduler>,
    ports: Unopened,
    /// UDP ports that are closed while their endpoint does not serve.
    closable: Closable,
    waiter: Waiter,
    history: Prepared,
    sharing: sharing::Prepared,
    /// Starts the runs of shared checks, by position.
    starts: HashMap<usize, RunStart>,
}

impl SharedState {
    pub(crate) fn new(operator: Operator, guard: Arc<Guard>) -> Self {
        let links = Arc::new(LinkPeers::new());
        let shown = Arc::clone(&links);
        operator.on_links(move || shown.views());
        let (counted, probed) = (Arc::clone(&links), operator.clone());
        let counters = move || counted.counters().into_iter().chain(probed.prober_counters()).collect();
        Self {
            operator,
            guard,
            process_stats: Arc::default(),
            checks: Arc::default(),
            http2: Arc::default(),
            history: HistorySlot::new(time_of_day, counters),
            links,
            sharing: SharingSlot::new(),
            compute: OnceLock::new(),
            files: Mutex::default(),
        }
    }

    /// The maintenance files to watch, if configured.
    pub(crate) fn take_files(&self) -> Option<Box<dyn Watched>> {
        self.files.lock().take()
    }

    /// Restores saved drains and maintenance in the first registry, and prepares maintenance files.
    fn begin(&self, config: &Config, registry: &Arc<HealthRegistry>) {
        if let Some(path) = &config.lifecycle.state_file {
            self.operator.open_state_file(path);
        }
        self.operator.prepare(registry);
        self.operator.adopt(registry, Window::all(config));
        let files = config.maintenance.file_dir.as_ref();
        let files = files.map(|directory| MaintenanceFiles::new(directory, &self.operator));
        *self.files.lock() = files.map(|files| Box::new(files) as Box<dyn Watched>);
    }

    /// Writes the last rows of the history, for a limited time.
    pub(crate) fn end_history(&self) {
        self.operator.events().store_in(None);
        self.links.store_in(None);
        self.history.end();
    }

    /// Ends the thread of the shared store.
    pub(crate) fn end_sharing(&self) {
        self.sharing.end();
    }

    /// Whether the threads of `[compute]` run.
    pub(crate) fn has_compute(&self) -> bool {
        self.compute.get().is_some()
    }

    /// The settings with which the threads of `[compute]` were started, if they were.
    fn compute_settings(&self) -> Option<&Compute> {
        self.compute.get().map(|(settings, _)| settings)
    }

    /// Returns the threads of `[compute]` if a route of this configuration uses them. Newly started
    /// threads end if the generation is not put in use.
    fn compute(&self, config: &Config) -> Result<Option<Offload>, Failure> {
        match self.compute.get() {
            Some((_, offload)) => Ok(config.needs_compute().then(|| offload.clone())),
            None => compute::start(config),
        }
    }
}

impl Generation {
    /// Builds and starts a generation, on the same sockets as `before` if it is given. `origin` is
    /// the source of the configuration. A failure changes nothing.
    pub(crate) fn start(
        shared: &SharedState,
        config: Config,
        origin: &str,
        before: Option<&Self>,
    ) -> Result<Started, Failure> {
        before.map_or(Ok(()), |before| before.refuse_overlap(&config))?;
        let same = before.map(|before| same_checks(&before.config, &config)).unwrap_or_default();
        // Recorded before the files are read, so that the next reload detects a change during
        // reading.
        let (stamps, contents) = (Stamps::of(stamped_files(&config)), contents(stamped_files(&config)));
        let mut built = Built::new(shared, &config, before)?;
        let http2 = built.plan.map(|plan| Arc::new(plan.start()));
        if let Some(before) = before {
            built.registry.inherit(&before.running.registry, &same);
            built.builder = built.builder.succeed(&before.running.handle);
            shared.operator.prepare(&built.registry);
        } else {
            shared.begin(&config, &built.registry);
        }
        let watch = Watch::start(built.watched).map_err(Failure::no_thread)?;
        let run_now_handle = built.checks.as_ref().map(ChecksPlan::run_now_handle);
        let heartbeat = built.checks.as_ref().map(ChecksPlan::heartbeat);
        let handover = built.checks.as_ref().map(|plan| CheckHandover::of(&config, plan));
        let ports = match before {
            Some(before) => Ports::prepare(&config, Some((&before.parts().ports, &before.config)), shared)?,
            None => Ports::prepare(&config, None, shared)?,
        };
        let history = shared.history.prepare(&config).map_err(Failure::bad_config)?;
        let sharing = shared.sharing.prepare(&config).map_err(Failure::bad_config)?;
        let starts = built.checks.iter_mut().flat_map(ChecksPlan::run_starts).collect();
        let results = Results::new(&config, history.history(), time_of_day);
        let sink = CheckSink::new(built.registry.result_sink(), results, sharing.checks());
        let checks = built.checks.map(|plan| plan.start(sink)).transpose().map_err(Failure::no_thread)?;
        let waiter = Waiter::start().map_err(Failure::no_thread)?;
        // The server is started last: nothing after this can fail.
        let server = built.builder.start().map_err(|error| engine::start_failure(&error))?;
        built.rollback_files.keep();
        if let Some(offload) = built.compute {
            shared.compute.get_or_init(|| (config.compute.clone(), offload));
        }
        let running = Arc::new(Running {
            registry: built.registry,
            handle: server.handle(),
            report: server.driver_report().clone(),
            incidents: built.incidents,
            awaited: built.awaited,
            addresses: engine::addresses(&server),
            ports: OnceLock::new(),
            origin: origin.to_owned(),
            lifecycle: config.lifecycle.clone(),
            check_kinds: Running::check_kinds(&config),
            config_hash: hash(&config),
            server_stats: Arc::new(built.server_stats),
            process_stats: Arc::clone(&shared.process_stats),
            run_now_handle,
            push: built.push,
            heartbeat,
            shared_checks: sharing.checks().cloned(),
        });
        let generation = Self {
            number: before.map_or(1, |before| before.number + 1),
            config,
            running,
            http2,
            access: built.access,
            handover,
            tables: built.tables,
            services: built.services,
            stamps,
            contents,
            current: Mutex::new(CurrentParts { watch: Some(watch), ..CurrentParts::default() }),
        };
        let closable = built.closable;
        Ok(Started { generation, server, same, checks, ports, closable, waiter, history, sharing, starts })
    }

    /// Refuses addresses that overlap an open socket of this generation.
    fn refuse_overlap(&self, next: &Config) -> Result<(), Failure> {
        let Some((new, old)) = next.conflict_with(&self.config) else { return Ok(()) };
        let why = format!("cannot bind {new} while doorbell listens at {old}: restart doorbell");
        Err(Failure::new(Exit::AddressInUse, why))
    }

    /// Whether a listener of this name is open.
    fn has_open(&self, listener: &str) -> bool {
        self.config.listeners.iter().any(|open| open.name == listener) && !self.running.awaited.has(listener)
    }

    /// Checks all files for changes.
    fn scan_files(&self, timeout: Duration) {
        if let Some(watch) = &self.parts().watch {
            watch.scan(timeout);
        }
    }

    fn parts(&self) -> MutexGuard<'_, CurrentParts> {
        self.current.lock()
    }

    fn reopen_log(&self) {
        if let Some(access) = &self.access {
            access.lock().reopen();
        }
    }

    /// Stops accepting; open connections must end within `timeout`.
    fn drain(&self, timeout: Duration) {
        self.http2.iter().for_each(|http2| http2.set_deadline(timeout));
        self.running.handle.drain_within(timeout);
        self.http2.iter().for_each(|http2| http2.drain(timeout));
    }

    fn stop(&self) {
        self.running.handle.stop();
        self.http2.iter().for_each(|http2| http2.stop());
    }

    /// Whether this generation has the same configuration, and none of [`stamped_files`] has
    /// changed.
    fn is_same(&self, config: &Config) -> bool {
        self.config == *config && self.stamps == Stamps::of(stamped_files(config))
    }
}

/// Ends the other components, after the server has ended.
impl Drop for Generation {
    fn drop(&mut self) {
        *self.parts() = CurrentParts::default();
        drop(self.http2.take());
        let log = self.access.take().and_then(Arc::into_inner);
        let log = log.map(Mutex::into_inner);
        if log.is_some_and(|log| !log.stop(ACCESS_LOG_END)) {
            tracing::warn!("access log: cannot write the last lines in time");
        }
    }
}

impl Started {
    /// Logs the adjustments that the server made to its settings.
    fn log_notes(&self) {
        self.server.notes().iter().for_each(|note| tracing::info!("{note}"));
    }
}

impl Generation {
    /// Takes over from `before` and stops its checks. Takes their last results, and later results
    /// that are pushed on remaining connections of `before`.
    fn follow(&self, before: &Self, same: &SameChecks) {
        // First, so that no pushed result finds a closed queue: the new queue stores results until
        // its scheduler starts.
        if let (Some(before), Some(now)) = (&before.running.push, &self.running.push) {
            before.redirect(now, &same.places);
        }
        drop(before.parts().checks.take());
        self.running.registry.inherit(&before.running.registry, same);
        before.services.set_successors(&self.services);
        self.running.registry.report_instead_of(&before.running.registry);
    }
}

/// Returns the checks with the same type and type-specific options in both configurations; the
/// lifetime of pushed results may differ. The registry waits for a first result of every other
/// check, at most as long as a run or a push may take.
fn same_checks(before: &Config, now: &Config) -> SameChecks {
    let known: HashMap<&str, usize> =
        before.checks.iter().enumerate().map(|(at, check)| (check.name.as_str(), at)).collect();
    let mut same = SameChecks::default();
    for check in &now.checks {
        let place = known.get(check.name.as_str()).copied();
        let place = place
            .filter(|&at| before.checks.get(at).is_some_and(|old| old.kind.has_same_target(&check.kind)));
        if place.is_none() {
            let first = || check.pace.timeout + doorbell_checks::first_runs(now.checks.len());
            let time = check.kind.pushed_ttl().unwrap_or_else(first);
            same.awaited.insert(check.name.clone(), time);
        }
        same.places.push(place);
    }
    same
}

/// The files that components read only when they are built: CA and own certificates, and keys, of
/// checks, the history, links and the shared store.
fn stamped_files(config: &Config) -> impl Iterator<Item = &Path> {
    let of_checks = config.checks.iter().filter_map(|check| check.kind.tls()).flat_map(ClientTls::files);
    let of_shared = config.shared.iter().flat_map(sharing::files);
    of_checks.chain(history::files(config)).chain(links::files(config)).chain(of_shared)
}

/// Hash of the contents of files. A file that cannot be read counts as missing.
fn contents<'a>(files: impl Iterator<Item = &'a Path>) -> u64 {
    let read = |path: &Path| {
        // Opening a FIFO would block.
        let file = path.is_file().then(|| std::fs::File::open(path).ok()).flatten()?;
        let mut bytes = Vec::new();
        file.take(FILE_LEN_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let mut hasher = std::hash::DefaultHasher::new();
    files.for_each(|path| read(path).hash(&mut hasher));
    hasher.finish()
}

/// Hash of a configuration, independent of its notation. Excludes secrets.
fn hash(config: &Config) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    doorbell_proxy_config::to_json(config, true).to_string().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_proxy_config::{Source, parse};

    #[test]
    fn a_new_check_is_awaited_until_its_first_result_can_be_there() {
        let config = |text: &str| {
            let text =
                format!("version = 1\n[check.db]\ntype = \"tcp\"\naddress = \"127.0.0.1:5432\"\n{text}");
            parse(&Source { name: "f".into(), text }, &|_| None).config.expect("it is valid")
        };
        let before = config("");
        let beat = "[check.beat]\ntype = \"ttl\"\nttl = \"1m\"\n";
        let cache = "[check.cache]\ntype = \"tcp\"\naddress = \"127.0.0.1:6379\"\ntimeout = \"2s\"\n";
        let same = same_checks(&before, &config(&format!("{beat}{cache}")));
        let awaited = |name: &str| same.awaited.get(name).map(Duration::as_secs);
        assert_eq!((awaited("beat"), awaited("cache"), awaited("db")), (Some(60), Some(2), None));
    }
}
