//! A runner of a built-in kind: each run yields one finding, within its timeout and with bounded
//! memory.

use crate::connect::dialer::Dialer;
use crate::finding::{Finding, Issue, Verdict};
use crate::kinds::file::FileRunner;
use crate::kinds::gauge::GaugeRunner;
use crate::kinds::grpc::GrpcRunner;
use crate::kinds::http::HttpRunner;
use crate::kinds::materials::{Materials, SharedResources};
use crate::kinds::tcp::TcpRunner;
use crate::kinds::{self, KindRunner};
use crate::options::{Check, CheckKind};
use crate::progress::Progress;
use crate::runner::{RunResult, end_of};
use crate::scheduler::run_requests::ChangeNotice;
use doorbell_health::Outcome;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Checks one target.
#[derive(Debug)]
pub(crate) struct TargetRunner {
    pub(super) kind: Kind,
    pub(super) timeout: Duration,
}

#[derive(Debug)]
pub(super) enum Kind {
    File(FileRunner),
    Gauge(GaugeRunner),
    Grpc(Box<GrpcRunner>),
    Http(Box<HttpRunner>),
    Tcp(Box<TcpRunner>),
    Other(Box<dyn KindRunner>),
}

impl TargetRunner {
    /// Builds the runner of a check; `None` if the results of the check are pushed.
    pub(super) fn build(check: &Check, shared: &mut SharedResources) -> Result<Option<Self>, String> {
        let with = &mut Materials { pace: &check.pace, shared };
        let kind = match &check.kind {
            #[cfg(feature = "alias")]
            CheckKind::Alias(alias) => other(kinds::alias::AliasRunner::build(alias, with)),
            CheckKind::Dns(dns) => other(kinds::dns::DnsRunner::build(dns, with)),
            CheckKind::Exec(exec) => other(Ok(kinds::exec::ExecRunner::new(exec.clone()))),
            CheckKind::File(file) => Ok(Kind::File(FileRunner::new(file.clone()))),
            CheckKind::Gauge(gauge) => Ok(Kind::Gauge(GaugeRunner::new(gauge.clone()))),
            CheckKind::Grpc(grpc) => GrpcRunner::build(grpc, with).map(Box::new).map(Kind::Grpc),
            CheckKind::Http(http) => HttpRunner::build(http, with).map(Box::new).map(Kind::Http),
            #[cfg(feature = "icmp")]
            CheckKind::Icmp(icmp) => other(Ok(kinds::icmp::IcmpRunner::new(icmp, with))),
            #[cfg(feature = "link")]
            CheckKind::Link(_) => return Ok(None),
            #[cfg(feature = "mail")]
            CheckKind::Mail(mail) => other(kinds::mail::MailRunner::build(mail, with)),
            #[cfg(feature = "mysql")]
            CheckKind::Mysql(mysql) => other(kinds::mysql::MysqlRunner::build(mysql, with)),
            #[cfg(feature = "postgres")]
            CheckKind::Postgres(postgres) => other(kinds::postgres::PostgresRunner::build(postgres, with)),
            #[cfg(feature = "process")]
            CheckKind::Process(process) => other(Ok(kinds::process::ProcessRunner::new(process.clone()))),
            CheckKind::Redis(redis) => other(kinds::redis::RedisRunner::build(redis, with)),
            CheckKind::Tcp(tcp) => Ok(Kind::Tcp(Box::new(TcpRunner::new(tcp, with)))),
            CheckKind::Tls(tls) => other(kinds::tls::TlsRunner::build(tls, with)),
            CheckKind::Ttl(_) => return Ok(None),
            #[cfg(feature = "udp")]
            CheckKind::Udp(udp) => other(Ok(kinds::udp::UdpRunner::new(udp, with))),
            #[cfg(feature = "websocket")]
            CheckKind::Websocket(socket) => other(kinds::websocket::WebsocketRunner::build(socket, with)),
        };
        let kind = kind.map_err(|why| format!("check {}: {why}", check.name))?;
        Ok(Some(Self { kind, timeout: check.pace.timeout }))
    }

    pub(super) const fn can_move(&self) -> bool {
        matches!(self.kind, Kind::File(_) | Kind::Gauge(_))
    }

    pub(super) fn is_for(&self, check: &Check) -> bool {
        let is_same = match (&self.kind, &check.kind) {
            (Kind::File(run), CheckKind::File(kind)) => run.is_of(kind),
            (Kind::Gauge(run), CheckKind::Gauge(kind)) => run.is_of(kind),
            _ => false,
        };
        is_same && self.timeout == check.pace.timeout
    }

    pub(super) async fn run_as(&self, progress: Progress) -> RunResult {
        let start = progress.start();
        match self.dialer().filter(|dialer| dialer.checks_all_addrs()) {
            // Boxed, so that the future of a run that does not check every address stays small.
            Some(dialer) => Box::pin(self.run_all(dialer, progress, start)).await,
            None => self.run_part(progress, start, end_of(start, self.timeout)).await,
        }
    }

    /// Performs a run, or the part of a run for one address.
    pub(super) async fn run_part(&self, progress: Progress, start: Instant, until: Instant) -> RunResult {
        let verdict = timeout_at(until, self.run(&progress, start)).await;
        let latency = start.elapsed();
        if !matches!(verdict, Ok(Ok(())))
            && let Kind::Other(kind) = &self.kind
            && let Some(dialer) = kind.dialer().filter(|_| kind.is_connectionless())
        {
            // The address may no longer belong to this name.
            dialer.forget();
        }
        let (certificate, phase_times) = (progress.certificate(), progress.phase_times());
        let overdue = verdict.is_err().then(|| progress.overdue(self.timeout));
        if verdict.is_ok() {
            let _overdue = timeout_at(until, progress.end()).await;
        }
        let finding = match verdict {
            Ok(Ok(())) => Finding { outcome: Outcome::Success, latency, reason: String::new() },
            Ok(Err(Issue { outcome, reason })) => Finding { outcome, latency, reason },
            Err(_elapsed) => {
                Finding { outcome: Outcome::Timeout, latency, reason: overdue.unwrap_or_default() }
            }
        };
        RunResult { finding, phase_times, certificate }
    }

    /// The dialer of the target; `None` for kinds that do not connect.
    pub(super) fn dialer(&self) -> Option<&Dialer> {
        match &self.kind {
            Kind::File(_) | Kind::Gauge(_) => None,
            Kind::Grpc(grpc) => Some(grpc.dialer()),
            Kind::Http(http) => Some(http.dialer()),
            Kind::Tcp(tcp) => Some(tcp.dialer()),
            Kind::Other(kind) => kind.dialer(),
        }
    }

    /// Sets the [`ChangeNotice`] through which a gRPC watch reports a changed status.
    pub(super) fn notify_changes(&self, notice: ChangeNotice) {
        if let Kind::Grpc(grpc) = &self.kind {
            grpc.notify_changes(notice);
        }
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        match &self.kind {
            Kind::File(file) => file.run().await,
            Kind::Gauge(gauge) => gauge.run().await,
            // Boxed, so that the futures of other kinds stay small.
            Kind::Grpc(grpc) => Box::pin(grpc.run(progress, start)).await,
            Kind::Http(http) => http.run(progress, start).await,
            Kind::Tcp(tcp) => tcp.run(progress, start).await,
            Kind::Other(kind) => kind.run(progress, start).await,
        }
    }
}

fn other(built: Result<impl KindRunner + 'static, String>) -> Result<Kind, String> {
    built.map(|run| Kind::Other(Box::new(run)))
}
