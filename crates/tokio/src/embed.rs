//! Starting a server inside a Tokio program.
//!
//! Does not know about: what the server serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use doorbell::{HandOver, ServerBuilder, WhenFull};
use tokio::sync::watch;

use crate::control::{Control, Ended, Keeper, Phase, Running, Started};
use crate::desk::Desk;
use crate::handed::Handed;
use crate::health::Health;

/// What is to be started.
#[must_use = "nothing is started before `start`"]
#[derive(Debug)]
pub struct Embed {
    server: ServerBuilder,
    conns_max: Option<u32>,
    when_full: WhenFull,
    health: Option<Health>,
}

impl Embed {
    /// `server`, with its listeners and everything else that is set on it. Where connections are handed over to is set here.
    pub const fn new(server: ServerBuilder) -> Self {
        Self { server, conns_max: None, when_full: WhenFull::Refuse, health: None }
    }

    /// Connections that may be out of the server at once, until the program drops them. Default as [`HandOver::conns_max`].
    pub const fn handed_max(mut self, conns: u32) -> Self {
        self.conns_max = Some(conns);
        self
    }

    /// What a client gets beyond that. Default [`WhenFull::Refuse`].
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Starts a heartbeat of `health` in the runtime that calls [`Self::start`], reports to it which connections wait to be accepted, and lets
    /// a drain tell it. The heartbeat ends with the server. Several servers may have the same health, each with its own heartbeat; a drain of
    /// one is then a drain of all. Without this call [`Probes`](crate::Probes) of the health fail.
    pub fn health(mut self, health: &Health) -> Self {
        self.health = Some(health.clone());
        self
    }

    /// Starts the server on threads of its own and returns at once: [`Control::ready`] waits for it.
    ///
    /// # Panics
    /// Outside of a runtime, if there is a health with a heartbeat.
    pub fn start(self) -> (Control, Handed) {
        let desk = Desk::default();
        let mut to = HandOver::new(desk.clone()).when_full(self.when_full).answer_before_body();
        if let Some(conns) = self.conns_max {
            to = to.conns_max(conns);
        }
        let places = to.places();
        desk.set_places(places.clone());
        let heartbeat = self.health.as_ref().map(|health| Arc::new(health.begin()));
        if let Some(heartbeat) = &heartbeat {
            heartbeat.waits().into_iter().for_each(|waits| desk.watch(waits));
            if heartbeat.ticks() {
                tokio::spawn(Arc::clone(heartbeat).tick());
            }
        }
        let (tell, phase) = watch::channel(Phase::Starting);
        let running = Running::new(phase);
        let failed = Arc::new(AtomicU64::new(0));
        let server = self.server.hand_over(to);
        let ending = desk.clone();
        let tell_thread = tell.clone();
        let beating = heartbeat.clone();
        let abandoned = Arc::new(AtomicBool::new(false));
        let keeper = Arc::new(Keeper { running: running.clone(), abandoned: Arc::clone(&abandoned) });
        // It opens sockets, tries the kernel and later waits for the workers: nothing for a thread of the runtime.
        let spawned = std::thread::Builder::new().name("doorbell-wait".to_owned()).spawn(move || {
            let result = run(server, &tell_thread, &abandoned);
            ending.unwatch();
            heartbeat.iter().for_each(|heartbeat| heartbeat.end());
            // In this order: who hears of the end finds everything delivered that will be.
            ending.end();
            tell_thread.send_replace(Phase::Ended(result));
        });
        if let Err(error) = spawned {
            desk.unwatch();
            beating.iter().for_each(|heartbeat| heartbeat.end());
            let error = Arc::new(doorbell::StartError::Thread(error));
            tell.send_replace(Phase::Ended(Err(Ended::NotStarted(error))));
            desk.end();
        }
        let control = Control::new(
            running.clone(),
            desk.clone(),
            places,
            Arc::clone(&failed),
            self.health,
            Arc::clone(&keeper),
        );
        (control, Handed::new(desk, failed, running, keeper))
    }
}

/// The server's life.
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
        // Nobody is left who could end it.
        server.handle().stop();
    }
    Ok(server.wait()?)
}
