//! A server with the usual settings: one address, probes on ring threads, a drain at SIGTERM.
//!
//! Does not know about: other services on ring threads; see [`Embed`].

use std::net::SocketAddr;
use std::time::Duration;

use doorbell::{Http1, Listen, Server};
use tokio::signal::unix::{SignalKind, signal};

use crate::control::{Control, Ended};
use crate::embed::Embed;
use crate::handed::Handed;
use crate::health::Health;
use crate::probes::{Probes, Rest};

/// Default maximum time of a drain: less than the 30 s that Kubernetes waits.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// A server in front of a program, with the usual settings.
///
/// Ring threads serve the probes of its [`Health`] and hand all other requests over. SIGTERM begins
/// a drain. For other settings, use [`Embed`].
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
    drains_at_sigterm: bool,
    drain_delay: Duration,
    drain_timeout: Duration,
}

/// Why a [`Doorbell`] did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address is not `IP:PORT`.
    #[error("cannot listen on {addr:?}: it is not IP:PORT, as in 0.0.0.0:8080 or [::]:8080")]
    Address {
        /// The address.
        addr: String,
    },
    /// SIGTERM cannot be received.
    #[error("cannot receive SIGTERM: {0}")]
    Signal(#[source] std::io::Error),
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] Ended),
}

impl Doorbell {
    /// A server on this address: `IP:PORT`, not a host name. [`Self::start`] binds it.
    pub fn bind(addr: impl Into<String>) -> Self {
        Self {
            addr: addr.into(),
            health: None,
            drains_at_sigterm: true,
            drain_delay: Duration::ZERO,
            drain_timeout: DRAIN_TIMEOUT,
        }
    }

    /// Serves the probes of `health` on ring threads; by default, all requests are handed over.
    /// `health` also monitors this server; see [`Embed::health`].
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

    /// Starts the server and waits until it accepts. Needs a Tokio runtime with I/O and time.
    ///
    /// SIGTERM then no longer ends the process, even if the start fails or the server has ended:
    /// Tokio keeps its signal handler. See [`Self::without_signals`].
    ///
    /// # Errors
    /// The address is invalid, SIGTERM cannot be received, or the server cannot start.
    pub async fn start(self) -> Result<(Control, Handed), BindError> {
        let Ok(addr) = self.addr.parse::<SocketAddr>() else {
            return Err(BindError::Address { addr: self.addr });
        };
        let sigterm = match self.drains_at_sigterm {
            true => Some(signal(SignalKind::terminate()).map_err(BindError::Signal)?),
            false => None,
        };
        let server = Server::builder();
        let embed = match &self.health {
            Some(health) => {
                Embed::new(server.listen(Listen::tcp(addr), Http1::new(Probes::new(health)))).health(health)
            }
            None => Embed::new(server.listen(Listen::tcp(addr), Http1::new(Rest))),
        };
        let (control, handed) = embed.start();
        control.ready().await?;
        if let Some(mut sigterm) = sigterm {
            let event = async move {
                let _first = sigterm.recv().await;
            };
            let (delay, timeout) = (self.drain_delay, self.drain_timeout);
            tokio::spawn(Control::drain_at(control.downgrade(), event, delay, timeout));
        }
        Ok((control, handed))
    }
}
