//! What a run does, checked and ready to use.
//!
//! Does not know about: the command line; how a run is done.

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

/// Connections of one thread: what the kernel's largest completion queue has room for.
pub const CONNS_PER_THREAD_MAX: u32 = 30_000;
/// Threads.
pub const THREADS_MAX: u32 = 256;
/// Requests in one write.
pub const PIPELINE_MAX: u32 = 1_024;
/// Bytes of one write.
pub const SEND_LEN_MAX: usize = 1 << 20;
/// The longest run.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How long a run that counts requests may take, unless it says otherwise.
pub const DURATION_OF_COUNTED: Duration = Duration::from_secs(600);

/// Everything about a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where to connect, in turn.
    pub targets: Vec<SocketAddr>,
    /// Where to connect from, in turn; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// What to ask.
    pub request: RequestTemplate,
    /// What must come back. The engine completes it with the first reply.
    pub expect: Expect,
    /// Whether every request carries an id that must come back.
    pub ids: bool,
    /// Connections in all.
    pub conns: u32,
    /// Threads, each with a ring of its own.
    pub threads: u32,
    /// What happens on a connection.
    pub flow: Flow,
    /// Requests a second, all threads together; `None`: as fast as replies come.
    pub rate: Option<f64>,
    /// How long is measured, at most.
    pub duration: Duration,
    /// How many requests are measured, at most.
    pub requests: Option<u64>,
    /// How long to run before measuring.
    pub warm_up: Duration,
    /// The longest an exchange may take.
    pub timeout: Duration,
    /// Whether connections start with delayed acknowledgements (`TCP_QUICKACK` off).
    pub delayed_ack: bool,
    /// How the ports of connections are chosen.
    pub ports: PortChoice,
}

/// What happens on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Connections stay; so many requests go out in one write, and the next write follows when all are answered.
    Keep {
        /// Requests in one write.
        pipeline: u32,
    },
    /// A connection for each request.
    New {
        /// Who closes first.
        closer: Closer,
        /// How long after the handshake the request is sent. Zero: at once, without waiting for the handshake.
        gap: Duration,
    },
}

/// Who closes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closer {
    /// We, once the reply is complete.
    Client,
    /// We, with a reset, so that no port stays behind in TIME-WAIT.
    Reset,
    /// The server, as `Connection: close` asks it to; we wait for the end.
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

    /// How long after the handshake the request is sent.
    #[must_use]
    pub const fn gap(self) -> Duration {
        match self {
            Self::Keep { .. } => Duration::ZERO,
            Self::New { gap, .. } => gap,
        }
    }
}

impl Plan {
    /// Looks at how the parts go together.
    ///
    /// # Errors
    /// The first thing that is impossible.
    pub fn check(&self) -> Result<(), Failure> {
        let no = |text: String| Err(Failure::usage(text));
        if self.threads == 0 || self.threads > THREADS_MAX {
            return no(format!("--threads goes from 1 to {THREADS_MAX}"));
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
            return no(format!("--pipeline goes from 1 to {PIPELINE_MAX}"));
        }
        if self.request.len() * pipeline as usize > SEND_LEN_MAX {
            return no(format!("the requests of one write are more than {SEND_LEN_MAX} bytes"));
        }
        if self.duration.is_zero() || self.duration > DURATION_MAX || self.warm_up > DURATION_MAX {
            return no("the time of a run is more than 0 and at most 24h".to_owned());
        }
        if self.timeout.is_zero() || self.timeout > Duration::from_secs(600) {
            return no("--timeout is more than 0 and at most 10m".to_owned());
        }
        if self.requests == Some(0) {
            return no("--requests is at least 1".to_owned());
        }
        if self.rate.is_some_and(|rate| !(rate.is_finite() && (0.001..=100e6).contains(&rate))) {
            return no("--rate goes from 0.001 to 100m requests a second".to_owned());
        }
        if self.delayed_ack && !self.flow.gap().is_zero() {
            return no("--delayed-ack holds back the end of the handshake, which --gap waits for".to_owned());
        }
        if let Some(target) = self.targets.iter().find(|target| !self.reachable(target)) {
            return no(format!("no address of --source is of the family of {target}"));
        }
        Ok(())
    }

    /// Connections of thread `index`.
    #[must_use]
    pub const fn conns_of(&self, index: u32) -> u32 {
        self.conns / self.threads + (index < self.conns % self.threads) as u32
    }

    /// Measured requests of thread `index`.
    #[must_use]
    pub fn requests_of(&self, index: u32) -> Option<u64> {
        let threads = u64::from(self.threads);
        self.requests.map(|requests| requests / threads + u64::from(u64::from(index) < requests % threads))
    }

    fn reachable(&self, target: &SocketAddr) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|source| source.is_ipv4() == target.is_ipv4())
    }
}
