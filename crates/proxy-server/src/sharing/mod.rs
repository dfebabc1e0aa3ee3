//! The store that instances share: its client, and a thread that keeps running across reloads that
//! change neither `[shared]`, its files nor the shared checks.
//!
//! Without `[shared]` there is no thread. Probes never wait for the thread: results of other
//! instances reach the check thread as pushed results.

mod announce;
mod checks;

pub use announce::LASTS as ANNOUNCEMENT_LASTS;
pub(crate) use checks::SharedChecks;

use crate::prepared_thread::PreparedThread;
use crate::reload::watch::Stamps;
use checks::{LocalChecks, ShareContext};
use doorbell::http::Time;
use doorbell::time::{Clock as _, OsClock};
use doorbell_checks::options::ClientTls;
use doorbell_checks::{Push, RunStart};
use doorbell_proxy_config::model::{Config, Sharing as Settings};
use doorbell_shared::redis::{Commands, Redis, RedisOptions, Server, SharedLimit};
use doorbell_shared::{Announcement, Status, StoreError};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;

/// Upper bound on file descriptors: those of the runtime, two connections, and name lookups.
pub(crate) const DESCRIPTORS: u32 = 16;

/// Maximum number of concurrent name lookups.
const LOOKUPS_MAX: usize = 2;

/// Returns the announcement of this instance.
pub(crate) type Describe = Box<dyn Fn() -> Announcement + Send>;

/// The store in use, if one is configured.
#[derive(Debug)]
pub(crate) struct SharingSlot {
    current: Mutex<Option<Current>>,
    local: Arc<LocalChecks>,
    /// The limits of the configuration in use.
    limits: watch::Sender<Vec<SharedLimit>>,
    status: Arc<Status>,
    /// Differs between processes.
    run: u64,
}

#[derive(Debug)]
struct Current {
    made_of: MadeOf,
    checks: Arc<ShareContext>,
    thread: PreparedThread<Describe>,
}

/// Settings, options of the shared checks, and file [stamps](Stamps), from which the thread was
/// built.
type MadeOf = (Settings, Vec<doorbell_shared::ShareOptions>, Stamps);

/// The store of a configuration that is not in use yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    checks: Option<SharedChecks>,
    next: Next,
}

#[derive(Debug)]
enum Next {
    None,
    Same,
    New(Box<Current>),
}

impl Prepared {
    /// The shared checks; `None` without `[shared]`.
    pub(crate) const fn checks(&self) -> Option<&SharedChecks> {
        self.checks.as_ref()
    }
}

impl SharingSlot {
    /// Creates an empty slot.
    pub(crate) fn new() -> Self {
        Self {
            current: Mutex::default(),
            local: Arc::default(),
            limits: watch::Sender::default(),
            status: Arc::default(),
            run: RandomState::new().hash_one(std::process::id()),
        }
    }

    /// Prepares the store of a configuration. It takes effect with [`Self::commit`]; until then the
    /// result can be dropped.
    ///
    /// # Errors
    /// A TLS file cannot be used, or the system refuses a thread.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Prepared, String> {
        let Some(settings) = &config.shared else { return Ok(Prepared { checks: None, next: Next::None }) };
        // The stamps are taken before the files are read, so that a change during reading is
        // detected.
        let stamps = Stamps::of(files(settings));
        let (positions, options) = checks::options(config, settings, self.run);
        let made_of = (settings.clone(), options, stamps);
        let current = self.current.lock();
        let same = current.as_ref().filter(|current| current.made_of == made_of);
        let shared = match same {
            Some(current) => Arc::clone(&current.checks),
            None => ShareContext::new(made_of.1.clone(), settings, &self.status),
        };
        let checks = Some(SharedChecks::new(Arc::clone(&shared), &positions));
        if same.is_some() {
            return Ok(Prepared { checks, next: Next::Same });
        }
        let (redis, commands) = client(settings, self.run, &self.status)?;
        let announced_as = settings.announce.then(|| instance(settings));
        let (running, local) = (Arc::clone(&shared), Arc::clone(&self.local));
        let limits = self.limits.subscribe();
        let run = async move |describe, mut left: watch::Receiver<bool>| {
            // The task ends with the runtime.
            tokio::spawn(share_limits(redis.clone(), limits));
            let announced = async {
                match announced_as {
                    Some(name) => announce::run(&redis, name, describe).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = commands.run(log) => {}
                () = running.run(redis.clone(), local) => {}
                () = announced => {}
                _stopped = left.changed() => {}
            }
        };
        let thread = PreparedThread::new("shared", LOOKUPS_MAX, run);
        let thread = thread.map_err(|error| format!("shared: cannot start a thread: {error}"))?;
        let current = Current { made_of, checks: shared, thread };
        Ok(Prepared { checks, next: Next::New(Box::new(current)) })
    }

