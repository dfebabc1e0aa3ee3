//! The probers that can be imitated: their requests, accepted responses, and way of closing.
//!
//! The bytes of the kubelet, HAProxy, Apache and blackbox_exporter were captured; those of Consul,
//! Envoy and keepalived follow their source code; those of cloud load balancers contain the
//! documented fields.

use super::probe::Probe;
use super::target::Target;
use clap::ValueEnum;
use doorbell_checks::options::Url;
use std::fmt::Write as _;
use std::time::Duration;

/// A prober to imitate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Prober {
    /// Apache's mod_proxy_hcheck with hcmethod=GET
    Apache,
    /// Azure Load Balancer
    Azure,
    /// Prometheus' blackbox_exporter, module http_2xx
    #[value(alias = "blackbox_exporter")]
    Blackbox,
    /// Consul, an HTTP or gRPC check
    Consul,
    /// doorbell itself
    #[default]
    Doorbell,
    /// AWS Application Load Balancer
    #[value(alias = "alb")]
    Elb,
    /// Envoy's active health check
    Envoy,
    /// Google Cloud load balancers
    Gcp,
    /// grpc_health_probe; gRPC only
    #[value(alias = "grpc_health_probe")]
    GrpcHealthProbe,
    /// HAProxy's option httpchk
    Haproxy,
    /// keepalived's HTTP_GET and SSL_GET
    Keepalived,
    /// The kubelet: httpGet, tcpSocket, grpc
    Kubelet,
    /// AWS Route 53
    Route53,
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// A FIN; `linger` limits the time in which the kernel sends pending data.
    Fin { linger: Option<Duration> },
    /// An RST.
    Reset,
}

/// Which redirects are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirects {
    All,
    None,
    /// Redirects to the same host; a redirect to another host is a success with a warning.
    OwnHost,
}

/// User agent of the imitated kubelet.
const KUBE_PROBE: &str = "kube-probe/1.34";

/// User agent of blackbox_exporter in Debian 12.
const BLACKBOX: &str = "Blackbox Exporter/0.23.0";

/// User agent of Route 53, with an unassigned check ID.
const ROUTE53: &str = "Amazon-Route53-Health-Check-Service (ref 00000000-0000-0000-0000-000000000000; report http://amzn.to/1vsZADi)";

const OWN_AGENT: &str = concat!("doorbell-probe/", env!("CARGO_PKG_VERSION"));

impl Prober {
    /// Whether a probe of this target uses TLS, or may use it after a redirect.
    #[must_use]
    pub fn may_use_tls(self, target: &Target) -> bool {
        match target {
            Target::Check(text) => text.starts_with("wss://"),
            Target::Grpc { is_tls, .. } => *is_tls,
            Target::Http(url) => url.is_https || self.follows_redirects(),
            Target::Icmp(_) | Target::Redis(_) | Target::Tcp(_) | Target::Udp(_) | Target::Unix(_) => false,
            Target::Tls(_) => true,
        }
    }

    /// Default timeout.
    pub(crate) const fn timeout(self) -> Duration {
        Duration::from_millis(match self {
            Self::Kubelet => 1_000,
            // grpc_health_probe: one second for the connection, and one second for the call.
            Self::Doorbell | Self::GrpcHealthProbe | Self::Haproxy => 2_000,
            Self::Azure | Self::Elb | Self::Envoy | Self::Gcp | Self::Keepalived => 5_000,
            // Four seconds for the connection, two for the response.
            Self::Route53 => 6_000,
            // The default scrape timeout of ten seconds, minus the exporter's offset.
            Self::Blackbox => 9_500,
            Self::Consul => 10_000,
            Self::Apache => 60_000,
        })
    }

    /// Whether the prober accepts a status by default.
    pub(super) fn accepts(self, status: u16) -> bool {
        match self {
            Self::Azure | Self::Elb | Self::Envoy | Self::Gcp => status == 200,
            // 429 is a warning: Consul still routes clients to the service.
            Self::Consul => (200..=299).contains(&status) || status == 429,
            Self::Blackbox | Self::Keepalived => (200..=299).contains(&status),
            Self::Apache
            | Self::Doorbell
            | Self::GrpcHealthProbe
            | Self::Haproxy
            | Self::Kubelet
            | Self::Route53 => (200..=399).contains(&status),
        }
    }

