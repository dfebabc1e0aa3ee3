//! The handle on an embedded server: its state as futures, its counters, its end.
//!
//! Does not know about: connections.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use doorbell::hand_over::Places;
use doorbell::{DriverReport, Handle, LocalAddr, ServeError, Snapshot, StartError};
use tokio::sync::watch;

use crate::desk::Desk;
use crate::health::Health;

/// Controls and observes an embedded server. Cheap to clone. When the last one and [`crate::Handed`] are dropped, the server stops.
#[derive(Clone, Debug)]
pub struct Control {
    inside: Arc<Inside>,
}

#[derive(Debug)]
struct Inside {
    running: Running,
    desk: Desk,
    places: Places,
    failed: Arc<AtomicU64>,
    health: Option<Health>,
    /// The server runs while a control or the receiving side is left.
    _keeper: Arc<Keeper>,
}

/// Stops the server when it is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) running: Running,
    pub(crate) abandoned: Arc<AtomicBool>,
}

/// Why a server does not run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// Workers failed.
    #[error(transparent)]
    Failed(#[from] ServeError),
    /// It was never started.
    #[error("the server did not start: {0}")]
    NotStarted(#[source] Arc<StartError>),
    /// It was drained or stopped.
    #[error("the server has ended")]
    Over,
}

/// The counters of an embedded server at one moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Of the ring threads.
    pub ring: Snapshot,
    /// Connections that were handed over and are not dropped yet.
    pub handed_out: u32,
    /// Of these, not taken from [`crate::Handed`] yet.
    pub handed_waiting: usize,
    /// Connections that the runtime could not register; they were closed.
    pub handed_failed: u64,
}

/// How far the server has come, as its own thread tells it.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Starting,
    Running(Arc<Started>),
    Ended(Result<(), Ended>),
}

/// A server that accepts.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) handle: Handle,
    pub(crate) local_addrs: Vec<LocalAddr>,
    pub(crate) report: DriverReport,
    pub(crate) notes: Vec<String>,
}

/// The phase, to look at and to wait for.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    phase: watch::Receiver<Phase>,
    /// The last start that was seen: it outlives its phase.
    started: Arc<std::sync::OnceLock<Arc<Started>>>,
}

impl Running {
    pub(crate) fn new(phase: watch::Receiver<Phase>) -> Self {
        Self { phase, started: Arc::default() }
    }

    fn started(&self) -> Option<Arc<Started>> {
        if let Phase::Running(started) = &*self.phase.borrow() {
            let _seen = self.started.set(Arc::clone(started));
        }
        self.started.get().cloned()
    }

    pub(crate) fn tcp_addr(&self, listener: usize) -> Option<SocketAddr> {
        match self.started()?.local_addrs.get(listener)? {
            LocalAddr::Tcp(addr) => Some(*addr),
            LocalAddr::Unix(_) => None,
        }
    }

    async fn ready(&self) -> Result<Arc<Started>, Ended> {
        let mut phase = self.phase.clone();
        let now = phase.wait_for(|phase| !matches!(phase, Phase::Starting)).await;
        match now.as_deref() {
            Ok(Phase::Running(started)) => Ok(Arc::clone(self.started.get_or_init(|| Arc::clone(started)))),
            Ok(Phase::Ended(Err(ended))) => Err(ended.clone()),
            Ok(Phase::Starting | Phase::Ended(Ok(()))) | Err(_) => Err(Ended::Over),
        }
    }

    async fn ended(&self) -> Result<(), Ended> {
        let mut phase = self.phase.clone();
        let now = phase.wait_for(|phase| matches!(phase, Phase::Ended(_))).await;
        match now.as_deref() {
            Ok(Phase::Ended(result)) => result.clone(),
            Ok(Phase::Running(_) | Phase::Starting) | Err(_) => Err(Ended::Over),
        }
    }
}

impl Control {
    pub(crate) fn new(
        running: Running,
        desk: Desk,
        places: Places,
        failed: Arc<AtomicU64>,
        health: Option<Health>,
        keeper: Arc<Keeper>,
    ) -> Self {
        Self { inside: Arc::new(Inside { running, desk, places, failed, health, _keeper: keeper }) }
    }

    /// Waits until every worker accepts.
    ///
    /// # Errors
    /// Why that will not be.
    pub async fn ready(&self) -> Result<(), Ended> {
        self.inside.running.ready().await.map(drop)
    }

    /// The address of a TCP listener, with the port that the kernel chose; known once the server is ready.
    pub fn tcp_addr(&self, listener: usize) -> Option<SocketAddr> {
        self.inside.running.tcp_addr(listener)
    }

    /// Which driver runs, and why; known once the server is ready.
    pub fn driver_report(&self) -> Option<DriverReport> {
        self.inside.running.started().map(|started| started.report.clone())
    }

    /// What was adjusted at start: sentences for the log.
    pub fn notes(&self) -> Vec<String> {
        self.inside.running.started().map(|started| started.notes.clone()).unwrap_or_default()
    }

    /// The counters now.
    pub fn stats(&self) -> Stats {
        let inside = &self.inside;
        Stats {
            ring: inside.running.started().map(|started| started.handle.stats()).unwrap_or_default(),
            handed_out: inside.places.out(),
            handed_waiting: inside.desk.waiting(),
            handed_failed: inside.failed.load(Ordering::Relaxed),
        }
    }

    /// Readiness fails from now on; what is in progress on the ring threads is finished or handed over, within `timeout`. Returns when
    /// the server has ended. What was handed over is the program's to finish: [`Self::delivered`] tells when no more will come.
    ///
    /// # Errors
    /// The server failed, or never started.
    pub async fn drain(&self, timeout: Duration) -> Result<(), Ended> {
        self.inside.health.iter().for_each(Health::set_draining);
        if let Ok(started) = self.inside.running.ready().await {
            started.handle.drain_within(timeout);
        }
        self.inside.running.ended().await
    }

    /// Closes the server's listeners and connections, and returns when it has ended.
    ///
    /// # Errors
    /// The server failed, or never started.
    pub async fn stop(&self) -> Result<(), Ended> {
        self.inside.health.iter().for_each(Health::set_draining);
        if let Ok(started) = self.inside.running.ready().await {
            started.handle.stop();
        }
        self.inside.running.ended().await
    }

    /// Waits for the end of the server, whoever caused it.
    ///
    /// # Errors
    /// The server failed, or never started.
    pub async fn ended(&self) -> Result<(), Ended> {
        self.inside.running.ended().await
    }

    /// Ready when the server has ended and everything that it handed over was taken from [`crate::Handed`]: when the program behind it may
    /// stop accepting. Made for `with_graceful_shutdown`.
    pub fn delivered(&self) -> impl Future<Output = ()> + Send + 'static {
        let desk = self.inside.desk.clone();
        poll_fn(move |cx| desk.poll_delivered(cx))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::SeqCst);
        if let Some(started) = self.running.started() {
            started.handle.stop();
        }
    }
}
