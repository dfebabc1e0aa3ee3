//! The generations of a process: the current one, and retired ones that still have connections.

use super::fixed::cannot_change;
use super::waiter::Waiter;
use super::watch::{Stamps, directories_of};
use super::{Generation, SharedState, Started, contents, stamped_files};
use crate::exit::Failure;
use crate::log;
use crate::operator::{Window, millis, time_of_day};
use crate::sockets::systemd;
use crate::supervisor::queue::Queue;
use doorbell::Server;
use doorbell::time::{Clock as _, OsClock};
use doorbell_checks::ReadyScheduler;
use doorbell_proxy_config::format_duration;
use doorbell_proxy_config::model::{Config, ReloadOn};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Maximum idle time of the HTTP/1 connections of a retired generation, and maximum time until its
/// HTTP/2 connections end. Many clients close idle connections earlier.
const RETIRE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of retired generations; beyond it, the connections of the oldest one must end
/// within `drain_timeout`.
const RETIRED_MAX: usize = 2;

/// Maximum time of a scan of all files.
const SCAN_TIMEOUT: Duration = Duration::from_secs(10);

/// The failure of a reload during a stop.
const STOPPING: &str = "doorbell is stopping";

/// Reads the configuration for a reload, with the command line applied.
pub type Read = Box<dyn Fn() -> Reading + Send + Sync>;

/// The result of reading a configuration.
#[derive(Debug)]
pub struct Reading {
    /// The configuration, or its problems as text.
    pub config: Result<Config, String>,
    /// The configuration file and the files of its secrets.
    pub files: Vec<PathBuf>,
}

/// The generations of the process.
pub(crate) struct Generations {
    shared: SharedState,
    queue: Queue,
    /// Source of the configuration.
    origin: String,
    /// `None` if the source cannot be read again.
    read: Option<Read>,
    /// Locked from reading a configuration until it is in use, so that concurrent reloads take
    /// effect in the order of reading.
    reloading: Mutex<()>,
    inner: Mutex<GenerationsInner>,
}

struct GenerationsInner {
    /// The current generation; `None` after its server has ended. A reload uses it without this
    /// lock, so that a file system that hangs does not delay a drain.
    current: Option<Arc<Generation>>,
    /// Time from the start of the program until the current generation was loaded.
    loaded_at: Duration,
    /// Retired generations, oldest first.
    retired: Vec<Retired>,
    /// What the last reload read, if it failed: a configuration that could not be applied, or the
    /// problems of an invalid one.
    refused: Option<Result<Config, String>>,
    /// The last logged messages about changed keys that a reload cannot apply.
    fixed_keys: Vec<String>,
    closing: bool,
}

struct Retired {
    generation: Arc<Generation>,
    /// Whether the connections have a deadline, because too many generations are retired.
    has_deadline: bool,
}

impl Generations {
    /// Starts the first generation.
    pub(crate) fn start(
        shared: SharedState,
        queue: Queue,
        config: Config,
        origin: &str,
        read: Option<Read>,
    ) -> Result<Arc<Self>, Failure> {
        let started = Generation::start(&shared, config, origin, None)?;
        let inner = GenerationsInner {
            current: None,
            loaded_at: Duration::ZERO,
            retired: Vec::new(),
            refused: None,
            fixed_keys: Vec::new(),
            closing: false,
        };
        let (reloading, inner) = (Mutex::default(), Mutex::new(inner));
        let generations = Self { shared, queue, origin: origin.to_owned(), read, reloading, inner };
        started.log_notes();
        generations.activate(&mut generations.inner.lock(), started);
        generations.shared.process_stats.count(|reloads| reloads.since = OsClock.now());
        Ok(Arc::new(generations))
    }

    /// Reloads the configuration. A failure changes nothing. If the configuration is unchanged,
    /// only the files that it names are checked.
    pub(crate) fn reload(&self) -> Result<String, String> {
        let _one_at_a_time = self.reloading.lock();
        systemd::while_reloading(|| self.reload_now())
    }

    fn reload_now(&self) -> Result<String, String> {
        let Some(read) = &self.read else {
            self.scan_files_now();
            return Ok(format!(
                "configuration from {} cannot be reloaded; certificates, keys and stored files were checked",
                self.origin
            ));
        };
        let config = read().config;
        let outcome = config.clone().and_then(|config| self.apply(config));
        self.inner.lock().refused = outcome.is_err().then_some(config);
        match &outcome {
            Ok(text) => {
                self.count_success();
                tracing::info!(config = self.origin, "reloaded: {text}");
            }
            Err(why) => {
                self.shared.process_stats.count(|reloads| {
                    reloads.failed += 1;
                    reloads.has_last_failed = true;
                });
                tracing::error!(
                    config = self.origin,
                    "reload failed, keeping the current configuration: {why}"
                );
            }
        }
        outcome
    }

