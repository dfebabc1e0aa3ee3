//! The operator's view and control of the running program: one handle for the control socket, the
//! admin pages, signals and systemd.
//!
//! A command takes effect before its call returns: the next probe sees the effect. Only the
//! supervisor closes listeners; commands that end the program wake the supervisor through its
//! queue. Lock order: the lock of the state file, the lock of this module, the lock of a registry,
//! the lock of the event log.

mod act;
pub(crate) mod admin;
mod admin_runtime;
mod clock;
mod drain;
mod drains;
mod event_log;
mod files;
mod lifecycle;
mod maintenance;
mod persistence;
mod probers;
mod running;
mod state_file;
pub(crate) mod state_log;
mod supervise;
#[cfg(test)]
mod tests;
mod view;
mod windows;

pub(crate) use admin_runtime::ReplyPermits;
pub(crate) use admin_runtime::{AdminRuntime, DESCRIPTORS as RUNTIME_DESCRIPTORS};
pub use clock::{millis, time_of_day};
pub(crate) use event_log::EventLog;
pub(crate) use event_log::{Followed, Follower};
pub(crate) use files::MaintenanceFiles;
pub(crate) use running::{Incidents, Running};
pub(crate) use view::shared_state;
pub(crate) use windows::Window;

use crate::program::Program;
use crate::registry::HealthRegistry;
use crate::supervisor::queue::Queue;
use arc_swap::ArcSwapOption;
use clock::{Clock, unix_ms};
use doorbell_control::{EventKind, HoldSource, LinkView, Refusal, RefusalKind};
use doorbell_probes::{Subject, endpoint_target};
use doorbell_proxy_config::format_duration;
use drains::Drains;
use lifecycle::{Life, StateChange};
use maintenance::{Hold, Maintenance};
use parking_lot::{Mutex, MutexGuard};
use state_file::StateFile;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use windows::Windows;

/// Maximum duration of a drain or maintenance with a time limit.
pub const HOLD_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Handle of the running program. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Operator(Arc<OperatorCore>);

struct OperatorCore {
    clock: Clock,
    queue: Queue,
    event_log: Arc<EventLog>,
    running: ArcSwapOption<Running>,
    inner: Mutex<OperatorInner>,
    /// The state file, or the error if another instance uses the file.
    state_file: OnceLock<Result<Mutex<StateFile>, String>>,
    hooks: Hooks,
    reply_permits: ReplyPermits,
    program: Program,
    /// The address of the admin listener.
    admin: OnceLock<String>,
}

#[derive(Debug, Default)]
struct OperatorInner {
    life: Life,
    drains: Drains,
    maintenance: Maintenance,
    windows: Windows,
    /// The reasons in the files of `[maintenance] file_dir`, by file name.
    files: BTreeMap<String, String>,
    /// The registries in use: the current one, which is last, and earlier ones that still have
    /// connections.
    registries: Vec<Weak<HealthRegistry>>,
    /// The registry between [`Operator::prepare`] and [`Operator::adopt`].
    candidate: Weak<HealthRegistry>,
    generation: u64,
    /// The error of the last attempt to save the state and the time of the next one, if it failed.
    unsaved: Option<(String, Duration)>,
    /// Error and time of the last reload, if it failed.
    refused_reload: Option<(String, Duration)>,
}

type Hook<T> = OnceLock<Box<dyn Fn() -> T + Send + Sync>>;

/// Callbacks into other parts of the program.
#[derive(Default)]
struct Hooks {
    /// Reloads the configuration. Returns the result as a sentence, or the reason why nothing
    /// changed.
    reload: Hook<Result<String, String>>,
    /// Returns the views of the links.
    links: Hook<Vec<LinkView>>,
}

impl Operator {
    pub(crate) fn new(queue: Queue, program: Program) -> Self {
        let clock = Clock::start();
        Self(Arc::new(OperatorCore {
            clock,
            queue,
            event_log: Arc::new(EventLog::new(clock)),
            running: ArcSwapOption::empty(),
            inner: Mutex::default(),
            state_file: OnceLock::new(),
            hooks: Hooks::default(),
            reply_permits: ReplyPermits::default(),
            program,
            admin: OnceLock::new(),
        }))
    }

    /// The build of the program.
    pub(crate) fn program(&self) -> Program {
        self.0.program
    }

    /// Sets the address of the admin listener; only the first call has an effect.
    pub(crate) fn set_admin(&self, addr: SocketAddr) {
        self.0.admin.get_or_init(|| addr.to_string());
    }

    /// Prepares the registry of a new configuration: current and later drains and maintenance apply
    /// to the registry. The configuration takes effect with [`Self::adopt`]; until then the
    /// registry can be dropped.
    pub(crate) fn prepare(&self, registry: &Arc<HealthRegistry>) {
        let mut inner = self.lock();
        registry.report_to(&self.0.event_log);
        registry.drain(inner.life.drain_reason());
        for (endpoint, drains) in inner.drains.all() {
            registry.drain_one(endpoint, drains.reason());
        }
        inner.candidate = Arc::downgrade(registry);
        let now = self.0.clock.now();
        let targets: Vec<String> = inner.maintenance.targets().map(str::to_owned).collect();
        targets.iter().for_each(|target| inner.apply_to(registry, target, now));
    }

