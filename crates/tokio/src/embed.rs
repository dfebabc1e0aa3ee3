//! Starting a server in a Tokio program.
//!
//! Does not know about: the services of the server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use doorbell::{HandOver, ServerBuilder, WhenFull};
use tokio::sync::watch;

use crate::control::{Control, Ended, Phase, Running, Started, StopOnDrop};
use crate::handed::Handed;
use crate::health::{Health, Heartbeat};
use crate::queue::HandedQueue;

/// A builder of a server in front of a program, with any listeners and services.
#[must_use = "nothing is started before `start`"]
#[derive(Debug)]
pub struct Embed {
    server: ServerBuilder,
    conns_max: Option<u32>,
    when_full: WhenFull,
    health: Option<Health>,
}

/// Reports the end of a server when dropped, also if a service panics when it is dropped.
struct Ending {
    phase: watch::Sender<Phase>,
    queue: HandedQueue,
    watched: Option<Watched>,
    result: Result<(), Ended>,
}

/// The `Health` that monitors a server, and the server's heartbeat.
struct Watched {
    health: Health,
    heartbeat: Arc<Heartbeat>,
}

impl Embed {
    /// Embeds `server`, with its listeners and other settings. `start` replaces its receiver of
    /// hand-overs.
    pub const fn new(server: ServerBuilder) -> Self {
        Self { server, conns_max: None, when_full: WhenFull::Refuse, health: None }
    }

    /// Maximum number of handed-over connections that the program has not dropped yet. Default
    /// 16,384, lowered to what `RLIMIT_NOFILE` allows: see [`HandOver::conns_max`].
    pub const fn handed_max(mut self, conns: u32) -> Self {
        self.conns_max = Some(conns);
        self
    }

    /// What happens to a request at the limit of [`Self::handed_max`]. Default:
    /// [`WhenFull::Refuse`].
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Lets `health` monitor this server. [`Self::start`] then starts a heartbeat in the runtime
    /// that calls it, and reports waiting connections to `health`. A drain of the server also
    /// drains `health`. The heartbeat ends with the server. Several servers may share a `Health`,
    /// each with its own heartbeat; a drain of one then fails the readiness of all. Without this
    /// call, [`Probes`](crate::Probes) of `health` fail.
    pub fn health(mut self, health: &Health) -> Self {
        self.health = Some(health.clone());
        self
    }

    /// Starts the server's threads and returns at once; [`Control::ready`] waits for the start.
    ///
    /// # Panics
    /// Panics outside of a runtime, unless there is no `Health` or it was built with
    /// [`without_heartbeat`](crate::HealthBuilder::without_heartbeat).
    pub fn start(self) -> (Control, Handed) {
        let queue = HandedQueue::default();
        let mut to = HandOver::new(queue.clone()).when_full(self.when_full).answer_before_body();
        if let Some(conns) = self.conns_max {
            to = to.conns_max(conns);
        }
        let places = to.places();
        queue.set_places(places.clone());
        let watched = self.health.as_ref().map(|health| Watched::begin(health, &queue));
        let (phase_sender, phase) = watch::channel(Phase::Starting);
        let started = Arc::new(OnceLock::new());
        let running = Running::new(phase, Arc::clone(&started));
        let failed = Arc::new(AtomicU64::new(0));
        let server = self.server.hand_over(to);
        let ending =
            Ending { phase: phase_sender.clone(), queue: queue.clone(), watched, result: Err(Ended::Over) };
        let abandoned = Arc::new(AtomicBool::new(false));
        let stop_on_drop =
            Arc::new(StopOnDrop { running: running.clone(), abandoned: Arc::clone(&abandoned) });
        // Opening sockets, testing the kernel and waiting for the workers would block a thread of
        // the runtime.
        let spawned = std::thread::Builder::new().name("doorbell-wait".to_owned()).spawn(move || {
            let mut ending = ending;
            ending.result = run(server, &started, &ending.phase, &abandoned);
        });
        if let Err(error) = spawned {
            let error = Arc::new(doorbell::StartError::Thread(error));
            phase_sender.send_replace(Phase::Ended(Err(Ended::NotStarted(error))));
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
        self.health.run_internal_checks();
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.watched.iter().for_each(|watched| watched.end(&self.queue));
        // The queue ends first, so that no connection arrives after the end becomes visible.
        self.queue.end();
        self.phase.send_replace(Phase::Ended(self.result.clone()));
    }
}

/// Runs the server until its end.
fn run(
    server: ServerBuilder,
    started: &OnceLock<Started>,
    phase_sender: &watch::Sender<Phase>,
    abandoned: &AtomicBool,
) -> Result<(), Ended> {
    let server = server.start().map_err(|error| Ended::NotStarted(Arc::new(error)))?;
    let _first = started.set(Started {
        handle: server.handle(),
        local_addrs: server.local_addrs().to_vec(),
        report: server.driver_report().clone(),
        notes: server.notes().to_vec(),
    });
    phase_sender.send_replace(Phase::Running);
    if abandoned.load(Ordering::SeqCst) {
        // All controls and the receiver were dropped during the start.
        server.handle().stop();
    }
    Ok(server.wait()?)
}