    /// Activates a prepared store. `starts` start runs of shared checks, and `push` takes results
    /// of other instances, both by the position of the check.
    pub(crate) fn commit(
        &self,
        prepared: Prepared,
        starts: HashMap<usize, RunStart>,
        push: Option<Push>,
        describe: Describe,
    ) {
        let mut current = self.current.lock();
        let mut earlier = None;
        if !matches!(prepared.next, Next::Same) {
            // The earlier thread ends before the positions of the checks change.
            earlier = current.take().map(|ended| Arc::clone(&ended.checks));
        }
        self.local.follow(prepared.checks.as_ref(), starts, push);
        if let Next::New(next) = prepared.next {
            earlier.iter().for_each(|earlier| next.checks.continue_from(earlier));
            next.thread.start(describe);
            *current = Some(*next);
        }
    }

    /// Replaces the limits that instances share, for the current thread and later ones.
    pub(crate) fn set_limits(&self, limits: Vec<SharedLimit>) {
        self.limits.send_replace(limits);
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        *self.current.lock() = None;
    }
}

/// Creates the client of a configured store.
///
/// # Errors
/// A TLS file cannot be used.
pub fn client(settings: &Settings, seed: u64, status: &Arc<Status>) -> Result<(Redis, Commands), String> {
    let tls = settings.tls.clone().unwrap_or_default();
    let url = &settings.redis.value;
    let tls_config = url.is_tls.then(|| doorbell_checks::tls_client(&tls, "")).transpose();
    let server = Server {
        host: url.at.host.clone(),
        port: url.at.port,
        db: url.db,
        is_tls: url.is_tls,
        username: settings.username.clone().unwrap_or_default(),
        password: settings.password.as_ref().map(|one| one.reveal().to_owned()).unwrap_or_default(),
        tls: tls_config.map_err(|why| format!("shared: {why}"))?.map(|client| client.config),
        server_name: tls.server_name,
    };
    let (prefix, timeout) = (settings.prefix.clone(), settings.timeout);
    Ok(Redis::new(RedisOptions { server, prefix, timeout, seed }, Arc::clone(status)))
}

/// Name of this instance.
fn instance(settings: &Settings) -> String {
    settings.instance.clone().unwrap_or_else(doorbell_proxy_config::host_name)
}

/// The files that the client reads only when it is created.
pub(crate) fn files(settings: &Settings) -> impl Iterator<Item = &Path> {
    settings.tls.iter().flat_map(ClientTls::files)
}

/// Shares the limits of the configuration in use; never completes.
async fn share_limits(redis: Redis, mut limits: watch::Receiver<Vec<SharedLimit>>) {
    loop {
        let in_use = limits.borrow_and_update().clone();
        tokio::select! {
            () = redis.share_limits(in_use, now, log_limit) => {}
            changed = limits.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
        }
    }
}

/// The current time on the clock of the workers.
fn now() -> Time {
    OsClock.now()
}

/// Logs whether a limit is shared.
fn log_limit(name: &str, state: Result<(), &StoreError>) {
    static LOST: crate::log::Throttle = crate::log::Throttle::new();
    match state {
        Ok(()) => tracing::info!("limit {name}: shared again"),
        Err(why) => {
            if let Some(suppressed) = LOST.turn() {
                tracing::warn!(suppressed, "limit {name}: not shared, `on_error` applies: {why}");
            }
        }
    }
}

/// Logs whether the store can be used.
fn log(state: Result<(), &StoreError>) {
    static LOST: crate::log::Throttle = crate::log::Throttle::new();
    match state {
        Ok(()) => tracing::info!("shared: store available"),
        Err(why) => {
            if let Some(suppressed) = LOST.turn() {
                tracing::warn!(suppressed, "shared: store unavailable, continuing without it: {why}");
            }
        }
    }
}
