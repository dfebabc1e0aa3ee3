//! One probe: resolves the target, checks whether all its addresses are allowed, and connects to
//! one of them.
//!
//! Does not know about: requests to `/probe`, the format of results.
//!
//! A name is resolved once, and the connection goes to a checked address, which prevents DNS
//! rebinding. The targets of redirects are checked in the same way.

use super::LOOKUPS_MAX;
use super::module::Module;
use super::request::ProbeRequest;
use doorbell::http::forwarded::Networks;
use doorbell_checks::options::{Check, CheckKind, HostPort, Pace, Prefer, Resolve};
use doorbell_checks::{Phases, Runner, Seen, SharedResources, Trace, lookup_host};
use doorbell_health::Outcome;
use doorbell_prober::{Exported, Verdict};
use parking_lot::Mutex;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// Maximum number of redirects, as in blackbox_exporter.
const REDIRECTS_MAX: u32 = 10;

/// Limit of the name lookups of probes. Checks have their own limit, so that probes do not delay
/// them.
static LOOKUPS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOOKUPS_MAX)));

/// Runs probes.
#[derive(Debug)]
pub(super) struct Prober {
    targets: Networks,
    shared: Mutex<SharedResources>,
}

/// The result of a probe.
#[derive(Debug)]
pub(super) struct ProbeResult {
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
    /// The request timed out while it waited for other probes.
    TooMany,
}

impl Prober {
    pub(super) fn new(targets: Networks, shared: SharedResources) -> Self {
        Self { targets, shared: Mutex::new(shared) }
    }

    /// Runs one probe for at most `limit`, and returns its metrics.
    pub(super) async fn probe(
        &self,
        module: &Module,
        target: &str,
        limit: Duration,
    ) -> Result<ProbeResult, Refused> {
        let start = Instant::now();
        let mut request = ProbeRequest::parse(module, target).ok_or(Refused::NotATarget)?;
        let mut exported = Exported::new(module.prober(), limit);
        loop {
            let attempt_start = Instant::now();
            let found = timeout_at(start + limit, self.address_of(request.at(), module.resolve())).await;
            let lookup = attempt_start.elapsed();
            exported.lookup += lookup;
            let report = &mut exported.report;
            let addr = match found {
                Ok(Ok(addr)) => addr,
                // If a name has no usable address or its lookup times out, the probe fails, but the
                // request is valid.
                Ok(Err(None)) | Err(_) => return Ok(ProbeResult::of(exported, start)),
                // A redirect to a forbidden address is a failed probe instead of a refused request,
                // because the target chose the address.
                Ok(Err(Some(_))) if report.redirects > 0 => return Ok(ProbeResult::of(exported, start)),
                Ok(Err(Some(refused))) => return Err(refused),
            };
            let (outcome, seen) =
                self.run(&request, addr, (start + limit).duration_since(Instant::now())).await;
            report.phases += Phases::of(&seen, attempt_start.elapsed().saturating_sub(lookup));
            report.phases.resolve += lookup;
            let next = request.redirected(&seen).filter(|_| report.redirects < REDIRECTS_MAX);
            // Redirects that are not followed are counted as well, as in blackbox_exporter.
            report.redirects += u32::from(ProbeRequest::is_redirected(&seen));
            report.verdict = match (outcome, &next) {
                (Outcome::Success | Outcome::Degraded, None) => Verdict::Healthy,
                (Outcome::Timeout, _) => Verdict::TimedOut,
                _ => Verdict::Unhealthy,
            };
            // The address is reported even if the connection fails.
            report.seen = Seen { address: Some(addr.ip()), ..seen };
            match next {
                Some(next) => request = next,
                None => return Ok(ProbeResult::of(exported, start)),
            }
        }
    }

    /// Resolves a host to one address, if all its addresses may be probed. `Err(None)` if there is
    /// no usable address.
    async fn address_of(&self, at: &HostPort, resolve: Resolve) -> Result<SocketAddr, Option<Refused>> {
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
        // By default IPv6 first, as in blackbox_exporter.
        let is_preferred = |addr: &&SocketAddr| addr.is_ipv4() == (resolve.prefer == Prefer::Ipv4);
        let first = found.iter().find(is_preferred);
        first.or_else(|| found.first().filter(|_| resolve.fallback)).copied().ok_or(None)
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        self.targets.contains(ip)
    }

    /// Runs the check; returns its outcome and observations.
    async fn run(&self, request: &ProbeRequest, addr: SocketAddr, limit: Duration) -> (Outcome, Seen) {
        let limit = limit.max(Duration::from_millis(1));
        let pace = Pace { timeout: limit, connect_timeout: limit, ..Pace::default() };
        let mut kind = request.kind(addr);
        if let CheckKind::Udp(udp) = &mut kind {
            // The scrape timeout may be shorter than the wait of the module.
            udp.wait = udp.wait.filter(|wait| *wait < limit);
        }
        let check = Check { pace, ..Check::new("probe", kind) };
        let built = Runner::build(&check, &mut self.shared.lock());
        let Ok(Some(runner)) = built else { return (Outcome::Error, Seen::default()) };
        let trace = Trace::begin();
        let finding = runner.run_traced(&trace).await;
        (finding.outcome, trace.seen())
    }
}

impl ProbeResult {
    fn of(mut exported: Exported, start: Instant) -> Self {
        exported.report.total = start.elapsed();
        Self { is_success: exported.report.verdict == Verdict::Healthy, text: exported.finished() }
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
    use doorbell_proxy_config::model::Blackbox;
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
        let shared = SharedResources::new(Arc::new(Connector::open(&EgressOptions::default()).unwrap()));
        let prober = Prober::new(Networks::parse(["127.0.0.1/32"]).unwrap(), shared);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let target = format!("http://{addr}/");
        let modules = Module::all(&Blackbox::default());
        let http = modules.iter().find(|module| &*module.name == "http_2xx").unwrap();
        let probed = runtime.block_on(prober.probe(http, &target, Duration::from_secs(30)));
        serves.join().unwrap();
        probed.map(|probed| {
            assert!(probed.text.contains("\nprobe_http_redirects 1\n"), "{}", probed.text);
            probed.is_success
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
        let blackbox = Blackbox::default();
        let modules = Module::all(&blackbox);
        for (module, target, expected) in [
            ("http_2xx", "example.com", Some("example.com:80")),
            ("http_2xx", "https://example.com/x", Some("example.com:443")),
            ("http_2xx", "ftp://example.com", None),
            ("http_2xx", "file:///etc/passwd", None),
            ("http_2xx", "http://user@example.com/", None),
            ("tcp_connect", "a:1", Some("a:1")),
            ("tcp_connect", "unix:/run/a.sock", None),
            ("tcp_connect", "a", None),
            ("tls_connect", "a", Some("a:443")),
            ("grpc", "[::1]:5", Some("[::1]:5")),
        ] {
            let module = modules.iter().find(|one| &*one.name == module).unwrap();
            let found = ProbeRequest::parse(module, target).map(|request| request.at().to_string());
            assert_eq!(found.as_deref(), expected, "{target}");
        }
    }
}
