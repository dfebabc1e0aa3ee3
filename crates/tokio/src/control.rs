//! The handle of an embedded server: futures for its lifecycle, its counters, its shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use doorbell::hand_over::HandedCount;
#[cfg(target_os = "linux")]
use doorbell::{DriverReport, LocalAddr, ServeError, Server, Snapshot, StartError};
use tokio::sync::watch;

use crate::health::Health;
use crate::portable::{self, RuntimeCounters};
use crate::queue::HandedQueue;

/// Controls and observes an embedded server.
///
/// Cheap to clone. The server stops when all controls and [`crate::Handed`] are dropped.
#[derive(Clone, Debug)]
pub struct Control {
    inner: Arc<ControlInner>,
}

#[derive(Debug)]
struct ControlInner {
    running: Running,
    queue: HandedQueue,
    places: HandedCount,
    failed: Arc<AtomicU64>,
    /// The server runs while a control or the receiver exists.
    _stop_on_drop: Arc<StopOnDrop>,
}

/// Stops the server when dropped.
#[derive(Debug)]
pub(crate) struct StopOnDrop {
    pub(crate) running: Running,
    pub(crate) abandoned: Arc<AtomicBool>,
}

/// Reason why a server is not running.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// A server on the runtime cannot listen.
    #[error("the server did not start: cannot listen on {addr}: {source}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The error of `bind` or `listen`.
        source: Arc<io::Error>,
    },
    /// Workers failed.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Failed(#[from] ServeError),
    /// The start failed.
    #[cfg(target_os = "linux")]
    #[error("the server did not start: {0}")]
    NotStarted(#[source] Arc<StartError>),
    /// The server was drained or stopped.
    #[error("the server has ended")]
    Over,
}

/// Counters of an embedded server at one moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Counters of the ring threads; all 0 with
    /// [`Doorbell::on_runtime`](crate::Doorbell::on_runtime).
    #[cfg(target_os = "linux")]
    pub ring: Snapshot,
    /// Counters of a server on the runtime.
    pub runtime: RuntimeCounters,
    /// Connections handed over and not dropped yet.
    pub handed_out: u32,
    /// Connections handed over and not yet taken from [`crate::Handed`].
    pub handed_waiting: usize,
    /// Connections closed because the runtime could not register them.
    pub handed_failed: u64,
}

/// Lifecycle of the server, as reported by its thread or task.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Starting,
    Running,
    Ended(Result<(), Ended>),
}

/// A started server, which accepts connections.
#[derive(Debug)]
pub(crate) struct Started {
    /// Addresses of the listeners; `None` if not TCP.
    tcp_addrs: Vec<Option<SocketAddr>>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    #[cfg(target_os = "linux")]
    Ring {
        handle: doorbell::Handle,
        report: DriverReport,
        notes: Vec<String>,
    },
    Runtime(portable::Handle),
}

impl Started {
    #[cfg(target_os = "linux")]
    pub(crate) fn on_ring(server: &Server) -> Self {
        let addr = |addr: &LocalAddr| match addr {
            LocalAddr::Tcp(addr) => Some(*addr),
            LocalAddr::Udp(_) | LocalAddr::Unix(_) => None,
        };
        let (report, notes) = (server.driver_report().clone(), server.notes().to_vec());
        Self {
            tcp_addrs: server.local_addrs().iter().map(addr).collect(),
            kind: Kind::Ring { handle: server.handle(), report, notes },
        }
    }

    pub(crate) fn on_runtime(addr: SocketAddr, handle: portable::Handle) -> Self {
        Self { tcp_addrs: vec![Some(addr)], kind: Kind::Runtime(handle) }
    }

    fn drain_within(&self, timeout: Duration) {
        match &self.kind {
            #[cfg(target_os = "linux")]
            Kind::Ring { handle, .. } => handle.drain_within(timeout),
            Kind::Runtime(handle) => handle.drain_within(timeout),
        }
    }

    pub(crate) fn stop(&self) {
        match &self.kind {
            #[cfg(target_os = "linux")]
            Kind::Ring { handle, .. } => handle.stop(),
            Kind::Runtime(handle) => handle.stop(),
        }
    }

    /// The counters of each ring thread.
    #[cfg(all(feature = "metrics", target_os = "linux"))]
    fn worker_stats(&self) -> Vec<Snapshot> {
        match &self.kind {
            Kind::Ring { handle, .. } => handle.worker_stats(),
            Kind::Runtime(_) => Vec::new(),
        }
    }

