//! One probe: where the target leads is found out first, looked at, and then connected to, at that address and no other.
//!
//! Does not know about: who asks, how a result is written.
//!
//! A name is looked up once. What is connected to is the address that was found to be allowed, so that a name that leads elsewhere a moment
//! later changes nothing; and every redirect is looked at in the same way.

use super::LOOKUPS_MAX;
use crate::config::model::Module;
use crate::http::forwarded::Networks;
use crate::probe::{Exported, Kind};
use doorbell_checks::options::{
    Address, Check, CheckKind, ClientTls, FollowRedirects, GrpcCheck, HostPort, HttpCheck, Pace, TcpCheck,
    TlsCheck, Url,
};
use doorbell_checks::{Phases, Runner, Seen, Shared, Trace, lookup_host, url_of_location};
use doorbell_health::Outcome;
use doorbell_health::Severity;
use hyper::Method;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// Redirects of one probe, as Go's client follows them.
const REDIRECTS_MAX: u32 = 10;

/// Bytes of content that are read.
const BODY_BYTES: u32 = 256 << 10;

/// Apart from those of checks, which do not wait for these.
static LOOKUPS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOOKUPS_MAX)));

/// Makes probes.
#[derive(Debug)]
pub(super) struct Prober {
    targets: Networks,
    shared: Mutex<Shared>,
}

/// What a probe came to.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) is_success: bool,
    /// Its metrics.
    pub(super) text: String,
}

/// Why no probe is made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The target is not to be probed.
    NotAllowed,
    /// The target is not of a form that the module knows.
    NotATarget,
    /// Others are probed, for longer than whoever asks can wait.
    TooMany,
}

/// What a module asks a target for.
enum Asked {
    Grpc(HostPort, Option<ClientTls>),
    Http(Url, Method),
    Tcp(HostPort),
    Tls(HostPort),
}

impl Prober {
    pub(super) fn new(targets: Networks, shared: Shared) -> Self {
        Self { targets, shared: Mutex::new(shared) }
    }

    /// The metrics of one probe. It takes no longer than `limit`.
    pub(super) async fn probe(&self, module: Module, target: &str, limit: Duration) -> Result<Made, Refused> {
        let start = Instant::now();
        let mut asked = Asked::parse(module, target).ok_or(Refused::NotATarget)?;
        let mut report = Exported::new(kind_of(module), limit);
        loop {
            let begun = Instant::now();
            let found = timeout_at(start + limit, self.address_of(asked.at())).await;
            let lookup = begun.elapsed();
            report.lookup += lookup;
            let addr = match found {
                Ok(Ok(addr)) => addr,
                // A name that leads nowhere is a finding, and not an error of whoever asks.
                Ok(Err(None)) | Err(_) => return Ok(Made::of(report, start)),
                // Where the target leads is for the target to say: that it leads astray is a finding, too.
                Ok(Err(Some(_))) if report.redirects > 0 => return Ok(Made::of(report, start)),
                Ok(Err(Some(refused))) => return Err(refused),
            };
            let (outcome, seen) =
                self.run(&asked, addr, (start + limit).duration_since(Instant::now())).await;
            report.phases += Phases::of(&seen, begun.elapsed().saturating_sub(lookup));
            report.phases.resolve += lookup;
            let next = asked.redirected(&seen).filter(|_| report.redirects < REDIRECTS_MAX);
            report.is_success = outcome == Outcome::Success;
            report.is_overdue = outcome == Outcome::Timeout;
            // It is known, also where nobody accepts.
            report.seen = Seen { address: Some(addr.ip()), ..seen };
            match next {
                Some(next) => {
                    report.redirects += 1;
                    report.is_success = false;
                    asked = next;
                }
                None => return Ok(Made::of(report, start)),
            }
        }
    }

    /// The first address of a host, and only if all that it has may be probed. `None` where it has none.
    async fn address_of(&self, at: &HostPort) -> Result<SocketAddr, Option<Refused>> {
        let found: Vec<SocketAddr> = match at.host.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, at.port)],
            Err(_) => {
                let found = lookup_host(at.host.clone(), &LOOKUPS).await.unwrap_or_default();
                found.into_iter().map(|addr| SocketAddr::new(addr.ip(), at.port)).collect()
            }
        };
        if !found.iter().all(|addr| self.is_allowed(addr.ip())) {
            return Err(Some(Refused::NotAllowed));
        }
        // IPv6 first, as blackbox_exporter has it.
        let first = found.iter().find(|addr| addr.is_ipv6()).or_else(|| found.first());
        first.copied().ok_or(None)
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        self.targets.contains(ip)
    }

    /// How it ended, and what was seen.
    async fn run(&self, asked: &Asked, addr: SocketAddr, limit: Duration) -> (Outcome, Seen) {
        let limit = limit.max(Duration::from_millis(1));
        let pace = Pace { timeout: limit, connect_timeout: limit, ..Pace::default() };
        let kind = asked.kind(addr);
        let check = Check { name: "probe".to_owned(), severity: Severity::Info, pace, kind };
        let built = Runner::build(&check, &mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
        let Ok(Some(runner)) = built else { return (Outcome::Error, Seen::default()) };
        let trace = Trace::begin();
        let finding = runner.run_traced(&trace).await;
        (finding.outcome, trace.seen())
    }
}

impl Made {
    fn of(report: Exported, start: Instant) -> Self {
        Self { is_success: report.is_success, text: report.finished(start.elapsed()) }
    }
}

