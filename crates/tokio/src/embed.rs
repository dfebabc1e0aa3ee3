//! Starting a server in a Tokio program.

use std::sync::Arc;

use doorbell::{HandOver, ServerBuilder, StartError, WhenFull};

use crate::control::{Control, Ended, Phase, Started};
use crate::handed::Handed;
use crate::health::Health;
use crate::launch::{Launch, ServerGuard};
use crate::queue::HandedQueue;

/// A builder of a server in front of a program, with any listeners and services.
///
/// Unlike [`Doorbell`](crate::Doorbell), it leaves SIGTERM to the program, which then calls
/// [`Control::drain_after`].
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use doorbell::{Http1, Listen, Server};
/// use doorbell_tokio::{Embed, Health, Probes};
///
/// let health = Health::builder().build()?;
/// let server = Server::builder()
///     .listen(Listen::tcp(([0, 0, 0, 0], 8080).into()), Http1::new(Probes::new(&health)))
///     .listen(Listen::unix("/run/app.sock"), Http1::new(Probes::new(&health)));
/// let (control, mut incoming) = Embed::new(server).health(&health).start();
/// control.ready().await?;
/// while let Some(connection) = incoming.accept().await {
///     drop(connection);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is started before `start`"]
#[derive(Debug)]
pub struct Embed {
    server: ServerBuilder,
    conns_max: Option<u32>,
    when_full: WhenFull,
    health: Option<Health>,
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
    /// call, [`Probes`](crate::Probes) of `health` reply with a 503 to `/livez` and `/readyz`,
    /// unless `health` was built with
    /// [`without_heartbeat`](crate::HealthBuilder::without_heartbeat).
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
        let (launch, guard) = Launch::new(queue, to.places(), self.health);
        let server = self.server.hand_over(to);
        let phase = guard.phase();
        // Opening sockets, testing the kernel and waiting for the workers would block a thread of
        // the runtime.
        let spawned = std::thread::Builder::new().name("doorbell-wait".to_owned()).spawn(move || {
            let mut guard = guard;
            guard.result = run(server, &guard);
        });
        if let Err(error) = spawned {
            let why = Ended::NotStarted(Arc::new(StartError::Thread(error)));
            phase.send_replace(Phase::Ended(Err(why)));
        }
        launch.handles()
    }
}

/// Runs the server until its end.
fn run(server: ServerBuilder, guard: &ServerGuard) -> Result<(), Ended> {
    let server = server.start().map_err(|error| Ended::NotStarted(Arc::new(error)))?;
    guard.begin(Started::on_ring(&server));
    Ok(server.wait()?)
}
