//! Checks as something that runs: one run asks once and gives one finding, within its time and with bounded memory.
//!
//! Does not know about: when a run is due, what follows from a finding.

mod certificate;
mod children;
mod demand;
mod dial;
mod dns;
mod egress;
mod every;
mod exec;
mod file;
mod gauge;
mod grpc;
mod heard;
mod http;
mod judge;
mod lag;
mod lane;
mod lines;
mod look;
mod names;
mod needs;
mod phases;
mod progress;
mod redis;
mod schedule;
mod tally;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;
mod traceparent;
mod watch;
mod work;

use crate::config::model::{Check, CheckKind, Place};
pub(crate) use certificate::Named;
pub(crate) use children::CHILDREN;
pub(crate) use demand::Demand;
use demand::Teller;
use dial::Dialer;
pub(crate) use dial::cause_of;
use doorbell_health::Outcome;
pub(crate) use egress::Connector;
pub(crate) use grpc::UNKNOWN as GRPC_UNKNOWN;
pub(crate) use http::{is_same_origin, join as url_of_location};
pub(crate) use lag::{LAG_BOUNDS_US, LagCounts};
pub(crate) use lane::{Counters, Desk, Held, Hurry, Lane, LastRun, Plan, Pulse, Push, Run};
pub(crate) use names::find;
pub(crate) use needs::FDS_A_LOOK_UP;
pub(crate) use phases::Phases;
use progress::{Progress, Spent};
pub(crate) use progress::{Seen, Stage, Trace};
use std::sync::Arc;
use std::time::Duration;
pub(crate) use tally::{Counts, DURATION_BOUNDS_US, Tally};
use tls::TlsPool;
pub(crate) use tls::client;
use tokio::time::{Instant, timeout_at};
pub(crate) use work::first_runs;

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

/// What a run came to.
#[derive(Debug)]
struct Ran {
    finding: Finding,
    spent: Spent,
    /// When the first certificate ends that was seen.
    certificate: Option<Duration>,
}

#[derive(Debug)]
enum Asks {
    Dns(Box<dns::DnsAsk>),
    Exec(exec::ExecAsk),
    File(file::FileAsk),
    Gauge(gauge::GaugeAsk),
    Grpc(Box<grpc::GrpcAsk>),
    Http(Box<http::HttpAsk>),
    Redis(Box<redis::RedisAsk>),
    Tcp(Box<tcp::TcpAsk>),
    Tls(Box<certificate::TlsAsk>),
}

/// What checks share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) connector: Arc<Connector>,
    tls: TlsPool,
}

impl Shared {
    pub(crate) fn new(connector: Arc<Connector>) -> Self {
        Self { connector, tls: TlsPool::default() }
    }
}

impl Runner {
    /// `None` for a check that has nothing to run.
    ///
    /// # Errors
    /// When a file that it needs cannot be used.
    pub(crate) fn build(check: &Check, shared: &mut Shared) -> Result<Option<Self>, String> {
        let named = |why| format!("check {}: {why}", check.name);
        let Shared { connector, tls: pool } = shared;
        let dialer =
            |at, resolve| Dialer::new(at, resolve, check.pace.connect_timeout, Arc::clone(connector));
        let asks = match &check.kind {
            CheckKind::Dns(dns) => {
                let dialer = dialer(Place::Tcp(dns.server.clone()), dns.resolve);
                let ask = dns::DnsAsk::build(dns, dialer, check.pace.timeout).map_err(named)?;
                Asks::Dns(Box::new(ask))
            }
            CheckKind::Exec(exec) => Asks::Exec(exec::ExecAsk::new(exec.clone())),
            CheckKind::File(file) => Asks::File(file::FileAsk::new(file.clone())),
            CheckKind::Gauge(gauge) => Asks::Gauge(gauge::GaugeAsk::new(gauge.clone())),
            CheckKind::Grpc(grpc) => {
                let dialer = dialer(grpc.address.clone(), grpc.resolve);
                let ask = grpc::GrpcAsk::build(grpc, &check.pace, dialer, pool).map_err(named)?;
                Asks::Grpc(Box::new(ask))
            }
            CheckKind::Http(http) => {
                let at = http.address.clone().unwrap_or_else(|| Place::Tcp(http.url.at.clone()));
                let dialer = dialer(at, http.resolve);
                Asks::Http(Box::new(http::HttpAsk::build(http, dialer, pool).map_err(named)?))
            }
            CheckKind::Redis(redis) => {
                let dialer = dialer(redis.address.clone(), redis.resolve);
                Asks::Redis(Box::new(redis::RedisAsk::build(redis, dialer, pool).map_err(named)?))
            }
            CheckKind::Tcp(tcp) => {
                let dialer = dialer(tcp.address.clone(), tcp.resolve);
                Asks::Tcp(Box::new(tcp::TcpAsk::new(tcp.clone(), dialer)))
            }
            CheckKind::Tls(tls) => {
                let dialer = dialer(tls.address.clone(), tls.resolve);
                Asks::Tls(Box::new(certificate::TlsAsk::build(tls, dialer, pool).map_err(named)?))
            }
            CheckKind::Ttl(_) => return Ok(None),
        };
        Ok(Some(Self { asks, timeout: check.pace.timeout }))
    }

