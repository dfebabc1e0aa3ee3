//! A server with the usual settings: one address, probes, a drain at SIGTERM.
//!
//! Does not know about: services other than probes, see `Embed`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

#[cfg(target_os = "linux")]
use doorbell::{Http1, Listen, Server};
use tokio::net::lookup_host;
use tokio::signal::unix::{SignalKind, signal};

use crate::control::{Control, Ended};
#[cfg(target_os = "linux")]
use crate::embed::Embed;
use crate::handed::Handed;
use crate::health::Health;
use crate::portable;
use crate::probes::{HandOverAll, Probes};

/// Default maximum time of a drain: less than the 30 s that Kubernetes waits.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// A server in front of a program, with the usual settings.
///
/// Ring threads serve the probes of its [`Health`] and hand all other requests over; see
/// [`Self::on_runtime`] for systems without ring threads. SIGTERM begins a drain. On Linux, `Embed`
/// supports other listeners, services and settings: TLS, or sockets that already listen.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use doorbell_tokio::{Doorbell, Health};
///
/// let health = Health::builder().build()?;
/// let (control, mut incoming) = Doorbell::bind("0.0.0.0:8080").health(&health).start().await?;
/// while let Some(connection) = incoming.accept().await {
///     drop(connection);
/// }
/// # drop(control);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is started before `start`"]
#[derive(Debug)]
pub struct Doorbell {
    addr: String,
    health: Option<Health>,
    #[cfg(target_os = "linux")]
    is_on_runtime: bool,
    drains_at_sigterm: bool,
    drain_delay: Duration,
    drain_timeout: Duration,
}

/// Why a [`Doorbell`] did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address is not `IP:PORT` or `NAME:PORT`, or the name has no address.
    #[error(
        "cannot listen on {addr:?}: {source}; expected an address as in 0.0.0.0:8080, [::]:8080 or localhost:8080"
    )]
    Address {
        /// The address.
        addr: String,
        /// Why it was rejected.
        source: io::Error,
    },
    /// SIGTERM cannot be received.
    #[error("cannot receive SIGTERM: {0}")]
    Signal(#[source] io::Error),
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] Ended),
}

impl Doorbell {
    /// A server on this address: `IP:PORT`, or `NAME:PORT`, for which the first address that can be
    /// bound is used. [`Self::start`] binds the address.
    pub fn bind(addr: impl Into<String>) -> Self {
        Self {
            addr: addr.into(),
            health: None,
            #[cfg(target_os = "linux")]
            is_on_runtime: false,
            drains_at_sigterm: true,
            drain_delay: Duration::ZERO,
            drain_timeout: DRAIN_TIMEOUT,
        }
    }

    /// Serves the probes of `health`; by default, all requests are handed over. `health` also
    /// monitors this server, and a drain of the server drains `health`.
    pub fn health(mut self, health: &Health) -> Self {
        self.health = Some(health.clone());
        self
    }

    /// Delay and timeout of the drain at SIGTERM; see [`Control::drain_after`]. Default: no delay,
    /// 20 s.
    pub const fn drain_after(mut self, delay: Duration, timeout: Duration) -> Self {
        self.drain_delay = delay;
        self.drain_timeout = timeout;
        self
    }

    /// Leaves SIGTERM to the program, which then calls [`Control::drain_after`].
    pub const fn without_signals(mut self) -> Self {
        self.drains_at_sigterm = false;
        self
    }

    /// Serves the probes on the runtime instead of ring threads, with the same replies. A busy or
    /// stuck runtime then delays them. On systems other than Linux, the runtime always serves the
    /// probes.
    ///
    /// At most 16,384 connections are open at a time, and as many handed over. Connections are not
    /// limited by client address.
    #[cfg_attr(not(target_os = "linux"), expect(clippy::unused_self, reason = "the same API"))]
    pub const fn on_runtime(
        #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "the same API"))] mut self,
    ) -> Self {
        #[cfg(target_os = "linux")]
        {
            self.is_on_runtime = true;
        }
        self
    }

    /// Starts the server and waits until it accepts. Needs a Tokio runtime with I/O and time.
    ///
    /// From then on SIGTERM does not end the process, even after the end of the server: Tokio keeps
    /// its signal handler. See [`Self::without_signals`].
    ///
    /// # Errors
    /// The address is invalid, SIGTERM cannot be received, or the server cannot start.
    pub async fn start(self) -> Result<(Control, Handed), BindError> {
        let (control, handed) = self.start_server().await?;
        if self.drains_at_sigterm {
            let mut sigterm = signal(SignalKind::terminate()).map_err(BindError::Signal)?;
            let event = async move {
                let _first = sigterm.recv().await;
            };
            let (delay, timeout) = (self.drain_delay, self.drain_timeout);
            tokio::spawn(control.running().clone().drain_at(event, delay, timeout));
        }
        Ok((control, handed))
    }

    /// Starts a server on the first address that can be bound.
    async fn start_server(&self) -> Result<(Control, Handed), BindError> {
        let refused = |source| BindError::Address { addr: self.addr.clone(), source };
        let mut failed = refused(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        for addr in lookup_host(&self.addr).await.map_err(refused)? {
            match self.start_at(addr).await {
                Ok(server) => return Ok(server),
                Err(ended) => failed = ended.into(),
            }
        }
        Err(failed)
    }

    async fn start_at(&self, addr: SocketAddr) -> Result<(Control, Handed), Ended> {
        #[cfg(target_os = "linux")]
        if !self.is_on_runtime {
            let (control, handed) = self.on_ring(addr).start();
            return control.ready().await.map(|()| (control, handed));
        }
        match &self.health {
            Some(health) => portable::start(addr, Probes::new(health), Some(health)).await,
            None => portable::start(addr, HandOverAll, None).await,
        }
    }

    #[cfg(target_os = "linux")]
    fn on_ring(&self, addr: SocketAddr) -> Embed {
        let (server, listen) = (Server::builder(), Listen::tcp(addr));
        match &self.health {
            Some(health) => Embed::new(server.listen(listen, Http1::new(Probes::new(health)))).health(health),
            None => Embed::new(server.listen(listen, Http1::new(HandOverAll))),
        }
    }
}
