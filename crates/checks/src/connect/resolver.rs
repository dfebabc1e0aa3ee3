//! Names and their addresses: looked up on few threads, one lookup per name at a time; cached
//! addresses are used while the resolver does not answer.
//!
//! The system's resolver may block indefinitely, and a blocked thread cannot be cancelled. So the
//! number of threads is limited, queued lookups are dropped when their last waiter is gone, and
//! checks of files and programs use other threads.

use crate::finding::{Issue, cause_of};
use crate::limits::LOOKUPS_MAX;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOOKUPS_MAX)));

/// How long cached addresses are used without a new answer. RFC 8767 5 allows days; by then the
/// addresses may belong to another host.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// Error texts of the C libraries for `EAI_AGAIN`: the lookup failed temporarily.
const NO_ANSWER: [&str; 2] = ["Temporary failure in name resolution", "Try again"];

type Lookup = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The host names of all checks, with their addresses.
pub(crate) struct Resolver {
    lookup: Arc<Lookup>,
    permits: Arc<Semaphore>,
    names: Mutex<HashMap<String, Weak<Name>>>,
}

/// One host name and its addresses.
pub(crate) struct Name {
    host: String,
    lookup: Arc<Lookup>,
    permits: Arc<Semaphore>,
    known: watch::Sender<Known>,
}

/// Cached state of a name.
#[derive(Debug, Default)]
struct Known {
    is_under_way: bool,
    /// Whether the last lookup failed temporarily or takes too long.
    is_slow: bool,
    found: Option<Found>,
    /// Reason why the last lookup found no address.
    failure: Option<String>,
}

#[derive(Clone, Debug)]
struct Found {
    at: Instant,
    addrs: Arc<[SocketAddr]>,
}

/// A lookup that waits for a thread or is running. Its result is published on drop.
struct PendingLookup {
    name: Arc<Name>,
    result: Option<io::Result<Vec<SocketAddr>>>,
    _permit: OwnedSemaphorePermit,
}

/// Resolves a host once one of `permits` is free; the permit is held until the lookup ends, even if
/// the caller stops waiting.
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
    /// Creates a resolver that uses this lookup function and has permits of its own.
    pub(crate) fn new(lookup: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        let permits = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { lookup: Arc::new(lookup), permits, names: Mutex::default() }
    }

    /// The shared entry of the name `host`.
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

    /// Returns the addresses. If `will_do` rejects the time at which the cached addresses were
    /// found, the name is looked up. The cached addresses are returned if the lookup does not end
    /// within `patience`, and without waiting if the last lookup was slow or no thread is free.
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
                // All threads are in use. A caller that stops waiting leaves the queue.
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
                self.known.send_modify(|known| {
                    if known.mark_slow() {
                        tracing::warn!(host = self.host, "DNS lookup timed out: using cached addresses");
                    }
                });
                Ok(before.addrs)
            }
        }
    }

    /// Starts a lookup unless one is running; returns `false` if no thread is free.
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
        // The thread is not joined; callers wait for its result.
        tokio::task::spawn_blocking(move || {
            let name = &pending.name;
            let result = (name.lookup)(&name.host);
            pending.result.replace(result);
        });
    }

    /// Waits for the result of the running lookup.
    async fn answer(&self) -> Result<Arc<[SocketAddr]>, Issue> {
        let mut changes = self.known.subscribe();
        let known = changes.wait_for(|known| !known.is_under_way).await;
        let known = known.map_err(|_| Issue::error("the lookup was interrupted"))?;
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
                    tracing::info!(host, "DNS lookups complete in time again");
                }
                self.failure = None;
                self.found = Some(Found { at: Instant::now(), addrs: addrs.into() });
            }
            Some(Err(error)) => {
                let text = error.to_string();
                self.failure = Some(cause_of(&error));
                if NO_ANSWER.iter().any(|words| text.contains(words)) {
                    if self.mark_slow() {
                        tracing::warn!(host, "DNS lookup failed temporarily: using cached addresses");
                    }
                } else {
                    (self.found, self.is_slow) = (None, false);
                }
            }
            None => self.failure = Some("the lookup was interrupted".to_owned()),
        }
    }

    /// Records that a lookup yields no new answer in time, if there are cached addresses: callers
    /// then use these without waiting. Returns true if this was not recorded before.
    fn mark_slow(&mut self) -> bool {
        self.found.is_some() && !std::mem::replace(&mut self.is_slow, true)
    }
}

impl Drop for PendingLookup {
    /// Publishes the result, even if the thread panicked or could not be started.
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