    /// Whether it remembers something from run to run, and nothing of it belongs to the runtime on which it ran.
    pub(crate) const fn goes_on(&self) -> bool {
        matches!(self.asks, Asks::File(_) | Asks::Gauge(_))
    }

    /// Whether it is what would be built of this, down to what it remembers.
    pub(crate) fn is_for(&self, check: &Check) -> bool {
        let is_same = match (&self.asks, &check.kind) {
            (Asks::File(ask), CheckKind::File(kind)) => ask.is_of(kind),
            (Asks::Gauge(ask), CheckKind::Gauge(kind)) => ask.is_of(kind),
            _ => false,
        };
        is_same && self.timeout == check.pace.timeout
    }

    /// Asks once. Whatever the other side does, there is a finding in time, and nothing is left a moment later.
    #[cfg(test)]
    pub(crate) async fn run(&self) -> Finding {
        self.run_as(Progress::begin()).await.finding
    }

    /// Asks once, as all of these do, and counts it. Whatever the other side does, there is a finding in time, and nothing is left a moment
    /// later.
    async fn run_counted(&self, tally: &Tally) -> Finding {
        let Ran { finding, spent, certificate, .. } = self.run_as(Progress::begin()).await;
        tally.ran(finding.outcome, finding.latency, &spent, certificate);
        finding
    }

    /// The same, and what is seen on the way is written down.
    pub(crate) async fn run_traced(&self, trace: &Arc<Trace>) -> Finding {
        self.run_as(Progress::traced(Arc::clone(trace))).await.finding
    }

    async fn run_as(&self, progress: Progress) -> Ran {
        let start = progress.start();
        match self.dialer().filter(|dialer| dialer.asks_all()) {
            // Apart, so that all other runs are small.
            Some(dialer) => Box::pin(self.run_all(dialer, progress, start)).await,
            None => self.run_part(progress, start, start + self.timeout).await,
        }
    }

    /// One run, or what a run asks of one address.
    async fn run_part(&self, progress: Progress, start: Instant, until: Instant) -> Ran {
        let verdict = timeout_at(until, self.ask(&progress, start)).await;
        let latency = start.elapsed();
        let (certificate, spent) = (progress.certificate(), progress.spent());
        let overdue = verdict.is_err().then(|| progress.overdue(self.timeout));
        progress.end().await;
        let finding = match verdict {
            Ok(Ok(())) => Finding { outcome: Outcome::Success, latency, reason: String::new() },
            Ok(Err(Complaint { outcome, reason })) => Finding { outcome, latency, reason },
            Err(_elapsed) => {
                Finding { outcome: Outcome::Timeout, latency, reason: overdue.unwrap_or_default() }
            }
        };
        Ran { finding, spent, certificate }
    }

    /// How the place is reached that is asked, if there is one.
    fn dialer(&self) -> Option<&Dialer> {
        match &self.asks {
            Asks::Dns(dns) => Some(dns.dialer()),
            Asks::Exec(_) | Asks::File(_) | Asks::Gauge(_) => None,
            Asks::Grpc(grpc) => Some(grpc.dialer()),
            Asks::Http(http) => Some(http.dialer()),
            Asks::Redis(redis) => Some(redis.dialer()),
            Asks::Tcp(tcp) => Some(tcp.dialer()),
            Asks::Tls(tls) => Some(tls.dialer()),
        }
    }

    /// Lets it say that there is something new before its time.
    fn tell(&self, teller: Teller) {
        if let Asks::Grpc(grpc) = &self.asks {
            grpc.tell(teller);
        }
    }

    async fn ask(&self, progress: &Progress, start: Instant) -> Verdict {
        match &self.asks {
            Asks::Dns(dns) => Box::pin(dns.ask(progress, start)).await,
            Asks::Exec(exec) => Box::pin(exec.ask(progress)).await,
            Asks::File(file) => file.ask().await,
            Asks::Gauge(gauge) => gauge.ask().await,
            // Apart, so that all other runs are small.
            Asks::Grpc(grpc) => Box::pin(grpc.ask(progress, start)).await,
            Asks::Http(http) => http.ask(progress, start).await,
            Asks::Redis(redis) => Box::pin(redis.ask(progress, start)).await,
            Asks::Tcp(tcp) => tcp.ask(progress, start).await,
            Asks::Tls(tls) => Box::pin(tls.ask(progress, start)).await,
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
