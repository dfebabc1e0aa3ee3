//! Who can be imitated: what each sends, what it is content with, how it closes.
//!
//! Does not know about: sockets. The kubelet's and HAProxy's bytes are as captured from them; Consul's and Envoy's follow from their
//! sources; the clouds' have the fields that they document.

use super::Ask;
use crate::config::model::Url;
use clap::ValueEnum;
use std::fmt::Write as _;
use std::time::Duration;

/// Whose manner a probe has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Prober {
    /// Azure Load Balancer.
    Azure,
    Consul,
    /// Our own.
    #[default]
    Doorbell,
    /// AWS Application Load Balancer.
    Elb,
    Envoy,
    /// Google Cloud.
    Gcp,
    Haproxy,
    Kubelet,
}

/// How a connection is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// A FIN; the kernel is given this long to deliver what waits.
    Fin { linger: Option<Duration> },
    /// A RST, whatever is under way.
    Reset,
}

/// The version of Kubernetes whose kubelet is imitated.
const KUBE_PROBE: &str = "kube-probe/1.34";

const OWN_AGENT: &str = concat!("doorbell-probe/", env!("CARGO_PKG_VERSION"));

impl Prober {
    /// How long it waits unless told otherwise.
    pub(crate) const fn timeout(self) -> Duration {
        Duration::from_secs(match self {
            Self::Kubelet => 1,
            Self::Doorbell | Self::Haproxy => 2,
            Self::Azure | Self::Elb | Self::Envoy | Self::Gcp => 5,
            Self::Consul => 10,
        })
    }

    /// What it is content with unless told otherwise.
    pub(super) fn accepts(self, status: u16) -> bool {
        match self {
            Self::Azure | Self::Elb | Self::Envoy | Self::Gcp => status == 200,
            // 429 is a warning, with which Consul still sends clients.
            Self::Consul => (200..=299).contains(&status) || status == 429,
            Self::Doorbell | Self::Haproxy | Self::Kubelet => (200..=399).contains(&status),
        }
    }

    pub(super) const fn closing(self) -> Closing {
        match self {
            Self::Haproxy => Closing::Reset,
            Self::Kubelet => Closing::Fin { linger: Some(Duration::from_secs(1)) },
            _ => Closing::Fin { linger: None },
        }
    }

    /// Whether certificates are looked at unless told otherwise.
    pub(crate) const fn verifies(self) -> bool {
        matches!(self, Self::Consul | Self::Doorbell)
    }

    const fn is_written_in_go(self) -> bool {
        matches!(self, Self::Consul | Self::Kubelet)
    }

    /// Whether redirects to the same host are followed, and others are a success with a warning.
    pub(super) const fn follows_redirects(self) -> bool {
        matches!(self, Self::Kubelet)
    }

    /// Whether a reset behind a whole answer makes it a bad one.
    pub(super) const fn minds_resets(self) -> bool {
        matches!(self, Self::Azure)
    }

    /// Bytes of content that are looked at.
    pub(super) const fn content_len_max(self) -> usize {
        match self {
            Self::Gcp => 1 << 10,
            Self::Consul => 4 << 10,
            _ => 10 << 10,
        }
    }

    /// Who it says asks where it asks by gRPC; nothing of those of which it is not known, and of those that do not. The kubelet and Envoy as in
    /// their sources, where a library of Go adds its own name to the kubelet's; others as over HTTP.
    pub(super) const fn grpc_agent(self) -> Option<&'static str> {
        match self {
            Self::Azure | Self::Consul | Self::Haproxy => None,
            Self::Doorbell => Some(OWN_AGENT),
            Self::Elb => Some("ELB-HealthChecker/2.0"),
            Self::Envoy => Some("Envoy/HC"),
            Self::Gcp => Some("GoogleHC/1.0"),
            Self::Kubelet => Some("kube-probe/1.34 grpc-go/1.72.1"),
        }
    }

    /// The request, byte for byte.
    pub(super) fn request(self, ask: &Ask, url: &Url) -> Vec<u8> {
        let target = &url.target;
        // These write the port even where it is that of the scheme.
        let with_port = matches!(self, Self::Kubelet | Self::Elb);
        let host = if with_port { url.at.to_string() } else { url.authority() };
        let host = ask.host.clone().unwrap_or(host);
        let own: &[(&str, &str)] = match self {
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
            Self::Haproxy => return haproxy(ask, target, &host),
            Self::Kubelet => &[("User-Agent", KUBE_PROBE), ("Accept", "*/*"), ("Connection", "close")],
        };
        let host_name = if self == Self::Envoy { "host" } else { "Host" };
        let mut head = format!("GET {target} HTTP/1.1\r\n{host_name}: {host}\r\n");
        let given = |name: &str| ask.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut fields: Vec<(&str, &str)> = own.iter().filter(|(name, _)| !given(name)).copied().collect();
        // An empty value takes a field of the prober away, as the kubelet has it.
        let added = ask.headers.iter().filter(|(_, value)| !value.is_empty());
        let at = fields.iter().position(|(name, _)| *name == "Connection").unwrap_or(fields.len());
        for (offset, (name, value)) in added.enumerate() {
            fields.insert(at + offset, (name, value));
        }
        if self.is_written_in_go() {
            // net/http: who asks, then what was set by name, then what the transport adds.
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

/// `x-my-field` as `X-My-Field`.
fn canonical(name: &str) -> String {
    let mut is_first = true;
    let letter = |c: char| {
        let c = if is_first { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        is_first = c == '-';
        c
    };
    name.chars().map(letter).collect()
}

/// `option httpchk`; with a host or fields, what `http-check send` makes of it.
fn haproxy(ask: &Ask, target: &str, host: &str) -> Vec<u8> {
    if ask.host.is_none() && ask.headers.is_empty() {
        return format!("OPTIONS {target} HTTP/1.0\r\n\r\n").into_bytes();
    }
    let mut head = format!("OPTIONS {target} HTTP/1.1\r\nhost: {host}\r\n");
    for (name, value) in &ask.headers {
        let _infallible = write!(head, "{}: {value}\r\n", name.to_ascii_lowercase());
    }
    head.push_str("connection: close\r\n\r\n");
    head.into_bytes()
}
