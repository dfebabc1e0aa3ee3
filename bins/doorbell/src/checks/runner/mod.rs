//! One check as something that runs: one run asks once and gives one finding, within its time and with bounded memory.
//!
//! Does not know about: when a run is due, what follows from a finding.

mod all_addresses;
pub(crate) mod descriptors;

use crate::checks::connect::connector::Connector;
use crate::checks::connect::dialer::Dialer;
use crate::checks::connect::tls::TlsPool;
use crate::checks::finding::{Complaint, Finding, Verdict};
use crate::checks::kinds::dns::DnsRunner;
use crate::checks::kinds::exec::ExecRunner;
use crate::checks::kinds::file::FileRunner;
use crate::checks::kinds::gauge::GaugeRunner;
use crate::checks::kinds::grpc::GrpcRunner;
use crate::checks::kinds::http::HttpRunner;
use crate::checks::kinds::redis::RedisRunner;
use crate::checks::kinds::tcp::TcpRunner;
use crate::checks::kinds::tls::TlsRunner;
use crate::checks::progress::{Progress, Spent, Trace};
use crate::checks::scheduler::run_requests::ChangeNotice;
use crate::checks::stats::CheckStats;
use crate::config::model::{Check, CheckKind, Place};
use doorbell_health::Outcome;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A check that can run any number of times, but not concurrently with itself.
#[derive(Debug)]
pub(crate) struct Runner {
    asks: Kind,
    timeout: Duration,
}

/// The result of a run, with its measurements.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) finding: Finding,
    pub(crate) spent: Spent,
    /// When the first certificate of the server ends, from 1970 on.
    pub(crate) certificate: Option<Duration>,
}

#[derive(Debug)]
enum Kind {
    Dns(Box<DnsRunner>),
    Exec(ExecRunner),
    File(FileRunner),
    Gauge(GaugeRunner),
    Grpc(Box<GrpcRunner>),
    Http(Box<HttpRunner>),
    Redis(Box<RedisRunner>),
    Tcp(Box<TcpRunner>),
    Tls(Box<TlsRunner>),
}

