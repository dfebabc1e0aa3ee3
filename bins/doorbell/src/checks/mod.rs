//! Checks as something that runs: one run asks once and gives one finding, within its time and with bounded memory.
//!
//! Does not know about: when a run is due, what follows from a finding.

mod dial;
mod file;
mod grpc;
mod http;
mod judge;
mod lane;
mod schedule;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;

use crate::config::format_duration;
use crate::config::model::{Check, CheckKind};
use dial::Dialer;
use doorbell_health::Outcome;
pub(crate) use lane::{Counters, Desk, Hurry, Lane, Plan, Push, Run};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
pub(crate) use tls::TlsPool;
use tokio::time::{Instant, timeout_at};

/// What one run found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) outcome: Outcome,
    /// From the start to the finding.
    pub(crate) latency: Duration,
    /// Why it is not a plain success.
    pub(crate) reason: String,
}

/// A finding without its time: `Ok` is a plain success.
type Verdict = Result<(), Complaint>;

/// Why something is not a plain success.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Complaint {
    outcome: Outcome,
    reason: String,
}

/// A check, ready to run any number of times, but never twice at once.
#[derive(Debug)]
pub(crate) struct Runner {
    asks: Asks,
    timeout: Duration,
}

#[derive(Debug)]
enum Asks {
    File(file::FileAsk),
    Grpc(Box<grpc::GrpcAsk>),
    Http(Box<http::HttpAsk>),
    Tcp(Box<tcp::TcpAsk>),
}

/// How far a run has come, for whoever is told that its time is over.
#[derive(Debug, Default)]
struct Progress(AtomicU8);

/// The parts of a run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Resolve,
    Connect,
    Handshake,
    Answer,
    Content,
}

impl Runner {
    /// `None` for a check that has nothing to run.
    ///
    /// # Errors
    /// When a file that it needs cannot be used.
    pub(crate) fn build(check: &Check, pool: &mut TlsPool) -> Result<Option<Self>, String> {
        let named = |why| format!("check {}: {why}", check.name);
        let dialer = |at, resolve| Dialer::new(at, resolve, check.pace.connect_timeout);
        let asks = match &check.kind {
            CheckKind::File(file) => Asks::File(file::FileAsk::new(file.clone())),
            CheckKind::Grpc(grpc) => {
                let dialer = dialer(grpc.address.clone(), grpc.resolve);
                Asks::Grpc(Box::new(grpc::GrpcAsk::build(grpc, dialer, pool).map_err(named)?))
            }
            CheckKind::Http(http) => {
                let dialer = dialer(http.url.at.clone(), http.resolve);
                Asks::Http(Box::new(http::HttpAsk::build(http, dialer, pool).map_err(named)?))
            }
            CheckKind::Tcp(tcp) => {
                let dialer = dialer(tcp.address.clone(), tcp.resolve);
                Asks::Tcp(Box::new(tcp::TcpAsk::new(tcp.clone(), dialer)))
            }
            CheckKind::Ttl(_) => return Ok(None),
        };
        Ok(Some(Self { asks, timeout: check.pace.timeout }))
    }

    /// Asks once. Whatever the other side does, it ends in time.
    pub(crate) async fn run(&self) -> Finding {
        let start = Instant::now();
        let progress = Progress::default();
        let verdict = timeout_at(start + self.timeout, self.ask(&progress, start)).await;
        let latency = start.elapsed();
        match verdict {
            Ok(Ok(())) => Finding { outcome: Outcome::Success, latency, reason: String::new() },
            Ok(Err(Complaint { outcome, reason })) => Finding { outcome, latency, reason },
            Err(_elapsed) => {
                let reason = progress.overdue(self.timeout);
                Finding { outcome: Outcome::Timeout, latency, reason }
            }
        }
    }

    async fn ask(&self, progress: &Progress, start: Instant) -> Verdict {
        match &self.asks {
            Asks::File(file) => file.ask().await,
            // Apart, so that all other runs are small.
            Asks::Grpc(grpc) => Box::pin(grpc.ask(progress, start)).await,
            Asks::Http(http) => http.ask(progress, start).await,
            Asks::Tcp(tcp) => tcp.ask(progress, start).await,
        }
    }
}

impl Complaint {
    /// The target answered wrongly or refused.
    fn failure(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failure, reason: reason.into() }
    }

    /// The run could not be made.
    fn error(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Error, reason: reason.into() }
    }

    /// A success with a complaint.
    fn degraded(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Degraded, reason: reason.into() }
    }

    fn timeout(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Timeout, reason: reason.into() }
    }
}

impl Progress {
    fn enter(&self, stage: Stage) {
        self.0.store(stage as u8, Ordering::Relaxed);
    }

    fn overdue(&self, timeout: Duration) -> String {
        let what = match self.0.load(Ordering::Relaxed) {
            stage if stage == Stage::Resolve as u8 => "no address",
            stage if stage == Stage::Connect as u8 => "no connection",
            stage if stage == Stage::Handshake as u8 => "no TLS handshake",
            stage if stage == Stage::Answer as u8 => "no answer",
            _ => "no end of the answer",
        };
        format!("{what} within {}", format_duration(timeout))
    }
}
