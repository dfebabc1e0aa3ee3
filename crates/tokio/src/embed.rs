//! Starting a server in a Tokio program.
//!
//! Does not know about: the services of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use doorbell::{HandOver, ServerBuilder, WhenFull};
use tokio::sync::watch;

use crate::control::{Control, Ended, Phase, Running, Started, StopOnDrop};
use crate::handed::Handed;
use crate::health::{Health, Heartbeat};
use crate::queue::HandedQueue;

/// Settings of an embedded server.
#[must_use = "nothing is started before `start`"]
#[derive(Debug)]
pub struct Embed {
    server: ServerBuilder,
    conns_max: Option<u32>,
    when_full: WhenFull,
    health: Option<Health>,
}

/// A `Health` that a server uses, with the heartbeat of the server.
#[derive(Clone)]
struct Watched {
    health: Health,
    heartbeat: Arc<Heartbeat>,
}

impl Embed {
    /// Embeds `server`, with its listeners and other settings. The receiver of hand-overs is set
    /// here.
    pub const fn new(server: ServerBuilder) -> Self {
        Self { server, conns_max: None, when_full: WhenFull::Refuse, health: None }
    }

    /// Maximum number of connections that are handed over and not dropped by the program. Default
    /// as [`HandOver::conns_max`].
    pub const fn handed_max(mut self, conns: u32) -> Self {
        self.conns_max = Some(conns);
        self
    }

    /// Treatment of a client at the limit of [`Self::handed_max`]. Default [`WhenFull::Refuse`].
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Starts a heartbeat of `health` in the runtime that calls [`Self::start`], and reports
    /// waiting connections to `health`. A drain of the server also drains `health`. The heartbeat
    /// ends with the server. Several servers may share a `Health`, each with its own heartbeat; a
    /// drain of one then fails the readiness of all. Without this call,
    /// [`Probes`](crate::Probes) of `health` fail.
    pub fn health(mut self, health: &Health) -> Self {
        self.health = Some(health.clone());
        self
    }

    /// Starts the server on its own threads and returns at once; [`Control::ready`] waits for the
    /// start.
    ///
    /// # Panics
    /// If the `Health` has a heartbeat and this is called outside of a runtime.
    pub fn start(self) -> (Control, Handed) {
        let queue = HandedQueue::default();
        let mut to = HandOver::new(queue.clone()).when_full(self.when_full).answer_before_body();
        if let Some(conns) = self.conns_max {
            to = to.conns_max(conns);
        }
        let places = to.places();
        queue.set_places(places.clone());
        let watched = self.health.as_ref().map(|health| Watched::begin(health, &queue));
        let (tell, phase) = watch::channel(Phase::Starting);
        let running = Running::new(phase);
        let failed = Arc::new(AtomicU64::new(0));
        let server = self.server.hand_over(to);
        let ending = queue.clone();
        let tell_thread = tell.clone();
        let ends = watched.clone();
        let abandoned = Arc::new(AtomicBool::new(false));
        let stop_on_drop =
            Arc::new(StopOnDrop { running: running.clone(), abandoned: Arc::clone(&abandoned) });
        // Opening sockets, testing the kernel and waiting for the workers would block a thread of
        // the runtime.
        let spawned = std::thread::Builder::new().name("doorbell-wait".to_owned()).spawn(move || {
            let result = run(server, &tell_thread, &abandoned);
            watched.iter().for_each(|watched| watched.end(&ending));
            // The queue ends first, so that all connections have been delivered when the end
            // becomes visible.
            ending.end();
            tell_thread.send_replace(Phase::Ended(result));
        });
        if let Err(error) = spawned {
            ends.iter().for_each(|watched| watched.end(&queue));
            let error = Arc::new(doorbell::StartError::Thread(error));
            tell.send_replace(Phase::Ended(Err(Ended::NotStarted(error))));
            queue.end();
        }
        let control = Control::new(
            running.clone(),
            queue.clone(),
            places,
            Arc::clone(&failed),
            self.health.clone(),
            Arc::clone(&stop_on_drop),
        );
        (control, Handed::new(queue, failed, running, self.health, stop_on_drop))
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
        self.heartbeat.end();
        self.health.look();
    }
}

/// Runs the server until its end.
fn run(server: ServerBuilder, tell: &watch::Sender<Phase>, abandoned: &AtomicBool) -> Result<(), Ended> {
    let server = server.start().map_err(|error| Ended::NotStarted(Arc::new(error)))?;
    let started = Started {
        handle: server.handle(),
        local_addrs: server.local_addrs().to_vec(),
        report: server.driver_report().clone(),
        notes: server.notes().to_vec(),
    };
    tell.send_replace(Phase::Running(Arc::new(started)));
    if abandoned.load(Ordering::SeqCst) {
        // No control and no receiver are left that could end the server.
        server.handle().stop();
    }
    Ok(server.wait()?)
}