    pub(super) const fn closing(self) -> Closing {
        match self {
            Self::Haproxy => Closing::Reset,
            Self::Kubelet => Closing::Fin { linger: Some(Duration::from_secs(1)) },
            _ => Closing::Fin { linger: None },
        }
    }

    /// Whether the prober verifies certificates by default.
    pub const fn verifies(self) -> bool {
        matches!(self, Self::Blackbox | Self::Consul | Self::Doorbell | Self::GrpcHealthProbe)
    }

    const fn is_written_in_go(self) -> bool {
        matches!(self, Self::Blackbox | Self::Consul | Self::Kubelet)
    }

    /// Whether the prober supports HTTP.
    pub const fn speaks_http(self) -> bool {
        !matches!(self, Self::GrpcHealthProbe)
    }

    pub(super) const fn redirects(self) -> Redirects {
        match self {
            Self::Blackbox | Self::Consul => Redirects::All,
            Self::Kubelet => Redirects::OwnHost,
            _ => Redirects::None,
        }
    }

    /// Maximum number of redirects. The kubelet and Consul have the limit of Go's client: ten
    /// requests.
    pub(super) const fn redirects_max(self) -> usize {
        match self {
            Self::Blackbox => 10,
            _ => 9,
        }
    }

    /// Whether the prober follows redirects.
    pub(crate) fn follows_redirects(self) -> bool {
        self.redirects() != Redirects::None
    }

    /// Whether the prober can send its view of the server's state.
    pub const fn has_state(self) -> bool {
        matches!(self, Self::Haproxy)
    }

    /// Whether a reset after a complete response is a failure.
    pub(super) const fn fails_on_reset(self) -> bool {
        matches!(self, Self::Azure)
    }

    /// Maximum size of content to read.
    pub(super) const fn content_len_max(self) -> usize {
        match self {
            Self::Gcp => 1 << 10,
            Self::Consul => 4 << 10,
            Self::Route53 => 5 << 10,
            _ => 10 << 10,
        }
    }

