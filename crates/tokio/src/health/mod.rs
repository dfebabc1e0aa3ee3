//! The health of a program: its checks, the state of its runtimes, and the state that the program
//! sets.

mod builder;
mod check;
mod error;
mod heartbeats;
mod pushed;
mod sink;
mod watch;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

pub use builder::HealthBuilder;
pub use check::{Check, Ttl};
use doorbell_checks::{Push, ReadyScheduler, Scheduler, SchedulerCounters};
use doorbell_health::{Audience, EndpointState};
use doorbell_probes::{ProbeRoutes, Registry};
pub use error::HealthError;
pub use pushed::Pushed;
use tokio::runtime::Handle;
use tokio::sync::watch as watch_channel;

pub(crate) use heartbeats::Heartbeat;
use sink::WatchedRegistry;

/// The health of the program: checks, endpoints, and the replies that probes get.
///
/// Cheap to clone; clones share one state. Several servers, in one or several runtimes, may share
/// it. The program is then alive while none of these runtimes is stuck and the handed-over
/// connections of each server are accepted.
///
/// | endpoint | path | up or degraded while |
/// |---|---|---|
/// | `livez` | `/livez`, and `/healthz` unless [`HealthBuilder::without_healthz`] | `alive`: no runtime is stuck, connections are accepted, and [`Self::set_live`] is true |
/// | `readyz` | `/readyz` | `alive`, `runtime`, `accept`, `ready` ([`Self::set_ready`]) and all required checks are up or degraded, and no drain has begun |
/// | `startupz` | `/startupz` | once `alive`, `runtime`, `accept`, `started` ([`Self::set_started`]) and all required checks are up or degraded; it then stays up |
///
/// GET, HEAD and OPTIONS get 200 or 503 with the state. If [`HealthBuilder::details`] is `Always`,
/// the reply also contains the checks and their reasons, `?exclude=NAME` ignores a check, and
/// `/readyz/NAME` is the state of one check. `Accept` or the query selects the format: `?verbose`,
/// `?format=json` (health+json), `?format=spring`, `?format=text`. The ring threads and [routes,
/// layer and hyper service](crate::Handed#requests-on-connections-that-were-handed-over) give the
/// same replies.
///
/// A separate thread schedules the checks and monitors the runtimes. It ends when the last clone is
/// dropped.
#[derive(Clone)]
pub struct Health {
    inner: Arc<HealthInner>,
}

struct HealthInner {
    parts: Parts,
    /// The heartbeat of the runtime of the checks. Only a task of that runtime owns the heartbeat,
    /// which therefore ends with the runtime.
    own: Option<Weak<Heartbeat>>,
    /// Number of servers.
    servers: AtomicUsize,
    /// True once open `Watch` streams must end.
    ends: watch_channel::Sender<bool>,
    /// Ends when dropped.
    _scheduler: Scheduler,
}

/// Parts of a `Health`, except threads.
pub(crate) struct Parts {
    pub(crate) watched: Arc<WatchedRegistry>,
    pub(crate) routes: ProbeRoutes,
    /// Names of the program's checks, by position; positions start after the internal checks.
    pub(crate) names: Vec<String>,
    pub(crate) push: Push,
    pub(crate) counters: Arc<SchedulerCounters>,
    pub(crate) wake: doorbell_checks::Heartbeat,
}

/// The checks whose states the library itself sets, in the order of their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Internal {
    Alive,
    Runtime,
    Accept,
    Ready,
    Started,
}

impl Internal {
    pub(crate) const ALL: [Self; 5] = [Self::Alive, Self::Runtime, Self::Accept, Self::Ready, Self::Started];

    /// The checks that [`watch`] evaluates, in the order of [`watch::Reasons`].
    pub(crate) const WATCHED: [Self; 3] = [Self::Alive, Self::Runtime, Self::Accept];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Runtime => "runtime",
            Self::Accept => "accept",
            Self::Ready => "ready",
            Self::Started => "started",
        }
    }
}

/// Positions of the endpoints that always exist.
const LIVEZ: usize = 0;
const READYZ: usize = 1;
const STARTUPZ: usize = 2;

impl Health {
    /// A builder with the default settings. A `Health` without checks is ready at once.
    pub fn builder() -> HealthBuilder {
        HealthBuilder::default()
    }

    fn start(parts: Parts, ready: ReadyScheduler, runtime: Option<Handle>, starts_ready: bool) -> Self {
        if !starts_ready {
            parts.watched.set(Internal::Ready, Some("not ready"));
            parts.watched.set(Internal::Started, Some("starting"));
        }
        let interval = parts.watched.watch().limits.interval();
        let ticks = parts.watched.watch().limits.stalled_after.is_some();
        let own = runtime.filter(|_| ticks).map(|runtime| {
            let heartbeat = Arc::new(parts.watched.watch().heartbeats.begin(Some(runtime.metrics())));
            heartbeat.tick_on(&runtime, interval);
            parts.watched.run_periodically();
            Arc::downgrade(&heartbeat)
        });
        let scheduler = ready.go();
        let servers = AtomicUsize::new(0);
        let ends = watch_channel::Sender::new(false);
        Self { inner: Arc::new(HealthInner { parts, own, servers, ends, _scheduler: scheduler }) }
    }

    /// Sets whether the program is alive. False fails liveness and readiness; failed liveness
    /// causes a restart of the program. Default: true.
    pub fn set_live(&self, live: bool) {
        self.watched().watch().dead.store(!live, Ordering::Relaxed);
        self.run_internal_checks();
    }