    /// Makes a prepared registry the current one: commands and maintenance files refer to its
    /// endpoints and checks, and these maintenance windows apply.
    pub(crate) fn adopt(&self, registry: &Arc<HealthRegistry>, windows: Vec<Window>) {
        let mut inner = self.lock();
        inner.candidate = Weak::new();
        inner.registries.retain(|registry| registry.strong_count() > 0);
        inner.registries.push(Arc::downgrade(registry));
        inner.windows.replace(windows);
        let now = self.0.clock.now();
        self.evaluate_windows(&mut inner, now);
        // Unknown targets are logged when the directory is read.
        let _unknown = self.apply_files(&mut inner, now);
        drop(inner);
        // The supervisor has to compute its next deadline again.
        self.0.queue.wake();
    }

    /// Sets the running server, whose registry has been adopted.
    pub(crate) fn install(&self, running: Arc<Running>) {
        self.0.running.store(Some(running));
        let mut inner = self.lock();
        inner.generation += 1;
        if inner.life.is_draining() {
            self.publish_drain(&inner);
        }
        let change = inner.life.set_serving(self.0.clock.now());
        self.record(&inner, change);
    }

    /// Sets the callback of [`Operator::reload`], which runs on the thread that calls `reload`.
    /// Only the first callback is kept.
    pub(crate) fn on_reload(&self, reload: impl Fn() -> Result<String, String> + Send + Sync + 'static) {
        self.0.hooks.reload.get_or_init(|| Box::new(reload));
    }

    /// The log of the program's events.
    pub(crate) fn events(&self) -> &EventLog {
        &self.0.event_log
    }

    /// Sets the callback of [`Operator::links`]. Only the first callback is kept.
    pub(crate) fn on_links(&self, links: impl Fn() -> Vec<LinkView> + Send + Sync + 'static) {
        self.0.hooks.links.get_or_init(|| Box::new(links));
    }

    /// Permits for replies in progress, for the servers of the control plane.
    pub(crate) fn reply_permits(&self) -> ReplyPermits {
        self.0.reply_permits.clone()
    }

    /// The running server.
    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        self.0.running.load_full()
    }

    /// Sets the maintenance that a source declares for a target (`None` ends it), and publishes and
    /// records the change.
    fn hold(
        &self,
        inner: &mut OperatorInner,
        target: &str,
        source: HoldSource,
        hold: Option<Hold>,
        now: Duration,
    ) {
        if inner.maintenance.set(target, source, hold.clone()) {
            self.publish_hold(inner, target, source, hold.as_ref(), now);
        }
    }

    /// Opens and closes maintenance windows by the time of day.
    fn evaluate_windows(&self, inner: &mut OperatorInner, now: Duration) {
        for (name, hold) in inner.windows.evaluate(now, unix_ms()) {
            match &hold {
                Some(hold) => tracing::info!(reason = hold.reason, "{name}: maintenance window begins"),
                None => tracing::info!("{name}: maintenance window ended"),
            }
            self.hold(inner, &name, HoldSource::Window, hold, now);
        }
    }

    fn publish_hold(
        &self,
        inner: &OperatorInner,
        target: &str,
        source: HoldSource,
        hold: Option<&Hold>,
        now: Duration,
    ) {
        self.0.event_log.record(EventKind::Maintenance {
            target: target.to_owned(),
            source,
            on: hold.is_some(),
            reason: hold.map(|hold| hold.reason.clone()).unwrap_or_default(),
            until_unix_ms: hold
                .and_then(|hold| hold.until)
                .map(|until| unix_ms().saturating_add(millis(until.saturating_sub(now)))),
        });
        inner.registries().for_each(|registry| inner.apply_to(&registry, target, now));
    }

    fn record(&self, inner: &OperatorInner, change: StateChange) {
        if let Some((from, to)) = change {
            let reason = inner.life.reason().to_owned();
            self.0.event_log.record(EventKind::Lifecycle { from, to, reason });
        }
    }

    fn lock(&self) -> MutexGuard<'_, OperatorInner> {
        self.0.inner.lock()
    }
}

impl OperatorInner {
    /// The registries in use, then the candidate. The current registry must receive each change
    /// first.
    fn registries(&self) -> impl Iterator<Item = Arc<HealthRegistry>> {
        self.registries.iter().chain(std::iter::once(&self.candidate)).filter_map(Weak::upgrade)
    }

    /// Publishes the maintenance of a target in a registry.
    fn apply_to(&self, registry: &HealthRegistry, target: &str, now: Duration) {
        let Some(subject) = registry.subject(target) else { return };
        let readiness: Vec<Subject> = registry.readiness().collect();
        let meant = if subject == Subject::All { readiness.clone() } else { vec![subject] };
        let wanted = |subject| {
            let hold = self.maintenance.in_effect(&registry.name_of(subject)?, readiness.contains(&subject));
            let left = |until: Duration| until.saturating_sub(now);
            Some((subject, hold.map(|hold| (hold.reason.as_str(), hold.until.map(left)))))
        };
        registry.maintain(meant.into_iter().filter_map(wanted));
    }