    /// User agent of the gRPC probes; `None` if the prober does not support gRPC. grpc-go appends
    /// its name to the user agents of the kubelet and of grpc_health_probe; Consul and
    /// blackbox_exporter only send the name of grpc-go. Other probers send the same user agent as
    /// over HTTP.
    pub(super) const fn grpc_agent(self) -> Option<&'static str> {
        match self {
            Self::Apache | Self::Azure | Self::Haproxy | Self::Keepalived | Self::Route53 => None,
            Self::Blackbox | Self::Consul => Some("grpc-go/1.72.1"),
            Self::Doorbell => Some(OWN_AGENT),
            Self::Elb => Some("ELB-HealthChecker/2.0"),
            Self::Envoy => Some("Envoy/HC"),
            Self::Gcp => Some("GoogleHC/1.0"),
            Self::GrpcHealthProbe => Some("grpc_health_probe grpc-go/1.72.1"),
            Self::Kubelet => Some("kube-probe/1.34 grpc-go/1.72.1"),
        }
    }

    /// Returns the exact bytes of the request.
    pub(super) fn request(self, probe: &Probe, url: &Url) -> Vec<u8> {
        let target = &url.target;
        // These probers include the port even if it is the default.
        let with_port = matches!(self, Self::Apache | Self::Elb | Self::Kubelet);
        let host = if with_port { url.at.to_string() } else { url.authority() };
        let host = probe.host.clone().unwrap_or(host);
        let own: &[(&str, &str)] = match self {
            Self::Apache => &[("Host", &host)],
            Self::Keepalived => &[("User-Agent", "KeepAliveClient"), ("Host", &host)],
            Self::Blackbox => &[("User-Agent", BLACKBOX), ("Connection", "close")],
            Self::Azure => &[("User-Agent", "Load Balancer Agent"), ("Connection", "Keep-Alive")],
            Self::Consul => &[
                ("User-Agent", "Consul Health Check"),
                ("Accept", "text/plain, text/*, */*"),
                ("Accept-Encoding", "gzip"),
                ("Connection", "close"),
            ],
            Self::Doorbell => &[("User-Agent", OWN_AGENT), ("Accept", "*/*"), ("Connection", "close")],
            Self::Elb => &[
                ("Connection", "close"),
                ("User-Agent", "ELB-HealthChecker/2.0"),
                ("Accept-Encoding", "gzip, compressed"),
            ],
            Self::Envoy => &[("user-agent", "Envoy/HC")],
            Self::Gcp => &[("User-Agent", "GoogleHC/1.0"), ("Connection", "Keep-alive")],
            Self::GrpcHealthProbe => &[],
            Self::Haproxy => return haproxy(probe, url, &host),
            Self::Kubelet => &[("User-Agent", KUBE_PROBE), ("Accept", "*/*"), ("Connection", "close")],
            Self::Route53 => &[("User-Agent", ROUTE53)],
        };
        let host_name = if self == Self::Envoy { "host" } else { "Host" };
        let mut head = match self {
            Self::Apache | Self::Keepalived => format!("GET {target} HTTP/1.0\r\n"),
            _ => format!("GET {target} HTTP/1.1\r\n{host_name}: {host}\r\n"),
        };
        let given = |name: &str| probe.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut fields: Vec<(&str, &str)> = own.iter().filter(|(name, _)| !given(name)).copied().collect();
        // An empty value removes a field of the prober, as in the kubelet.
        let added = probe.headers.iter().filter(|(_, value)| !value.is_empty());
        let at = fields.iter().position(|(name, _)| *name == "Connection").unwrap_or(fields.len());
        for (offset, (name, value)) in added.enumerate() {
            fields.insert(at + offset, (name, value));
        }
        if self.is_written_in_go() {
            // The order of Go's net/http: user agent, other fields by name, fields of the
            // transport.
            fields.sort_by_key(|(name, _)| (rank_in_go(name), canonical(name)));
        }
        for (name, value) in fields {
            let name = if self.is_written_in_go() { canonical(name) } else { name.to_owned() };
            let _infallible = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

const fn rank_in_go(name: &str) -> u8 {
    if name.eq_ignore_ascii_case("user-agent") {
        0
    } else if name.eq_ignore_ascii_case("accept-encoding") || name.eq_ignore_ascii_case("connection") {
        2
    } else {
        1
    }
}

/// Converts a name to Go's canonical form: `x-my-field` to `X-My-Field`.
fn canonical(name: &str) -> String {
    let mut is_first = true;
    let letter = |c: char| {
        let c = if is_first { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        is_first = c == '-';
        c
    };
    name.chars().map(letter).collect()
}

/// Returns the request of `option httpchk`, or of `http-check send` if `probe` has a host or added
/// fields.
fn haproxy(probe: &Probe, url: &Url, host: &str) -> Vec<u8> {
    let target = &url.target;
    let is_bare = probe.host.is_none() && probe.headers.is_empty();
    let mut head = match is_bare {
        true => format!("OPTIONS {target} HTTP/1.0\r\n"),
        false => format!("OPTIONS {target} HTTP/1.1\r\nhost: {host}\r\n"),
    };
    for (name, value) in &probe.headers {
        let _infallible = write!(head, "{}: {value}\r\n", name.to_ascii_lowercase());
    }
    if probe.send_state {
        let _infallible = write!(head, "x-haproxy-server-state: {}\r\n", state_of(url));
    }
    head.push_str(if is_bare { "\r\n" } else { "connection: close\r\n\r\n" });
    head.into_bytes()
}

/// Returns the state of a server that is up and has no connections.
fn state_of(url: &Url) -> String {
    let node = rustix::system::uname();
    let node = node.nodename().to_string_lossy();
    let (host, port) = (&url.at.host, url.at.port);
    format!("UP; address={host}; port={port}; name=doorbell/probe; node={node}; weight=1/1; scur=0/0; qcur=0")
}