    #[cfg(feature = "metrics")]
    const fn is_on_runtime(&self) -> bool {
        matches!(self.kind, Kind::Runtime(_))
    }

    /// Adds the counters of the server.
    fn count_in(&self, stats: &mut Stats) {
        match &self.kind {
            #[cfg(target_os = "linux")]
            Kind::Ring { handle, .. } => stats.ring = handle.stats(),
            Kind::Runtime(handle) => stats.runtime = handle.counters(),
        }
    }
}

/// Observes the lifecycle phase, waits for changes, and ends the server. Does not keep the server
/// running.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    phase: watch::Receiver<Phase>,
    /// The started server, set before [`Phase::Running`] and kept after the end.
    started: Arc<OnceLock<Started>>,
    /// The health that a drain or a stop fails.
    pub(crate) health: Option<Health>,
}

impl Running {
    pub(crate) const fn new(
        phase: watch::Receiver<Phase>,
        started: Arc<OnceLock<Started>>,
        health: Option<Health>,
    ) -> Self {
        Self { phase, started, health }
    }

    fn started(&self) -> Option<&Started> {
        self.started.get()
    }

    pub(crate) fn tcp_addr(&self, listener: usize) -> Option<SocketAddr> {
        *self.started()?.tcp_addrs.get(listener)?
    }

    async fn ready(&self) -> Result<&Started, Ended> {
        let mut phase = self.phase.clone();
        let now = phase.wait_for(|phase| !matches!(phase, Phase::Starting)).await;
        match now.as_deref() {
            Ok(Phase::Running) => self.started().ok_or(Ended::Over),
            Ok(Phase::Ended(Err(ended))) => Err(ended.clone()),
            Ok(Phase::Starting | Phase::Ended(Ok(()))) | Err(_) => Err(Ended::Over),
        }
    }

    async fn ended(&self) -> Result<(), Ended> {
        let mut phase = self.phase.clone();
        let now = phase.wait_for(|phase| matches!(phase, Phase::Ended(_))).await;
        match now.as_deref() {
            Ok(Phase::Ended(result)) => result.clone(),
            Ok(Phase::Running | Phase::Starting) | Err(_) => Err(Ended::Over),
        }
    }

    /// Fails readiness, ends the server with `end` once it is ready, and waits for its end.
    async fn end(&self, end: impl Fn(&Started)) -> Result<(), Ended> {
        self.health.iter().for_each(Health::set_draining);
        if let Ok(started) = self.ready().await {
            end(started);
        }
        self.ended().await
    }

    async fn drain_after(&self, delay: Duration, timeout: Duration) -> Result<(), Ended> {
        self.health.iter().for_each(Health::set_draining);
        tokio::time::sleep(delay).await;
        self.end(|started| started.drain_within(timeout)).await
    }

    /// Drains the server as [`Control::drain_after`] does when `event` completes, whether or not
    /// the program has kept its [`Control`].
    pub(crate) async fn drain_at(self, event: impl Future<Output = ()>, delay: Duration, timeout: Duration) {
        tokio::select! {
            () = event => {}
            _ended = self.ended() => return,
        }
        // The result is not needed: [`Self::ended`] reports it to all waiters.
        let _ended = self.drain_after(delay, timeout).await;
    }
}

impl Control {
    pub(crate) fn new(
        running: Running,
        queue: HandedQueue,
        places: HandedCount,
        failed: Arc<AtomicU64>,
        stop_on_drop: Arc<StopOnDrop>,
    ) -> Self {
        let inner = ControlInner { running, queue, places, failed, _stop_on_drop: stop_on_drop };
        Self { inner: Arc::new(inner) }
    }

    /// Waits until the server accepts connections: on all ring threads, if it has any.
    ///
    /// # Errors
    /// The server failed or ended before it was ready.
    pub async fn ready(&self) -> Result<(), Ended> {
        self.inner.running.ready().await.map(drop)
    }

    /// Address of the TCP listener with this index, with the port that the kernel chose. `None`
    /// until the server is ready, and if there is no such TCP listener.
    pub fn tcp_addr(&self, listener: usize) -> Option<SocketAddr> {
        self.inner.running.tcp_addr(listener)
    }

    /// The driver in use and the reason for its choice; `None` until the server is ready, and for a
    /// server on the runtime.
    #[cfg(target_os = "linux")]
    pub fn driver_report(&self) -> Option<DriverReport> {
        match &self.inner.running.started()?.kind {
            Kind::Ring { report, .. } => Some(report.clone()),
            Kind::Runtime(_) => None,
        }
    }

