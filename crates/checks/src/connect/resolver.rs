//! Names and their addresses: looked up on few threads, each name by one at a time, and what was known stays while no answer comes.
//!
//! Does not know about: ports, families, which address is taken.
//!
//! The system's resolver may hang for as long as it likes, and a thread that asks it cannot be called back. So the threads that do are
//! counted, nothing waits in line behind them that nobody waits for any more, and files and programs have threads of their own.

use crate::finding::{Issue, cause_of};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

/// Names that are looked up at once by all checks of the process: a thread that hangs outlives the configuration that wanted the name.
pub(crate) const LOOKUPS_MAX: usize = 32;

static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOOKUPS_MAX)));

/// For how long addresses are used about which no new answer comes. RFC 8767 5 allows days; by then they are somebody else's.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// What the C libraries say when the resolver could not be asked (`EAI_AGAIN`): no answer about the name.
const NO_ANSWER: [&str; 2] = ["Temporary failure in name resolution", "Try again"];

type Lookup = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Names of all checks.
pub(crate) struct Resolver {
    lookup: Arc<Lookup>,
    permits: Arc<Semaphore>,
    names: Mutex<HashMap<String, Weak<Name>>>,
}

/// One name.
pub(crate) struct Name {
    host: String,
    lookup: Arc<Lookup>,
    permits: Arc<Semaphore>,
    known: watch::Sender<Known>,
}

/// Knowledge of a name.
#[derive(Debug, Default)]
struct Known {
    is_under_way: bool,
    /// Whether it came to nothing when it was looked up last, or takes too long.
    is_slow: bool,
    found: Option<Found>,
    /// Why the last lookup found nothing.
    failure: Option<String>,
}

#[derive(Clone, Debug)]
struct Found {
    at: Instant,
    addrs: Arc<[SocketAddr]>,
}

/// A lookup, from the moment on at which it may begin.
struct PendingLookup {
    name: Arc<Name>,
    result: Option<io::Result<Vec<SocketAddr>>>,
    _permit: OwnedSemaphorePermit,
}

/// Addresses of a host, looked up once one of `permits` is free; it is held until the lookup ends, even if the caller stops waiting.
///
/// # Errors
/// The lookup fails.
pub async fn lookup_host(host: String, permits: &Arc<Semaphore>) -> io::Result<Vec<SocketAddr>> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
    let looked = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        lookup(&host)
    });
    looked.await.map_err(io::Error::other)?
}

fn lookup(host: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((host, 0).to_socket_addrs()?.collect())
}

impl Default for Resolver {
    fn default() -> Self {
        Self { permits: Arc::clone(&PERMITS), ..Self::new(lookup) }
    }
}

impl Resolver {
    /// With lookups of its own, apart from those of others.
    pub(crate) fn new(lookup: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        let permits = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { lookup: Arc::new(lookup), permits, names: Mutex::default() }
    }

    /// The one of this name that all share who ask for it.
    pub(crate) fn name(&self, host: &str) -> Arc<Name> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.get(host).and_then(Weak::upgrade) {
            return name;
        }
        names.retain(|_, name| name.strong_count() > 0);
        let name = Arc::new(Name {
            host: host.to_owned(),
            lookup: Arc::clone(&self.lookup),
            permits: Arc::clone(&self.permits),
            known: watch::Sender::default(),
        });
        names.insert(host.to_owned(), Arc::downgrade(&name));
        name
    }
}

impl Name {
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Addresses that were found at a moment that will do, or are found now. While no answer comes, those of before, for which nobody is
    /// kept waiting longer than `patience`.
    pub(crate) async fn addrs(
        self: &Arc<Self>,
        will_do: impl Fn(Instant) -> bool,
        patience: Duration,
    ) -> Result<Arc<[SocketAddr]>, Issue> {
        let (before, is_slow) = {
            let known = self.known.borrow();
            (known.usable().cloned(), known.is_slow)
        };
        let Some(before) = before else {
            if !self.begin() {
                // All threads are taken. Whoever stops waiting is forgotten.
                let permit = Arc::clone(&self.permits).acquire_owned().await;
                permit.ok().into_iter().for_each(|permit| self.begin_with(permit));
            }
            return self.answer().await;
        };
        if will_do(before.at) {
            return Ok(before.addrs);
        }
        let has_begun = self.begin();
        if is_slow || !has_begun {
            return Ok(before.addrs);
        }
        match timeout(patience, self.answer()).await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                self.known.send_modify(|known| known.go_on_without(&self.host));
                Ok(before.addrs)
            }
        }
    }

    /// False when no thread is free. True, and nothing, when it is looked up already.
    fn begin(self: &Arc<Self>) -> bool {
        if self.known.borrow().is_under_way {
            return true;
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        permit.map(|permit| self.begin_with(permit)).is_some()
    }

    fn begin_with(self: &Arc<Self>, permit: OwnedSemaphorePermit) {
        let is_first = self.known.send_if_modified(|known| !std::mem::replace(&mut known.is_under_way, true));
        if !is_first {
            return;
        }
        let mut pending = PendingLookup { name: Arc::clone(self), result: None, _permit: permit };
        // Nobody waits for the thread; who wants to know waits for what is known.
        tokio::task::spawn_blocking(move || {
            let name = &pending.name;
            let result = (name.lookup)(&name.host);
            pending.result.replace(result);
        });
    }

    /// What the lookup that is under way comes to.
    async fn answer(&self) -> Result<Arc<[SocketAddr]>, Issue> {
        let mut told = self.known.subscribe();
        let known = told.wait_for(|known| !known.is_under_way).await;
        let known = known.map_err(|_| Issue::error("the lookup was cut short"))?;
        let failure = known.failure.as_deref().unwrap_or("no address");
        let addrs = known.usable().map(|found| Arc::clone(&found.addrs));
        addrs.ok_or_else(|| Issue::error(format!("{}: {failure}", self.host)))
    }
}

impl Known {
    fn usable(&self) -> Option<&Found> {
        self.found.as_ref().filter(|found| found.at.elapsed() < KEPT_FOR)
    }

    fn settle(&mut self, host: &str, result: Option<io::Result<Vec<SocketAddr>>>) {
        self.is_under_way = false;
        match result {
            Some(Ok(addrs)) => {
                if std::mem::take(&mut self.is_slow) {
                    tracing::info!(host, "a name is looked up in time again");
                }
                self.failure = None;
                self.found = Some(Found { at: Instant::now(), addrs: addrs.into() });
            }
            Some(Err(error)) => {
                let text = error.to_string();
                self.failure = Some(cause_of(&error));
                if NO_ANSWER.iter().any(|words| text.contains(words)) {
                    self.go_on_without(host);
                } else {
                    (self.found, self.is_slow) = (None, false);
                }
            }
            None => self.failure = Some("the lookup was cut short".to_owned()),
        }
    }

    /// There is no new answer, and nobody waits for the next one.
    fn go_on_without(&mut self, host: &str) {
        if self.found.is_some() && !std::mem::replace(&mut self.is_slow, true) {
            tracing::warn!(host, "a name is not looked up in time: its addresses of before are used");
        }
    }
}

impl Drop for PendingLookup {
    /// Also when its thread never came to it, or died.
    fn drop(&mut self) {
        let result = self.result.take();
        self.name.known.send_modify(|known| known.settle(&self.name.host, result));
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("free", &self.permits.available_permits()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Name").field("host", &self.host).field("known", &self.known).finish_non_exhaustive()
    }
}