    /// Sets whether the program accepts traffic, in addition to its checks. The first `true` also
    /// ends the startup phase. Default: true, or false with [`HealthBuilder::starts_unready`].
    pub fn set_ready(&self, ready: bool) {
        if ready {
            self.set_started();
        }
        self.watched().set(Internal::Ready, if ready { None } else { Some("not ready") });
    }

    /// Ends the startup phase, which exists only with [`HealthBuilder::starts_unready`].
    pub fn set_started(&self) {
        self.watched().set(Internal::Started, None);
    }

    /// Begins a drain, which fails readiness permanently. [`crate::Control::drain`] calls it.
    pub fn set_draining(&self) {
        if !self.watched().watch().draining.swap(true, Ordering::Relaxed) {
            self.watched().registry().drain(Some(""));
            self.run_internal_checks();
        }
        self.end_streams();
    }

    /// Ends open `Watch` streams if this health drains and has no server.
    fn end_streams(&self) {
        if self.is_draining() && self.inner.servers.load(Ordering::SeqCst) == 0 {
            self.inner.ends.send_replace(true);
        }
    }

    /// True once open `Watch` streams must end.
    #[cfg(feature = "grpc")]
    pub(crate) fn ends(&self) -> watch_channel::Receiver<bool> {
        self.inner.ends.subscribe()
    }

    /// True while `/livez` gets 200.
    pub fn is_live(&self) -> bool {
        self.serves(LIVEZ)
    }

    /// True while `/readyz` gets 200.
    pub fn is_ready(&self) -> bool {
        self.serves(READYZ)
    }

    /// True once `/startupz` gets 200.
    pub fn is_started(&self) -> bool {
        self.serves(STARTUPZ)
    }

    /// True from the start of a drain.
    pub fn is_draining(&self) -> bool {
        self.watched().watch().draining.load(Ordering::Relaxed)
    }

    /// The state of the endpoint with this name. During a drain this is `Drain`, even for `livez`
    /// and `startupz`, although a drain does not change their replies.
    pub fn state(&self, endpoint: &str) -> Option<EndpointState> {
        self.registry()
            .with_board(|board| Some(board.endpoint(board.endpoint_named(endpoint)?)?.verdict().state))
    }

    /// A handle to report results of a check that was added by [`HealthBuilder::push`]. `None` if
    /// there is no such check.
    pub fn pushed(&self, check: &str) -> Option<Pushed> {
        let at = self.inner.parts.names.iter().position(|name| name == check)?;
        let position = Internal::ALL.len() + at;
        let is_pushed = self.registry().with_board(|board| {
            let check = board.check_named(check).and_then(|index| board.check(index));
            check.is_some_and(|check| check.config().passive)
        });
        is_pushed.then(|| Pushed::new(self.inner.parts.push.clone(), position))
    }

    /// The registry of this health: states, statistics of probers, and transitions.
    pub fn registry(&self) -> &Arc<Registry> {
        self.watched().registry().registry()
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn clocked(&self) -> &crate::registry::ClockedRegistry {
        self.watched().registry()
    }

    /// Counters of the scheduler and of each check.
    pub fn counters(&self) -> &SchedulerCounters {
        &self.inner.parts.counters
    }

    /// The probe paths, such as `/readyz`; those of single checks (`/readyz/NAME`) are omitted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.inner.parts.routes.paths()
    }

    pub(crate) fn probe_routes(&self) -> &ProbeRoutes {
        &self.inner.parts.routes
    }

    /// Records that [`Probes`](crate::Probes) serve this health. The `Health` then fails until
    /// [`Self::begin`] is called for a server.
    pub(crate) fn serve_on_ring(&self) {
        self.watched().watch().is_on_ring.store(true, Ordering::Relaxed);
        self.run_internal_checks();
    }

    /// Begins the heartbeat of a server. The current runtime is monitored until [`Heartbeat::end`].
    ///
    /// # Panics
    /// Panics outside of a runtime if the `Health` has a heartbeat.
    pub(crate) fn begin(&self) -> Arc<Heartbeat> {
        self.inner.servers.fetch_add(1, Ordering::SeqCst);
        let watched = self.watched();
        let watch = watched.watch();
        let runtime = watch.limits.stalled_after.map(|_| Handle::current());
        let heartbeat = Arc::new(watch.heartbeats.begin(runtime.as_ref().map(Handle::metrics)));
        if let Some(runtime) = runtime {
            heartbeat.tick_on(&runtime, watch.limits.interval());
        }
        watch.is_served.store(true, Ordering::Relaxed);
        watched.run_periodically();
        self.run_internal_checks();
        self.inner.parts.wake.wake();
        heartbeat
    }

    /// Ends the heartbeat of a server.
    pub(crate) fn end(&self, heartbeat: &Heartbeat) {
        heartbeat.end();
        self.run_internal_checks();
        self.inner.servers.fetch_sub(1, Ordering::SeqCst);
        self.end_streams();
    }

    /// Reports an accepted connection. If `accept` is down, the internal checks run at once.
    #[inline]
    pub(crate) fn accepted(&self) {
        if self.watched().watch().accept_failed.load(Ordering::Relaxed) {
            self.run_internal_checks();
        }
    }

    /// Runs the internal checks now.
    pub(crate) fn run_internal_checks(&self) {
        self.watched().run_internal_checks();
    }

    fn watched(&self) -> &WatchedRegistry {
        &self.inner.parts.watched
    }

    fn serves(&self, endpoint: usize) -> bool {
        self.registry().published().load().states(endpoint)[Audience::Other as usize].1
    }
}

impl Drop for HealthInner {
    fn drop(&mut self) {
        self.own.iter().filter_map(Weak::upgrade).for_each(|heartbeat| heartbeat.end());
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("checks", &self.inner.parts.names).finish_non_exhaustive()
    }
}