/// What all checks share.
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
    /// `None` for a check whose results are pushed.
    ///
    /// # Errors
    /// If a file that it needs cannot be used.
    pub(crate) fn build(check: &Check, shared: &mut Shared) -> Result<Option<Self>, String> {
        let named = |why| format!("check {}: {why}", check.name);
        let Shared { connector, tls: pool } = shared;
        let dialer =
            |at, resolve| Dialer::new(at, resolve, check.pace.connect_timeout, Arc::clone(connector));
        let asks = match &check.kind {
            CheckKind::Dns(dns) => {
                let dialer = dialer(Place::Tcp(dns.server.clone()), dns.resolve);
                let ask = DnsRunner::build(dns, dialer, check.pace.timeout).map_err(named)?;
                Kind::Dns(Box::new(ask))
            }
            CheckKind::Exec(exec) => Kind::Exec(ExecRunner::new(exec.clone())),
            CheckKind::File(file) => Kind::File(FileRunner::new(file.clone())),
            CheckKind::Gauge(gauge) => Kind::Gauge(GaugeRunner::new(gauge.clone())),
            CheckKind::Grpc(grpc) => {
                let dialer = dialer(grpc.address.clone(), grpc.resolve);
                let ask = GrpcRunner::build(grpc, &check.pace, dialer, pool).map_err(named)?;
                Kind::Grpc(Box::new(ask))
            }
            CheckKind::Http(http) => {
                let at = http.address.clone().unwrap_or_else(|| Place::Tcp(http.url.at.clone()));
                let dialer = dialer(at, http.resolve);
                Kind::Http(Box::new(HttpRunner::build(http, dialer, pool).map_err(named)?))
            }
            CheckKind::Redis(redis) => {
                let dialer = dialer(redis.address.clone(), redis.resolve);
                Kind::Redis(Box::new(RedisRunner::build(redis, dialer, pool).map_err(named)?))
            }
            CheckKind::Tcp(tcp) => {
                let dialer = dialer(tcp.address.clone(), tcp.resolve);
                Kind::Tcp(Box::new(TcpRunner::new(tcp.clone(), dialer)))
            }
            CheckKind::Tls(tls) => {
                let dialer = dialer(tls.address.clone(), tls.resolve);
                Kind::Tls(Box::new(TlsRunner::build(tls, dialer, pool).map_err(named)?))
            }
            CheckKind::Ttl(_) => return Ok(None),
        };
        Ok(Some(Self { asks, timeout: check.pace.timeout }))
    }

    /// Whether it has state between runs that does not depend on the runtime, so that it may move to another scheduler.
    pub(crate) const fn goes_on(&self) -> bool {
        matches!(self.asks, Kind::File(_) | Kind::Gauge(_))
    }

    /// Whether building from this check would give the same runner, state included.
    pub(crate) fn is_for(&self, check: &Check) -> bool {
        let is_same = match (&self.asks, &check.kind) {
            (Kind::File(ask), CheckKind::File(kind)) => ask.is_of(kind),
            (Kind::Gauge(ask), CheckKind::Gauge(kind)) => ask.is_of(kind),
            _ => false,
        };
        is_same && self.timeout == check.pace.timeout
    }

    /// Runs once. Whatever the peer does, the finding comes in time and nothing is left behind.
    #[cfg(test)]
    pub(crate) async fn run(&self) -> Finding {
        self.run_as(Progress::begin()).await.finding
    }

    /// Runs once and counts it.
    pub(crate) async fn run_counted(&self, stats: &CheckStats) -> Finding {
        let Ran { finding, spent, certificate, .. } = self.run_as(Progress::begin()).await;
        stats.ran(finding.outcome, finding.latency, &spent, certificate);
        finding
    }

    /// Runs once and records what is seen on the way.
    pub(crate) async fn run_traced(&self, trace: &Arc<Trace>) -> Finding {
        self.run_as(Progress::traced(Arc::clone(trace))).await.finding
    }

    pub(super) async fn run_as(&self, progress: Progress) -> Ran {
        let start = progress.start();
        match self.dialer().filter(|dialer| dialer.asks_all()) {
            // Boxed, so that the futures of other kinds stay small.
            Some(dialer) => Box::pin(self.run_all(dialer, progress, start)).await,
            None => self.run_part(progress, start, start + self.timeout).await,
        }
    }

    /// One run, or its part for one address.
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

    /// Connects to the target, if the kind has one.
    fn dialer(&self) -> Option<&Dialer> {
        match &self.asks {
            Kind::Dns(dns) => Some(dns.dialer()),
            Kind::Exec(_) | Kind::File(_) | Kind::Gauge(_) => None,
            Kind::Grpc(grpc) => Some(grpc.dialer()),
            Kind::Http(http) => Some(http.dialer()),
            Kind::Redis(redis) => Some(redis.dialer()),
            Kind::Tcp(tcp) => Some(tcp.dialer()),
            Kind::Tls(tls) => Some(tls.dialer()),
        }
    }

    /// Has changes of the target reported.
    pub(crate) fn notify_changes(&self, notice: ChangeNotice) {
        if let Kind::Grpc(grpc) = &self.asks {
            grpc.notify_changes(notice);
        }
    }

    async fn ask(&self, progress: &Progress, start: Instant) -> Verdict {
        match &self.asks {
            Kind::Dns(dns) => Box::pin(dns.ask(progress, start)).await,
            Kind::Exec(exec) => Box::pin(exec.ask(progress)).await,
            Kind::File(file) => file.ask().await,
            Kind::Gauge(gauge) => gauge.ask().await,
            // Boxed, so that the futures of other kinds stay small.
            Kind::Grpc(grpc) => Box::pin(grpc.ask(progress, start)).await,
            Kind::Http(http) => http.ask(progress, start).await,
            Kind::Redis(redis) => Box::pin(redis.ask(progress, start)).await,
            Kind::Tcp(tcp) => tcp.ask(progress, start).await,
            Kind::Tls(tls) => Box::pin(tls.ask(progress, start)).await,
        }
    }
}