    /// Whether a reload of this configuration has an effect: the configuration differs from the
    /// current one, has new differences in fixed keys, or follows a refused configuration, whose
    /// failure the reload clears. Has no effect if the last reload failed with the same
    /// configuration, or with the same problems.
    pub(super) fn is_outdated(&self, config: Result<Config, String>) -> bool {
        let mut inner = self.inner.lock();
        if inner.refused.as_ref() == Some(&config) {
            return false;
        }
        let Ok(config) = config else { return true };
        let had_refused = inner.refused.take().is_some();
        let Some(current) = inner.current.clone() else { return false };
        drop(inner);
        let (config, fixed_keys) = self.with_fixed_keys(&current, config);
        had_refused || !current.is_same(&config) || fixed_keys != self.inner.lock().fixed_keys
    }

    /// Whether SIGHUP reloads the configuration.
    pub(crate) fn reloads_on_sighup(&self) -> bool {
        self.read.is_some()
            && self.with_config(|config| config.lifecycle.reloads_on(ReloadOn::Sighup)).unwrap_or_default()
    }

    /// Whether the generation with this number is the current one.
    pub(crate) fn is_current(&self, number: u64) -> bool {
        self.inner.lock().current.as_ref().is_some_and(|current| current.number == number)
    }

    /// Checks certificates, keys and stored files for changes.
    pub(crate) fn scan_files(&self) {
        let _one_at_a_time = self.reloading.lock();
        systemd::while_reloading(|| self.scan_files_now());
    }

    fn scan_files_now(&self) {
        let current = self.inner.lock().current.clone();
        if let Some(current) = current {
            current.scan_files(SCAN_TIMEOUT);
        }
    }

    /// Reopens access logs by their names.
    pub(crate) fn reopen_logs(&self) {
        self.inner.lock().each(Generation::reopen_log);
    }

    /// Stops accepting; open connections must end within `timeout`.
    pub(crate) fn drain(&self, timeout: Duration) {
        let mut inner = self.inner.lock();
        inner.closing = true;
        inner.each(|generation| generation.drain(timeout));
    }