    /// Adjustments made at the start, as sentences for the log; empty until the server is ready.
    #[cfg(target_os = "linux")]
    pub fn notes(&self) -> Vec<String> {
        match self.inner.running.started().map(|started| &started.kind) {
            Some(Kind::Ring { notes, .. }) => notes.clone(),
            Some(Kind::Runtime(_)) | None => Vec::new(),
        }
    }

    /// Current counters; those of the server are 0 until it is ready.
    pub fn stats(&self) -> Stats {
        let inner = &self.inner;
        let mut stats = Stats {
            handed_out: inner.places.out(),
            handed_waiting: inner.queue.waiting(),
            handed_failed: inner.failed.load(Ordering::Relaxed),
            ..Stats::default()
        };
        inner.running.started().into_iter().for_each(|started| started.count_in(&mut stats));
        stats
    }

    /// The counters of each ring thread; empty until the server is ready.
    #[cfg(all(feature = "metrics", target_os = "linux"))]
    pub(crate) fn worker_stats(&self) -> Vec<Snapshot> {
        self.inner.running.started().map(Started::worker_stats).unwrap_or_default()
    }

    /// True once a server on the runtime is ready.
    #[cfg(feature = "metrics")]
    pub(crate) fn is_on_runtime(&self) -> bool {
        self.inner.running.started().is_some_and(Started::is_on_runtime)
    }

    /// Fails readiness and drains the server: requests in progress are finished or handed over, and
    /// connections that remain after `timeout` are closed. If called again during a drain, the
    /// earlier deadline applies. Returns when the server has ended. The program finishes the
    /// connections that were handed over; [`Self::shutdown`] completes when the program has
    /// received the last one.
    ///
    /// # Errors
    /// The server failed, or never started.
    pub async fn drain(&self, timeout: Duration) -> Result<(), Ended> {
        self.inner.running.end(|started| started.drain_within(timeout)).await
    }

    /// Fails readiness, closes the server's listeners and connections, and waits for its end.
    ///
    /// # Errors
    /// The server failed, or never started.
    pub async fn stop(&self) -> Result<(), Ended> {
        self.inner.running.end(Started::stop).await
    }

    /// Waits for the end of the server, for any reason.
    ///
    /// # Errors
    /// The server failed, or never started.
    pub async fn ended(&self) -> Result<(), Ended> {
        self.inner.running.ended().await
    }

    /// Fails readiness at once, continues to accept for `delay`, so that load balancers stop
    /// sending traffic, then drains like [`Self::drain`].
    ///
    /// # Errors
    /// The server failed, or never started.
    pub async fn drain_after(&self, delay: Duration, timeout: Duration) -> Result<(), Ended> {
        self.inner.running.drain_after(delay, timeout).await
    }

    /// Completes when the server has ended and the program has taken all connections from
    /// [`crate::Handed`] and used each: it has read the first request, written a reply, or dropped
    /// the connection. The program may then stop accepting. The future does not wait until the
    /// program has finished these connections. Intended for `with_graceful_shutdown`.
    ///
    /// `axum::serve` then waits for requests in progress, but not for upgraded connections such as
    /// WebSockets: these end with the runtime. Their tasks can also wait for this future, and close
    /// the connection when it completes.
    pub fn shutdown(&self) -> impl Future<Output = ()> + Send + 'static {
        self.inner.queue.delivered()
    }

    pub(crate) fn running(&self) -> &Running {
        &self.inner.running
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn downgrade(&self) -> WeakControl {
        WeakControl(Arc::downgrade(&self.inner))
    }
}

/// A control that does not keep its server running.
#[cfg(feature = "metrics")]
#[derive(Clone, Debug)]
pub(crate) struct WeakControl(std::sync::Weak<ControlInner>);

#[cfg(feature = "metrics")]
impl WeakControl {
    pub(crate) fn upgrade(&self) -> Option<Control> {
        self.0.upgrade().map(|inner| Control { inner })
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::SeqCst);
        if let Some(started) = self.running.started() {
            started.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::HandOverAll;
    use std::task::{Context, Poll, Waker};

    /// As in `let (_, incoming) = Doorbell::bind(addr).start().await?`.
    #[tokio::test]
    async fn a_server_whose_controls_were_dropped_is_drained() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 0));
        let (control, mut handed) = portable::start(addr, HandOverAll, None).await.unwrap();
        let drain = control.running().clone().drain_at(async {}, Duration::ZERO, Duration::ZERO);
        drop(control);
        drain.await;
        let next = handed.poll_accept(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(next, Poll::Ready(None)), "it has ended");
    }
}