impl Asked {
    fn parse(module: Module, target: &str) -> Option<Self> {
        let url = || {
            let is_url = target.starts_with("http://") || target.starts_with("https://");
            if is_url { Url::parse(target) } else { Url::parse(&format!("http://{target}")) }
        };
        Some(match module {
            Module::Grpc => Self::Grpc(HostPort::parse(target, None)?, Some(ClientTls::default())),
            Module::GrpcPlain => Self::Grpc(HostPort::parse(target, None)?, None),
            Module::Http2xx => Self::Http(url()?, Method::GET),
            Module::HttpPost2xx => Self::Http(url()?, Method::POST),
            Module::TcpConnect => Self::Tcp(HostPort::parse(target, None)?),
            Module::TlsConnect => Self::Tls(HostPort::parse(target, Some(443))?),
        })
    }

    const fn at(&self) -> &HostPort {
        match self {
            Self::Grpc(at, _) | Self::Tcp(at) | Self::Tls(at) => at,
            Self::Http(url, _) => &url.at,
        }
    }

    /// The check of this address and no other, in the name of the target.
    fn kind(&self, addr: SocketAddr) -> CheckKind {
        let place = Address::Tcp(HostPort { host: addr.ip().to_string(), port: addr.port() });
        let named = |tls: &ClientTls| ClientTls { server_name: Some(self.at().host.clone()), ..tls.clone() };
        match self {
            Self::Grpc(_, tls) => {
                CheckKind::Grpc(Box::new(GrpcCheck { tls: tls.as_ref().map(named), ..GrpcCheck::new(place) }))
            }
            Self::Http(url, method) => CheckKind::Http(Box::new(HttpCheck {
                address: Some(place),
                method: method.clone(),
                follow_redirects: FollowRedirects::No,
                body_bytes: BODY_BYTES,
                ..HttpCheck::new(url.clone())
            })),
            Self::Tcp(_) => CheckKind::Tcp(TcpCheck::new(place)),
            Self::Tls(_) => CheckKind::Tls(Box::new(TlsCheck {
                tls: named(&ClientTls::default()),
                ..TlsCheck::new(place)
            })),
        }
    }

    /// Where an answer leads. What is no URL leads nowhere.
    fn redirected(&self, seen: &Seen) -> Option<Self> {
        let Self::Http(url, method) = self else { return None };
        let is_redirect = matches!(seen.status, Some(301 | 302 | 303 | 307 | 308));
        let to = seen.location.as_deref().filter(|to| is_redirect && !to.is_empty())?;
        // A browser asks with GET from there on, but for 307 and 308 (RFC 9110 15.4).
        let method = if matches!(seen.status, Some(307 | 308)) { method.clone() } else { Method::GET };
        Some(Self::Http(url_of_location(url, to)?, method))
    }
}

const fn kind_of(module: Module) -> Kind {
    match module {
        Module::Grpc | Module::GrpcPlain => Kind::Grpc,
        Module::Http2xx | Module::HttpPost2xx => Kind::Http,
        Module::TcpConnect | Module::TlsConnect => Kind::Tcp,
    }
}

impl Refused {
    /// The word by which it is counted.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::NotAllowed => "not_allowed",
            Self::NotATarget => "invalid",
            Self::TooMany => "busy",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllowed => "this target is not in the networks that may be probed ([blackbox] targets)",
            Self::NotATarget => "this is not a target that the module knows",
            Self::TooMany => "too many probes at once",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_checks::Connector;
    use doorbell_checks::options::EgressOptions;
    use std::io::{Read as _, Write as _};

    /// Whether a probe succeeds of a server that leads to `location`.
    fn probed(location: &str) -> Result<bool, Refused> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let answer = format!("HTTP/1.1 302 F\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let serves = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _len = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let shared = Shared::new(Arc::new(Connector::open(&EgressOptions::default()).unwrap()));
        let prober = Prober::new(Networks::parse(["127.0.0.1/32"]).unwrap(), shared);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let target = format!("http://{addr}/");
        let made = runtime.block_on(prober.probe(Module::Http2xx, &target, Duration::from_secs(30)));
        serves.join().unwrap();
        made.map(|made| {
            assert!(made.text.contains("\nprobe_http_redirects 1\n"), "{}", made.text);
            made.is_success
        })
    }

    /// What is refused is a target; where it leads is what is found out about it.
    #[test]
    fn a_target_that_leads_where_nothing_is_probed_has_failed() {
        assert_eq!(probed("http://192.0.2.1/"), Ok(false));
        assert_eq!(probed("http://nowhere.invalid/"), Ok(false));
    }

    #[test]
    fn targets() {
        for (module, target, expected) in [
            (Module::Http2xx, "example.com", Some("example.com:80")),
            (Module::Http2xx, "https://example.com/x", Some("example.com:443")),
            (Module::Http2xx, "ftp://example.com", None),
            (Module::Http2xx, "file:///etc/passwd", None),
            (Module::Http2xx, "http://user@example.com/", None),
            (Module::TcpConnect, "a:1", Some("a:1")),
            (Module::TcpConnect, "unix:/run/a.sock", None),
            (Module::TcpConnect, "a", None),
            (Module::TlsConnect, "a", Some("a:443")),
            (Module::Grpc, "[::1]:5", Some("[::1]:5")),
        ] {
            let found = Asked::parse(module, target).map(|asked| asked.at().to_string());
            assert_eq!(found.as_deref(), expected, "{target}");
        }
    }
}