    /// Closes every connection.
    pub(crate) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.closing = true;
        inner.each(Generation::stop);
    }

    /// Records the end of a server. Returns true if it was the last one.
    pub(crate) fn ended(&self, number: u64) -> bool {
        self.shared.process_stats.close(number);
        let mut inner = self.inner.lock();
        let retired = inner.retired.iter().position(|retired| retired.generation.number == number);
        let ended = match retired {
            Some(at) => Some(inner.retired.remove(at).generation),
            None => inner.current.take_if(|current| current.number == number),
        };
        let none_left = inner.current.is_none() && inner.retired.is_empty();
        drop(inner);
        drop(ended);
        if retired.is_some() {
            tracing::debug!(generation = number, "last connection of a former configuration ended");
        }
        none_left
    }

    /// Reads the configuration; `None` if it cannot be read again.
    pub(super) fn read(&self) -> Option<Reading> {
        Some(self.read.as_ref()?())
    }

    /// Returns the configuration with the current values of fixed keys, and a sentence for each
    /// changed fixed key.
    fn with_fixed_keys(&self, current: &Generation, config: Config) -> (Config, Vec<String>) {
        cannot_change(&current.config, self.shared.compute_settings(), config)
    }

    fn apply(&self, config: Config) -> Result<String, String> {
        let current = self.serving().ok_or(STOPPING)?;
        let (config, fixed_keys) = self.with_fixed_keys(&current, config);
        let text = if current.is_same(&config) && !current.running.awaited.has_usable(&config) {
            current.scan_files(SCAN_TIMEOUT);
            self.unchanged_text(current.number, fixed_keys.is_empty())
        } else {
            let text = self.replace(&current, config)?;
            self.shared.process_stats.count(|reloads| reloads.done += 1);
            text
        };
        self.inner.lock().log_fixed_keys(&fixed_keys);
        Ok(std::iter::once(text).chain(fixed_keys).collect::<Vec<_>>().join("\n"))
    }

    /// The current generation; `None` if the process is stopping.
    fn serving(&self) -> Option<Arc<Generation>> {
        let inner = self.inner.lock();
        inner.current.clone().filter(|_| !inner.closing)
    }

    /// The result of a reload without changes, for example because the file watcher reloaded first.
    /// `is_complete` is false if the file has other values for keys that a reload cannot change.
    fn unchanged_text(&self, number: u64, is_complete: bool) -> String {
        let age = self.shared.operator.uptime().saturating_sub(self.inner.lock().loaded_at);
        format!(
            "the configuration of {} is already in use (generation {number}, loaded {} ago){}; certificates, keys and stored files were checked",
            self.origin,
            format_duration(Duration::from_secs(age.as_secs())),
            if is_complete { "" } else { ", except for the keys below" }
        )
    }

    /// Replaces the current generation with a new one that has this configuration. A stop that
    /// begins while the new one is built prevails.
    fn replace(&self, current: &Generation, config: Config) -> Result<String, String> {
        let started = Generation::start(&self.shared, config, &self.origin, Some(current))
            .map_err(|failure| failure.to_string())?;
        started.log_notes();
        let number = started.generation.number;
        let addresses = started.generation.running.addresses.join(" ");
        let mut inner = self.inner.lock();
        if inner.closing {
            self.abandon(&mut inner, started);
            return Err(STOPPING.to_owned());
        }
        self.activate(&mut inner, started);
        Ok(format!("generation {number} serves at {addresses}"))
    }

    /// Drains a generation that has started while the process began to stop: clients may have
    /// connected to it.
    fn abandon(&self, inner: &mut GenerationsInner, started: Started) {
        let Started { generation, server, waiter, .. } = started;
        generation.drain(generation.config.lifecycle.drain_timeout);
        self.wait_for(&generation, server, waiter);
        inner.retired.push(Retired { generation: Arc::new(generation), has_deadline: true });
    }

    /// Counts what a started server does, and waits for its end.
    fn wait_for(&self, generation: &Generation, server: Server, waiter: Waiter) {
        let (number, stats) = (generation.number, Arc::clone(&generation.running.server_stats));
        waiter.wait_for(number, server, generation.http2.clone(), self.queue.clone());
        self.shared.process_stats.open(number, generation.running.handle.clone(), stats);
    }

    /// Whether a listener waits for its certificate.
    pub(crate) fn has_awaited(&self) -> bool {
        self.serving().is_some_and(|current| !current.running.awaited.is_empty())
    }

    /// Starts a new generation of the same configuration if the contents of files that the current
    /// one has read only once have changed (see [`stamped_files`]), or if the certificate of a
    /// waiting listener can be used now; otherwise `None`. The files are read only if their stamps
    /// differ from those that were `examined` last, so a change that cannot be used is tried once.
    pub(super) fn follow_files(&self, examined: &mut Stamps) -> Option<Result<String, String>> {
        let _one_at_a_time = self.reloading.lock();
        let current = self.serving()?;
        let now = Stamps::of(stamped_files(&current.config));
        let is_new = now != current.stamps && now != *examined;
        *examined = now;
        // Some programs write files again at intervals, without a change.
        let has_changed = is_new && contents(stamped_files(&current.config)) != current.contents;
        if !has_changed && !current.running.awaited.has_usable(&current.config) {
            return None;
        }
        let outcome = systemd::while_reloading(|| self.replace(&current, current.config.clone()));
        match &outcome {
            Ok(_) => self.end_refused(&current),
            Err(why) => current.running.awaited.refuse(&current.config, why),
        }
        Some(outcome)
    }

    /// Ends a failed reload whose configuration is in use now, because its certificates or
    /// addresses have become usable.
    fn end_refused(&self, current: &Generation) {
        let Some(Ok(config)) = self.inner.lock().refused.clone() else { return };
        if self.with_fixed_keys(current, config).0 == current.config {
            self.inner.lock().refused = None;
            self.count_success();
            self.shared.operator.end_refused_reload();
        }
    }

    fn count_success(&self) {
        self.shared.process_stats.count(|reloads| {
            reloads.has_last_failed = false;
            reloads.since = OsClock.now();
        });
    }

    /// The directories of the files that [`Self::follow_files`] examines.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let Some(current) = self.serving() else { return Vec::new() };
        let awaited = current.running.awaited.directories(&current.config);
        awaited.into_iter().chain(stamped_files(&current.config).flat_map(directories_of)).collect()
    }

    /// Makes a started generation the current one and retires its predecessor.
    fn activate(&self, inner: &mut GenerationsInner, started: Started) {
        let Started { generation, server, same, checks, ports, closable, waiter, history, sharing, starts } =
            started;
        let history = self.shared.history.commit(history);
        self.shared.operator.events().store_in(history.clone());
        let sample = generation.config.history.clickhouse.as_ref().map_or(0, |settings| settings.sample);
        self.shared.links.store_in(history.clone().map(|history| (history, sample)));
        let predecessor = inner.current.take();
        if let Some(predecessor) = &predecessor {
            generation.follow(predecessor, &same);
            self.shared.operator.adopt(&generation.running.registry, Window::all(&generation.config));
        }
        let open = predecessor.as_ref().map(|predecessor| std::mem::take(&mut predecessor.parts().ports));
        let running = Arc::clone(&generation.running);
        let ports =
            ports.open(open.unwrap_or_default(), &generation.config, &running.registry, &self.shared.links);
        // Computed after the ports are open, so that the operator sees the port numbers that the
        // kernel chose.
        running.ports.get_or_init(|| ports.addresses(&generation.config));
        generation.parts().ports = ports;
        self.wait_for(&generation, server, waiter);
        running.awaited.log();
        // The history already receives the transitions of the new registry, so none is missed after
        // the states are read here.
        if let Some(history) = history {
            let endpoints = running.registry.endpoints();
            let states = endpoints.iter().map(|endpoint| (endpoint.name.as_str(), endpoint.state.as_str()));
            history.follow(states, millis(time_of_day()));
        }
        generation.parts().checks = checks.map(ReadyScheduler::go);
        let operator = self.shared.operator.clone();
        let describe = Box::new(move || operator.announcement());
        self.shared.sharing.commit(sharing, starts, running.push.clone(), describe);
        self.shared.sharing.set_limits(generation.tables.shared_limits());
        self.shared.operator.install(Arc::clone(&running));
        self.shared.guard.follow(generation.config.admin.as_ref());
        log::set_level(generation.config.log.level);
        // The UDP ports follow their endpoints last, because the predecessor may open and close
        // ports until it has retired.
        inner.current = Some(Arc::new(generation));
        inner.loaded_at = self.shared.operator.uptime();
        if let Some(predecessor) = predecessor {
            predecessor.http2.iter().for_each(|http2| http2.set_deadline(RETIRE_TIMEOUT));
            if !running.handle.take_over(RETIRE_TIMEOUT) {
                tracing::warn!("a busy worker of the former configuration still accepts connections");
            }
            self.retire(inner, predecessor);
        }
        closable.follow(&running.registry, &running.handle);
    }

    fn retire(&self, inner: &mut GenerationsInner, predecessor: Arc<Generation>) {
        predecessor.http2.iter().for_each(|http2| http2.drain(RETIRE_TIMEOUT));
        drop(predecessor.parts().watch.take());
        inner.retired.push(Retired { generation: predecessor, has_deadline: false });
        let too_many = inner.retired.len().saturating_sub(RETIRED_MAX);
        for oldest in inner.retired.iter_mut().take(too_many).filter(|oldest| !oldest.has_deadline) {
            oldest.has_deadline = true;
            self.shared.process_stats.count(|reloads| reloads.hurried += 1);
            oldest.generation.drain(oldest.generation.config.lifecycle.drain_timeout);
        }
    }

    /// Calls `f` with the current configuration; `None` after the current server has ended.
    pub(crate) fn with_config<T>(&self, f: impl FnOnce(&Config) -> T) -> Option<T> {
        self.inner.lock().current.as_ref().map(|current| f(&current.config))
    }

    pub(crate) const fn shared(&self) -> &SharedState {
        &self.shared
    }
}

