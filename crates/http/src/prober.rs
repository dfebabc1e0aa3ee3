//! Probers that can be identified by their requests.
//!
//! Any client can imitate a prober, so this identification must not grant access. It affects logs,
//! statistics, the reply of a health route to a probe and, if configured, rate limits.

use crate::forwarded::{Network, Networks};
use crate::{Method, Request, Version};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

macro_rules! probers {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// A program that regularly checks whether a service is available.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Prober {
            $($(#[$doc])* $name,)*
        }

        impl Prober {
            /// All probers, in the order of the enum.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// A short name of lower-case letters, digits and `-`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

probers! {
    /// Load balancers of Azure: `Load Balancer Agent`.
    Azure "azure";
    /// The exporter of Prometheus: `Blackbox Exporter/`.
    Blackbox "blackbox";
    /// Health checks of Cloudflare: `Mozilla/5.0 (compatible;Cloudflare-Healthchecks/`.
    Cloudflare "cloudflare";
    /// `Consul Health Check`.
    Consul "consul";
    /// doorbell itself: checks are `doorbell/`, the commands `doorbell-probe/` and
    /// `doorbell-healthcheck/`.
    Doorbell "doorbell";
    /// Load balancers of AWS: `ELB-HealthChecker/`.
    Elb "elb";
    /// `Envoy/HC`.
    Envoy "envoy";
    /// `Gatus/`.
    Gatus "gatus";
    /// Load balancers of Google Cloud: `GoogleHC/`.
    Google "gcp";
    /// Uptime checks of Google Cloud: `GoogleStackdriverMonitoring-UptimeChecks`.
    GoogleUptime "gcp-uptime";
    /// The command for gRPC checks of containers: `grpc_health_probe`.
    GrpcHealthProbe "grpc-health-probe";
    /// HAProxy, identified by one of: `HAProxy` as the user agent (`http-check send hdr user-agent
    /// HAProxy`); an `OPTIONS`, `GET` or `HEAD` request in HTTP/1.0 without fields (`option
    /// httpchk`); `X-Haproxy-Server-State` without a user agent.
    Haproxy "haproxy";
    /// `KeepAliveClient`.
    Keepalived "keepalived";
    /// Hooks of Kubernetes at the start and the end of a container: `kube-lifecycle/`.
    KubeLifecycle "kube-lifecycle";
    /// Kubernetes: `kube-probe/`.
    Kubelet "kubelet";
    /// The plugin of Nagios and compatible systems: `check_http/`.
    MonitoringPlugins "check-http";
    /// `Pingdom.com_bot_version_`.
    Pingdom "pingdom";
    /// Amazon Route 53: `Amazon-Route53-Health-Check-Service`.
    Route53 "route53";
    /// Any client of a TCP gate, which only connects to find out whether the port is open.
    Tcp "tcp";
    /// `Uptime-Kuma/`.
    UptimeKuma "uptime-kuma";
    /// `Mozilla/5.0+(compatible; UptimeRobot/`.
    UptimeRobot "uptime-robot";
}

/// Source address of the load balancers of Azure, for any protocol.
const AZURE: IpAddr = IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16));

/// Source networks of Google Cloud. Client traffic that its front ends forward has the same
/// sources.
const GOOGLE: [(IpAddr, u8); 4] = [
    (IpAddr::V4(Ipv4Addr::new(35, 191, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(130, 211, 0, 0)), 22),
    (IpAddr::V6(Ipv6Addr::new(0x2600, 0x2d00, 1, 1, 0, 0, 0, 0)), 64),
    (IpAddr::V6(Ipv6Addr::new(0x2600, 0x2d00, 1, 0xb029, 0, 0, 0, 0)), 64),
];

impl Prober {
    /// The prober with this source address, as published by its operator. Use this function only
    /// for requests that do not identify their sender.
    pub fn of_source(addr: IpAddr) -> Option<Self> {
        static RANGES: LazyLock<Networks> =
            LazyLock::new(|| GOOGLE.iter().filter_map(|&(addr, len)| Network::new(addr, len).ok()).collect());
        if addr.to_canonical() == AZURE {
            return Some(Self::Azure);
        }
        RANGES.contains(addr).then_some(Self::Google)
    }

    /// The prober with this `User-Agent`, in any protocol.
    pub fn of_user_agent(user_agent: &[u8]) -> Option<Self> {
        named(user_agent)
    }
}

/// The prober that sent a request, identified by its fields.
#[inline]
pub fn prober_of(request: &Request<'_>) -> Option<Prober> {
    match Requester::remembered(request) {
        Some(requester) => requester.prober,
        None => prober_with(request, request.header("user-agent")),
    }
}

/// Facts about the sender of a request that follow from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The prober, if known.
    pub prober: Option<Prober>,
    /// Whether `Accept` is missing or is `*/*`.
    pub takes_anything: bool,
}

impl Requester {
    /// Reads the facts stored with a cached head, or examines any other head.
    #[inline]
    pub fn of(request: &Request<'_>) -> Self {
        match Self::remembered(request) {
            Some(requester) => requester,
            None => Self::read(request),
        }
    }

    /// Returns the facts for a cached head, otherwise `None`. A cached head contains no other
    /// fields than `Host`, `Connection`, `Accept`, `Accept-Encoding` and `User-Agent`, and neither
    /// a query nor a body.
    #[inline(always)]
    pub fn remembered(request: &Request<'_>) -> Option<Self> {
        request.head().requester()
    }

    #[inline(never)]
    pub(crate) fn read(request: &Request<'_>) -> Self {
        let takes_anything = request.header("accept").is_none_or(|accept| accept == b"*/*");
        Self { prober: prober_with(request, request.header("user-agent")), takes_anything }
    }
}

#[inline]
pub(crate) fn prober_with(request: &Request<'_>, user_agent: Option<&[u8]>) -> Option<Prober> {
    match user_agent {
        Some(user_agent) => named(user_agent),
        None => is_nameless(request).then_some(Prober::Haproxy),
    }
}

pub(crate) fn named(user_agent: &[u8]) -> Option<Prober> {
    let (start, prober): (&[u8], Prober) = match user_agent {
        [b'A', ..] => (b"Amazon-Route53-Health-Check-Service", Prober::Route53),
        [b'B', ..] => (b"Blackbox Exporter/", Prober::Blackbox),
        [b'C', ..] => (b"Consul Health Check", Prober::Consul),
        [b'H', ..] => (b"HAProxy", Prober::Haproxy),
        [b'K', ..] => (b"KeepAliveClient", Prober::Keepalived),
        [b'E', b'L', ..] => (b"ELB-HealthChecker/", Prober::Elb),
        [b'E', ..] => (b"Envoy/HC", Prober::Envoy),
        [b'G', b'a', ..] => (b"Gatus/", Prober::Gatus),
        [b'G', b'o', b'o', b'g', b'l', b'e', b'H', ..] => (b"GoogleHC/", Prober::Google),
        [b'G', ..] => (b"GoogleStackdriverMonitoring-UptimeChecks", Prober::GoogleUptime),
        [b'L', ..] => (b"Load Balancer Agent", Prober::Azure),
        [b'M', _, _, _, _, _, _, _, _, _, _, b'+', ..] => {
            (b"Mozilla/5.0+(compatible; UptimeRobot/", Prober::UptimeRobot)
        }
        // Some documents show a space after the semicolon; the actual requests contain none.
        [b'M', rest @ ..] if rest.get(23) == Some(&b' ') => {
            (b"Mozilla/5.0 (compatible; Cloudflare-Healthchecks", Prober::Cloudflare)
        }
        [b'M', ..] => (b"Mozilla/5.0 (compatible;Cloudflare-Healthchecks", Prober::Cloudflare),
        [b'P', ..] => (b"Pingdom.com_bot_version_", Prober::Pingdom),
        [b'U', ..] => (b"Uptime-Kuma/", Prober::UptimeKuma),
        [b'c', ..] => (b"check_http/", Prober::MonitoringPlugins),
        [b'd', _, _, _, _, _, _, _, b'-', b'h', ..] => (b"doorbell-healthcheck/", Prober::Doorbell),
        [b'd', _, _, _, _, _, _, _, b'-', ..] => (b"doorbell-probe/", Prober::Doorbell),
        [b'd', ..] => (b"doorbell/", Prober::Doorbell),
        // A gRPC client without its own user agent sends that of its library, such as
        // `grpc-go/1.71.0`. It may be Consul or any other client.
        [b'g', ..] => (b"grpc_health_probe", Prober::GrpcHealthProbe),
        [b'k', b'u', b'b', b'e', b'-', b'l', ..] => (b"kube-lifecycle/", Prober::KubeLifecycle),
        [b'k', ..] => (b"kube-probe/", Prober::Kubelet),
        _ => return None,
    };
    user_agent.starts_with(start).then_some(prober)
}

/// Whether a request without a user agent was sent by HAProxy.
pub(crate) fn is_nameless(request: &Request<'_>) -> bool {
    let bare = matches!(request.method(), Method::Get | Method::Head | Method::Options)
        && request.version() == Version::Http10
        && request.headers().iter().next().is_none();
    bare || request.header("x-haproxy-server-state").is_some()
}
