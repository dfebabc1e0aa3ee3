//! A validated description of a run.

mod request;
mod source;
mod target;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use doorbell_egress::PortChoice;

pub use request::{RequestParts, RequestTemplate};
pub use source::parse_sources;
pub use target::{Url, not_loopback, resolve};

use crate::exit::Failure;
use crate::reply::Expect;

/// Maximum number of connections per thread, limited by the kernel's largest completion queue.
pub const CONNS_PER_THREAD_MAX: u32 = 30_000;
/// Maximum number of threads.
pub const THREADS_MAX: u32 = 256;
/// Maximum number of requests in one write.
pub const PIPELINE_MAX: u32 = 1_024;
/// Maximum number of bytes in one write.
pub const SEND_LEN_MAX: usize = 1 << 20;
/// Maximum duration of a run.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Default maximum duration of a run that is limited by a number of requests.
pub const DURATION_OF_COUNTED: Duration = Duration::from_secs(600);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Target addresses, used in turn.
    pub targets: Vec<SocketAddr>,
    /// Source addresses, used in turn. Empty means that the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// The request to send.
    pub request: RequestTemplate,
    /// The expected reply. The engine adds the missing parts from the first reply.
    pub expect: Expect,
    /// Whether every request contains an id that the reply must contain.
    pub ids: bool,
    /// Total number of connections.
    pub conns: u32,
    /// Number of threads, each with its own ring.
    pub threads: u32,
    /// How connections are used.
    pub flow: Flow,
    /// Requests per second, summed over all threads. `None` means as fast as replies arrive.
    pub rate: Option<f64>,
    /// Maximum duration of the measurement.
    pub duration: Duration,
    /// Maximum number of measured requests.
    pub requests: Option<u64>,
    /// Time to run before measuring.
    pub warm_up: Duration,
    /// Maximum duration of an exchange.
    pub timeout: Duration,
    /// Whether connections start with delayed acknowledgements (`TCP_QUICKACK` off).
    pub delayed_ack: bool,
    /// Choice of the connections' ports.
    pub ports: PortChoice,
}

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Connections stay open. The requests of one write are sent when all earlier requests have
    /// replies.
    Keep {
        /// Requests in one write.
        pipeline: u32,
    },
    /// Each request has its own connection.
    New {
        /// The side that closes first.
        closer: Closer,
        /// Delay of the request after the handshake. Zero sends it at once, without waiting for the
        /// handshake.
        gap: Duration,
    },
}

/// The side that closes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closer {
    /// The client closes once the reply is complete.
    Client,
    /// The client closes with a reset, so that no port stays in TIME-WAIT.
    Reset,
    /// The server closes, as requested by `Connection: close`, and the client waits for the end.
    Server,
}

impl Flow {
    /// Requests in one write.
    #[must_use]
    pub const fn pipeline(self) -> u32 {
        match self {
            Self::Keep { pipeline } => pipeline,
            Self::New { .. } => 1,
        }
    }

    /// Delay of the request after the handshake.
    #[must_use]
    pub const fn gap(self) -> Duration {
        match self {
            Self::Keep { .. } => Duration::ZERO,
            Self::New { gap, .. } => gap,
        }
    }
}

impl Plan {
    /// Validates the combination of options.
    ///
    /// # Errors
    /// The first invalid combination.
    pub fn check(&self) -> Result<(), Failure> {
        let no = |text: String| Err(Failure::usage(text));
        if self.threads == 0 || self.threads > THREADS_MAX {
            return no(format!("--threads must be from 1 to {THREADS_MAX}"));
        }
        if self.conns < self.threads {
            return no(format!(
                "{} threads need at least as many connections: raise --connections, or lower --threads",
                self.threads
            ));
        }
        if self.conns.div_ceil(self.threads) > CONNS_PER_THREAD_MAX {
            return no(format!("a thread has at most {CONNS_PER_THREAD_MAX} connections: raise --threads"));
        }
        let pipeline = self.flow.pipeline();
        if pipeline == 0 || pipeline > PIPELINE_MAX {
            return no(format!("--pipeline must be from 1 to {PIPELINE_MAX}"));
        }
        if self.request.len() * pipeline as usize > SEND_LEN_MAX {
            return no(format!("the requests of one write are more than {SEND_LEN_MAX} bytes"));
        }
        if self.duration.is_zero() || self.duration > DURATION_MAX || self.warm_up > DURATION_MAX {
            return no("the duration of a run must be more than 0 and at most 24h".to_owned());
        }
        if self.timeout.is_zero() || self.timeout > Duration::from_secs(600) {
            return no("--timeout must be more than 0 and at most 10m".to_owned());
        }
        if self.requests == Some(0) {
            return no("--requests is at least 1".to_owned());
        }
        if self.rate.is_some_and(|rate| !(rate.is_finite() && (0.001..=100e6).contains(&rate))) {
            return no("--rate must be from 0.001 to 100m requests per second".to_owned());
        }
        if self.delayed_ack && !self.flow.gap().is_zero() {
            return no(
                "--delayed-ack delays the end of the handshake, and --gap waits for that end: use only one"
                    .to_owned(),
            );
        }
        if let Some(target) = self.targets.iter().find(|target| !self.reachable(target)) {
            return no(format!("no address of --source is of the family of {target}"));
        }
        Ok(())
    }

    /// Number of connections of thread `index`.
    #[must_use]
    pub const fn conns_of(&self, index: u32) -> u32 {
        self.conns / self.threads + (index < self.conns % self.threads) as u32
    }

    /// Number of measured requests of thread `index`.
    #[must_use]
    pub fn requests_of(&self, index: u32) -> Option<u64> {
        let threads = u64::from(self.threads);
        self.requests.map(|requests| requests / threads + u64::from(u64::from(index) < requests % threads))
    }

    fn reachable(&self, target: &SocketAddr) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|source| source.is_ipv4() == target.is_ipv4())
    }
}