    /// Resolves a name in the current registry; before there is one, in the candidate. Returns the
    /// subject and the name under which the state of the subject is stored.
    fn subject(&self, target: &str) -> Result<(Subject, String), Refusal> {
        let found = self.registry().and_then(|registry| {
            let subject = registry.subject(target)?;
            Some((subject, registry.name_of(subject)?))
        });
        found.ok_or_else(|| {
            let text = format!(
                "unknown endpoint or check {target:?}: `doorbell status` and `doorbell checks` list them, and `all` is every readiness endpoint"
            );
            Refusal::new(RefusalKind::NotFound, text)
        })
    }

    /// The current registry; before there is one, the candidate.
    fn registry(&self) -> Option<Arc<HealthRegistry>> {
        self.registries.iter().rev().chain(std::iter::once(&self.candidate)).find_map(Weak::upgrade)
    }

    /// Returns the stored name of a target for which `is_declared` is true. Unlike
    /// [`Self::subject`], this also finds an endpoint or a check that a reload has removed.
    fn declared(target: &str, is_declared: impl Fn(&str) -> bool) -> Option<String> {
        let endpoint = endpoint_target(target.strip_prefix("endpoint:").unwrap_or(target));
        [endpoint, format!("check:{target}")].into_iter().find(|name| is_declared(name))
    }

    /// Ends the open windows of one target or of all, and returns the targets of these windows.
    fn end_windows(&mut self, name: &str) -> Vec<String> {
        let open: Vec<String> = self.windows.open().map(str::to_owned).collect();
        let is_meant = |target: &String| name == maintenance::ALL || target == name;
        let meant: Vec<String> = open.into_iter().filter(is_meant).collect();
        meant.iter().for_each(|target| self.windows.end(target, unix_ms()));
        meant
    }

    /// Returns a note for each declaration of maintenance that still applies to the target or, with
    /// `all`, to any target.
    fn still_held(&self, name: &str) -> Vec<String> {
        let all = maintenance::ALL;
        let takes_all = name == all || self.takes_all(name);
        let declared = HoldSource::ALL
            .into_iter()
            .flat_map(|source| self.maintenance.of_source(source).map(move |(target, _)| (source, target)));
        let about =
            declared.filter(|(_, target)| name == all || *target == name || (takes_all && *target == all));
        about
            .map(|(source, target)| match source {
                HoldSource::File => format!("{target}: still in maintenance by a file; remove the file"),
                HoldSource::Operator => {
                    format!(
                        "{target}: still in maintenance by an operator; `doorbell ready {target}` ends it"
                    )
                }
                HoldSource::Window => {
                    format!("{target}: still in maintenance by a window; `doorbell ready {target}` ends it")
                }
            })
            .collect()
    }

    /// Whether maintenance of `all` applies to a target.
    fn takes_all(&self, name: &str) -> bool {
        let Some(registry) = self.registry() else { return false };
        let subject = registry.subject(name);
        registry.readiness().any(|readiness| Some(readiness) == subject)
    }

    fn refuse_if_closing(&self) -> Result<(), Refusal> {
        match self.life.is_closing() {
            true => Err(Refusal::new(RefusalKind::TooLate, "listeners are closed: doorbell is stopping")),
            false => Ok(()),
        }
    }
}

/// Computes the end of a drain or maintenance with a limited duration. `ends` is the command that
/// ends the drain or maintenance, for the error message.
fn end_of(for_time: Option<Duration>, now: Duration, ends: &str) -> Result<Option<Duration>, Refusal> {
    match for_time {
        Some(time) if time > HOLD_MAX => {
            let (requested, max) = (format_duration(time), format_duration(HOLD_MAX));
            let text = format!("{requested} is longer than {max}: omit the time, and end it with `{ends}`");
            Err(Refusal::new(RefusalKind::Invalid, text))
        }
        time => Ok(time.map(|time| now.saturating_add(time))),
    }
}

/// Describes how long a drain or maintenance lasts: for a time, or until an operator runs `ends`.
fn lasts(for_time: Option<Duration>, ends: &str) -> String {
    for_time.map_or_else(|| format!("until `{ends}`"), |time| format!("for {}", format_duration(time)))
}

/// Appends a note to a text.
fn with_note(done: &str, note: Option<String>) -> String {
    note.map_or_else(|| done.to_owned(), |note| format!("{done}\n({note})"))
}

/// Converts a reason into one line of limited length.
fn one_line(text: &str) -> String {
    doorbell_health::Reason::new(text.as_bytes()).as_str().trim().to_owned()
}

impl fmt::Debug for OperatorCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("inner", &self.inner).finish_non_exhaustive()
    }
}
