//! A runner of a built-in kind: each run yields one finding, within its timeout and with bounded
//! memory.
//!
//! Does not know about: schedules, the effect of a finding.

use crate::connect::connector::Connector;
use crate::connect::dialer::Dialer;
use crate::connect::tls::TlsPool;
use crate::finding::{Finding, Issue, Verdict};
use crate::kinds::Ask;
use crate::kinds::dns::DnsRunner;
use crate::kinds::exec::ExecRunner;
use crate::kinds::file::FileRunner;
use crate::kinds::gauge::GaugeRunner;
use crate::kinds::grpc::GrpcRunner;
use crate::kinds::http::HttpRunner;
#[cfg(feature = "icmp")]
use crate::kinds::icmp::IcmpRunner;
#[cfg(feature = "mail")]
use crate::kinds::mail::MailRunner;
#[cfg(feature = "mysql")]
use crate::kinds::mysql::MysqlRunner;
#[cfg(feature = "postgres")]
use crate::kinds::postgres::PostgresRunner;
#[cfg(feature = "process")]
use crate::kinds::process::ProcessRunner;
use crate::kinds::redis::RedisRunner;
use crate::kinds::tcp::TcpRunner;
use crate::kinds::tls::TlsRunner;
#[cfg(feature = "udp")]
use crate::kinds::udp::UdpRunner;
#[cfg(feature = "websocket")]
use crate::kinds::websocket::WebsocketRunner;
use crate::options::{Address, Check, CheckKind};
use crate::progress::Progress;
use crate::runner::Ran;
use crate::scheduler::run_requests::ChangeNotice;
use doorbell_health::Outcome;
use std::sync::Arc;
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
    Other(Box<dyn Ask>),
}

/// Resources that checks share: the connector and TLS configurations.
#[derive(Debug)]
pub struct Shared {
    /// Opens the checks' connections.
    pub connector: Arc<Connector>,
    tls: TlsPool,
}

impl Shared {
    /// Creates shared resources with an empty pool of TLS configurations.
    #[must_use]
    pub fn new(connector: Arc<Connector>) -> Self {
        Self { connector, tls: TlsPool::default() }
    }
}

impl TargetRunner {
    /// `None` if its results are pushed.
    pub(super) fn build(check: &Check, shared: &mut Shared) -> Result<Option<Self>, String> {
        let named = |why| format!("check {}: {why}", check.name);
        let Shared { connector, tls: pool } = shared;
        let dialer =
            |at, resolve| Dialer::new(at, resolve, check.pace.connect_timeout, Arc::clone(connector));
        let kind = match &check.kind {
            CheckKind::Dns(dns) => {
                let dialer = dialer(Address::Tcp(dns.server.clone()), dns.resolve);
                let ask = DnsRunner::build(dns, dialer, check.pace.timeout).map_err(named)?;
                Kind::Other(Box::new(ask))
            }
            CheckKind::Exec(exec) => Kind::Other(Box::new(ExecRunner::new(exec.clone()))),
            CheckKind::File(file) => Kind::File(FileRunner::new(file.clone())),
            CheckKind::Gauge(gauge) => Kind::Gauge(GaugeRunner::new(gauge.clone())),
            CheckKind::Grpc(grpc) => {
                let dialer = dialer(grpc.address.clone(), grpc.resolve);
                let ask = GrpcRunner::build(grpc, &check.pace, dialer, pool).map_err(named)?;
                Kind::Grpc(Box::new(ask))
            }
            CheckKind::Http(http) => {
                let at = http.address.clone().unwrap_or_else(|| Address::Tcp(http.url.at.clone()));
                let dialer = dialer(at, http.resolve).sends(http.proxy_protocol);
                Kind::Http(Box::new(HttpRunner::build(http, dialer, pool).map_err(named)?))
            }
            #[cfg(feature = "icmp")]
            CheckKind::Icmp(icmp) => {
                let dialer = dialer(Address::Tcp(icmp.host.clone()), icmp.resolve);
                Kind::Other(Box::new(IcmpRunner::new(icmp, dialer, check.pace.timeout)))
            }
            #[cfg(feature = "mail")]
            CheckKind::Mail(mail) => {
                let dialer = dialer(mail.address.clone(), mail.resolve);
                Kind::Other(Box::new(MailRunner::build(mail, dialer, pool).map_err(named)?))
            }
            #[cfg(feature = "mysql")]
            CheckKind::Mysql(mysql) => {
                let dialer = dialer(mysql.address.clone(), mysql.resolve);
                Kind::Other(Box::new(MysqlRunner::build(mysql, dialer, pool).map_err(named)?))
            }
            #[cfg(feature = "postgres")]
            CheckKind::Postgres(postgres) => {
                let dialer = dialer(postgres.address.clone(), postgres.resolve);
                Kind::Other(Box::new(PostgresRunner::build(postgres, dialer, pool).map_err(named)?))
            }
            #[cfg(feature = "process")]
            CheckKind::Process(process) => Kind::Other(Box::new(ProcessRunner::new(process.clone()))),
            CheckKind::Redis(redis) => {
                let dialer = dialer(redis.address.clone(), redis.resolve);
                Kind::Other(Box::new(RedisRunner::build(redis, dialer, pool).map_err(named)?))
            }
            CheckKind::Tcp(tcp) => {
                let dialer = dialer(tcp.address.clone(), tcp.resolve).sends(tcp.proxy_protocol);
                Kind::Tcp(Box::new(TcpRunner::new(tcp.clone(), dialer)))
            }
            CheckKind::Tls(tls) => {
                let dialer = dialer(tls.address.clone(), tls.resolve).sends(tls.proxy_protocol);
                Kind::Other(Box::new(TlsRunner::build(tls, dialer, pool).map_err(named)?))
            }
            CheckKind::Ttl(_) => return Ok(None),
            #[cfg(feature = "udp")]
            CheckKind::Udp(udp) => {
                let dialer = dialer(udp.address.clone(), udp.resolve);
                Kind::Other(Box::new(UdpRunner::new(udp, dialer, check.pace.timeout)))
            }
            #[cfg(feature = "websocket")]
            CheckKind::Websocket(socket) => {
                let dialer = dialer(socket.connects_to(), socket.resolve);
                Kind::Other(Box::new(WebsocketRunner::build(socket, dialer, pool).map_err(named)?))
            }
        };
        Ok(Some(Self { kind, timeout: check.pace.timeout }))
    }