impl GenerationsInner {
    /// Logs the messages about fixed keys if they have changed.
    fn log_fixed_keys(&mut self, fixed_keys: &[String]) {
        if self.fixed_keys != fixed_keys {
            fixed_keys.iter().for_each(|what| tracing::warn!("{what}"));
            self.fixed_keys = fixed_keys.to_vec();
        }
    }

    fn each(&self, act: impl Fn(&Generation)) {
        let retired = self.retired.iter().map(|retired| &retired.generation);
        self.current.iter().chain(retired).for_each(|generation| act(generation));
    }
}

impl std::fmt::Debug for Generations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generations").field("origin", &self.origin).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Operator;
    use crate::operator::admin::Guard;
    use crate::program::Program;
    use crate::supervisor::Supervisor;
    use doorbell_proxy_config::{Source, parse};
    use std::net::TcpListener;

    fn config(bind: &str) -> Config {
        let text = format!(
            "version = 1\n[control]\nsocket = \"off\"\n[runtime]\ndriver = \"epoll\"\n[listener.web]\nbind = {bind:?}\n"
        );
        let source = Source { name: "f".to_owned(), text };
        let parsed = parse(&source, &|_| None);
        parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems))
    }

    #[test]
    fn a_configuration_that_failed_is_not_tried_again_without_a_request() {
        let supervisor = Supervisor::without_signals();
        let operator = Operator::new(supervisor.queue(), Program::default());
        let shared = SharedState::new(operator, Arc::new(Guard::closed()));
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap().to_string();
        let read = {
            let taken = taken.clone();
            Box::new(move || Reading { config: Ok(config(&taken)), files: Vec::new() })
        };
        let first = config("127.0.0.1:0");
        let generations =
            Generations::start(shared, supervisor.queue(), first.clone(), "f", Some(read)).unwrap();
        let reloads = || generations.shared.process_stats.reloads();
        let since = reloads().since;
        assert!(generations.is_outdated(Ok(config(&taken))));
        generations.reload().unwrap_err();
        assert!(!generations.is_outdated(Ok(config(&taken))));
        assert!(generations.is_outdated(Err("an error".to_owned())));
        // A request is always tried.
        generations.reload().unwrap_err();
        assert_eq!((reloads().failed, reloads().since), (2, since));
        assert!(generations.is_outdated(Ok(first)), "the reload clears the failure");
        drop(other);
        generations.reload().unwrap();
        assert!(reloads().since > since && reloads().done == 1);
        generations.stop();
    }

    #[test]
    fn a_stop_prevails_over_a_generation_that_is_being_built() {
        let supervisor = Supervisor::without_signals();
        let operator = Operator::new(supervisor.queue(), Program::default());
        let shared = SharedState::new(operator, Arc::new(Guard::closed()));
        let first = config("127.0.0.1:0");
        let generations = Generations::start(shared, supervisor.queue(), first.clone(), "f", None).unwrap();
        let current = generations.serving().unwrap();
        generations.drain(Duration::ZERO);
        assert_eq!(generations.replace(&current, first), Err(STOPPING.to_owned()));
        drop(current);
        let operator = generations.shared.operator.clone();
        supervisor.serve(&operator, &generations).unwrap();
        let inner = generations.inner.lock();
        assert!(inner.current.is_none() && inner.retired.is_empty(), "both servers have ended");
    }

    #[test]
    fn only_a_file_with_other_contents_starts_a_generation() {
        let ca = std::env::temp_dir().join(format!("doorbell-ca-{}.pem", std::process::id()));
        let pem = include_str!("../../../proxy-config/tests/config_material/server.crt");
        std::fs::write(&ca, pem).unwrap();
        let text = format!(
            "version = 1\n[control]\nsocket = \"off\"\n[runtime]\ndriver = \"epoll\"\n[check.a]\ntype = \"tls\"\n\
             address = \"127.0.0.1:9\"\ntls = {{ ca = {ca:?} }}\n[listener.web]\nbind = \"127.0.0.1:0\"\n"
        );
        let config = parse(&Source { name: "f".to_owned(), text }, &|_| None).config.unwrap();
        let supervisor = Supervisor::without_signals();
        let operator = Operator::new(supervisor.queue(), Program::default());
        let shared = SharedState::new(operator, Arc::new(Guard::closed()));
        let generations = Generations::start(shared, supervisor.queue(), config, "f", None).unwrap();
        let mut examined = Stamps::default();
        let mut follow = |text: &str| {
            std::fs::write(&ca, text).unwrap();
            generations.follow_files(&mut examined)
        };
        assert_eq!(follow(pem), None, "it is written again");
        assert!(follow("nothing").unwrap().is_err());
        assert_eq!(generations.follow_files(&mut examined), None, "an error is tried once");
        let twice = format!("{pem}{pem}");
        let mut follow = |text: &str| {
            std::fs::write(&ca, text).unwrap();
            generations.follow_files(&mut examined)
        };
        assert!(follow(&twice).unwrap().is_ok());
        generations.stop();
        std::fs::remove_file(&ca).unwrap();
    }
}
