//! The parts of a server before its start, on ring threads or on the runtime: its queue, its
//! lifecycle, and its handles.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use doorbell::hand_over::HandedCount;
use tokio::sync::watch;

use crate::control::{Control, Ended, Phase, Running, Started, StopOnDrop};
use crate::handed::Handed;
use crate::health::{Health, Heartbeat};
use crate::queue::HandedQueue;

/// A server that has not started.
pub(crate) struct Launch {
    queue: HandedQueue,
    places: HandedCount,
    running: Running,
    stop_on_drop: Arc<StopOnDrop>,
}

/// The part of a launch that belongs to the server. Reports the end of the server when dropped,
/// even if dropping a service panics.
pub(crate) struct ServerGuard {
    phase: watch::Sender<Phase>,
    started: Arc<OnceLock<Started>>,
    queue: HandedQueue,
    watched: Option<Watched>,
    abandoned: Arc<AtomicBool>,
    /// The result that is reported.
    pub(crate) result: Result<(), Ended>,
}

/// The `Health` that monitors a server, and the server's heartbeat.
struct Watched {
    health: Health,
    heartbeat: Arc<Heartbeat>,
}

impl Launch {
    /// Prepares a server that will put connections into `queue`, and begins its heartbeat in
    /// `health`.
    pub(crate) fn new(
        queue: HandedQueue,
        places: HandedCount,
        health: Option<Health>,
    ) -> (Self, ServerGuard) {
        queue.set_places(places.clone());
        let watched = health.as_ref().map(|health| Watched::begin(health, &queue));
        let (phase, observed) = watch::channel(Phase::Starting);
        let started = Arc::new(OnceLock::new());
        let running = Running::new(observed, Arc::clone(&started), health);
        let abandoned = Arc::new(AtomicBool::new(false));
        let stop_on_drop =
            Arc::new(StopOnDrop { running: running.clone(), abandoned: Arc::clone(&abandoned) });
        let guard = ServerGuard {
            phase,
            started,
            queue: queue.clone(),
            watched,
            abandoned,
            result: Err(Ended::Over),
        };
        (Self { queue, places, running, stop_on_drop }, guard)
    }

    /// The handles of the program.
    pub(crate) fn handles(self) -> (Control, Handed) {
        let Self { queue, places, running, stop_on_drop } = self;
        let failed = Arc::new(AtomicU64::new(0));
        let control = Control::new(
            running.clone(),
            queue.clone(),
            places,
            Arc::clone(&failed),
            Arc::clone(&stop_on_drop),
        );
        (control, Handed::new(queue, failed, running, stop_on_drop))
    }
}

impl ServerGuard {
    /// The sender of the server's phase, to report that its thread could not be started.
    #[cfg(target_os = "linux")]
    pub(crate) fn phase(&self) -> watch::Sender<Phase> {
        self.phase.clone()
    }

    /// Reports that the server accepts connections.
    pub(crate) fn begin(&self, server: Started) {
        // A server starts once.
        let server = self.started.get_or_init(|| server);
        self.phase.send_replace(Phase::Running);
        if self.abandoned.load(Ordering::SeqCst) {
            // All controls and the receiver were dropped during the start.
            server.stop();
        }
    }
}

impl Drop for ServerGuard {
    fn drop(&mut self) {
        self.watched.iter().for_each(|watched| watched.end(&self.queue));
        // The queue ends first, so that no connection arrives after the end becomes visible.
        self.queue.end();
        self.phase.send_replace(Phase::Ended(self.result.clone()));
    }
}

impl Watched {
    fn begin(health: &Health, queue: &HandedQueue) -> Self {
        let heartbeat = health.begin();
        heartbeat.waits().into_iter().for_each(|waits| queue.watch(waits));
        Self { health: health.clone(), heartbeat }
    }

    fn end(&self, queue: &HandedQueue) {
        queue.unwatch();
        self.health.end(&self.heartbeat);
    }
}