    pub(super) const fn goes_on(&self) -> bool {
        matches!(self.kind, Kind::File(_) | Kind::Gauge(_))
    }

    pub(super) fn is_for(&self, check: &Check) -> bool {
        let is_same = match (&self.kind, &check.kind) {
            (Kind::File(ask), CheckKind::File(kind)) => ask.is_of(kind),
            (Kind::Gauge(ask), CheckKind::Gauge(kind)) => ask.is_of(kind),
            _ => false,
        };
        is_same && self.timeout == check.pace.timeout
    }

    pub(super) async fn run_as(&self, progress: Progress) -> Ran {
        let start = progress.start();
        match self.dialer().filter(|dialer| dialer.asks_all()) {
            // Boxed, so that the futures of other kinds stay small.
            Some(dialer) => Box::pin(self.run_all(dialer, progress, start)).await,
            None => self.run_part(progress, start, start + self.timeout).await,
        }
    }

    /// Performs a run, or the part of a run for one address.
    pub(super) async fn run_part(&self, progress: Progress, start: Instant, until: Instant) -> Ran {
        let verdict = timeout_at(until, self.ask(&progress, start)).await;
        let latency = start.elapsed();
        if !matches!(verdict, Ok(Ok(())))
            && let Kind::Other(kind) = &self.kind
            && let Some(dialer) = kind.dialer().filter(|_| kind.is_connectionless())
        {
            // The address may no longer belong to this name.
            dialer.forget();
        }
        let (certificate, spent) = (progress.certificate(), progress.spent());
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
        Ran { finding, spent, certificate }
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

    /// Sets the notice by which changes of the target are reported.
    pub(super) fn notify_changes(&self, notice: ChangeNotice) {
        if let Kind::Grpc(grpc) = &self.kind {
            grpc.notify_changes(notice);
        }
    }

    async fn ask(&self, progress: &Progress, start: Instant) -> Verdict {
        match &self.kind {
            Kind::File(file) => file.ask().await,
            Kind::Gauge(gauge) => gauge.ask().await,
            // Boxed, so that the futures of other kinds stay small.
            Kind::Grpc(grpc) => Box::pin(grpc.ask(progress, start)).await,
            Kind::Http(http) => http.ask(progress, start).await,
            Kind::Tcp(tcp) => tcp.ask(progress, start).await,
            Kind::Other(kind) => kind.ask(progress, start).await,
        }
    }
}
