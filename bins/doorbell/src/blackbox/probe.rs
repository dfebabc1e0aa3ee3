//! One probe: resolves the target, checks whether its address is allowed, and connects to exactly
//! that address.
//!
//! Does not know about: requests, the format of results.
//!
//! A name is resolved once, and the connection goes to the checked address, which prevents DNS
//! rebinding. The targets of redirects are checked in the same way.

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

/// Maximum number of redirects, as in Go's client.
const REDIRECTS_MAX: u32 = 10;

/// Maximum size of content to read.
const BODY_BYTES: u32 = 256 << 10;

/// Limit of lookups, separate from that of checks, so that checks do not wait.
static LOOKUPS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOOKUPS_MAX)));

/// Runs probes.
#[derive(Debug)]
pub(super) struct Prober {
    targets: Networks,
    shared: Mutex<Shared>,
}

/// The result of a probe.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) is_success: bool,
    /// Metrics of the probe.
    pub(super) text: String,
}

/// Why a probe is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The target may not be probed.
    NotAllowed,
    /// The target is invalid for the module.
    NotATarget,
    /// The request timed out while it waited, because too many probes were in progress.
    TooMany,
}

/// The request of a probe.
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

    /// Runs one probe for at most `limit`, and returns its metrics.
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
                // A name without an address is a failed probe, not an invalid request.
                Ok(Err(None)) | Err(_) => return Ok(Made::of(report, start)),
                // A redirect to a forbidden address is a failed probe, because the target chose the
                // address.
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
            // The address is reported even if the connection fails.
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

    /// Resolves a host to its first address, if all its addresses may be probed. `Err(None)` if
    /// there is no address.
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
        // IPv6 first, as in blackbox_exporter.
        let first = found.iter().find(|addr| addr.is_ipv6()).or_else(|| found.first());
        first.copied().ok_or(None)
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        self.targets.contains(ip)
    }

    /// Runs the check; returns its outcome and observations.
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

    /// Returns a check of exactly this address, with the host name of the target.
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

    /// The target of a redirect, if its location is a valid URL.
    fn redirected(&self, seen: &Seen) -> Option<Self> {
        let Self::Http(url, method) = self else { return None };
        let is_redirect = matches!(seen.status, Some(301 | 302 | 303 | 307 | 308));
        let to = seen.location.as_deref().filter(|to| is_redirect && !to.is_empty())?;
        // Redirects continue with GET, except 307 and 308 (RFC 9110 15.4).
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
    /// Label of the counter of this refusal.
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
            Self::NotAllowed => "target not allowed: it is not in `targets` of [blackbox]",
            Self::NotATarget => "invalid target for this module",
            Self::TooMany => "too many probes in progress",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_checks::Connector;
    use doorbell_checks::options::EgressOptions;
    use std::io::{Read as _, Write as _};

    /// Probes a server that redirects to `location`, and returns whether the probe succeeded.
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

    /// A forbidden target is refused; a forbidden redirect fails the probe.
    #[test]
    fn a_redirect_to_a_forbidden_address_fails_the_probe() {
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
