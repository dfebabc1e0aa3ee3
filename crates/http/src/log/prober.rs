//! The probers that can be told by what they send.
//!
//! Does not know about: routes. Anybody can send the same, so this decides about nothing but what is worth a line.

use crate::{Method, Request, Version};

macro_rules! probers {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// A program that asks again and again whether a service is there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Prober {
            $($(#[$doc])* $name,)*
        }

        impl Prober {
            /// Every prober, in the order of the enum.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// A short name, of lower-case letters, digits and `-`.
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
    Azure "azure-lb";
    /// The exporter of Prometheus: `Blackbox Exporter/`.
    Blackbox "blackbox";
    /// `Consul Health Check`.
    Consul "consul";
    /// Load balancers of AWS: `ELB-HealthChecker/`.
    Elb "elb";
    /// `Envoy/HC`.
    Envoy "envoy";
    /// `Gatus/`.
    Gatus "gatus";
    /// Load balancers of Google Cloud: `GoogleHC/`.
    Google "google-hc";
    /// Uptime checks of Google Cloud: `GoogleStackdriverMonitoring-UptimeChecks`.
    GoogleUptime "google-uptime";
    /// `OPTIONS` in HTTP/1.0 without a field, or `X-Haproxy-Server-State` without a user agent.
    Haproxy "haproxy";
    /// Kubernetes: `kube-probe/`.
    Kubelet "kubelet";
    /// The plugin of Nagios and its like: `check_http/`.
    MonitoringPlugins "check-http";
    /// `Pingdom.com_bot_version_`.
    Pingdom "pingdom";
    /// Amazon Route 53: `Amazon-Route53-Health-Check-Service`.
    Route53 "route53";
    /// `Uptime-Kuma/`.
    UptimeKuma "uptime-kuma";
    /// `Mozilla/5.0+(compatible; UptimeRobot/`.
    UptimeRobot "uptime-robot";
}

/// The prober that sends such requests, by `User-Agent`.
#[inline]
pub fn prober_of(request: &Request<'_>) -> Option<Prober> {
    prober_with(request, request.header("user-agent"))
}

#[inline]
pub(super) fn prober_with(request: &Request<'_>, user_agent: Option<&[u8]>) -> Option<Prober> {
    match user_agent {
        Some(user_agent) => named(user_agent),
        None => is_nameless(request).then_some(Prober::Haproxy),
    }
}

pub(super) fn named(user_agent: &[u8]) -> Option<Prober> {
    let (start, prober): (&[u8], Prober) = match user_agent {
        [b'A', ..] => (b"Amazon-Route53-Health-Check-Service", Prober::Route53),
        [b'B', ..] => (b"Blackbox Exporter/", Prober::Blackbox),
        [b'C', ..] => (b"Consul Health Check", Prober::Consul),
        [b'E', b'L', ..] => (b"ELB-HealthChecker/", Prober::Elb),
        [b'E', ..] => (b"Envoy/HC", Prober::Envoy),
        [b'G', b'a', ..] => (b"Gatus/", Prober::Gatus),
        [b'G', b'o', b'o', b'g', b'l', b'e', b'H', ..] => (b"GoogleHC/", Prober::Google),
        [b'G', ..] => (b"GoogleStackdriverMonitoring-UptimeChecks", Prober::GoogleUptime),
        [b'L', ..] => (b"Load Balancer Agent", Prober::Azure),
        [b'M', ..] => (b"Mozilla/5.0+(compatible; UptimeRobot/", Prober::UptimeRobot),
        [b'P', ..] => (b"Pingdom.com_bot_version_", Prober::Pingdom),
        [b'U', ..] => (b"Uptime-Kuma/", Prober::UptimeKuma),
        [b'c', ..] => (b"check_http/", Prober::MonitoringPlugins),
        [b'k', ..] => (b"kube-probe/", Prober::Kubelet),
        _ => return None,
    };
    user_agent.starts_with(start).then_some(prober)
}

/// Whether it is HAProxy, of the requests without a user agent.
pub(super) fn is_nameless(request: &Request<'_>) -> bool {
    let bare = request.method() == Method::Options
        && request.version() == Version::Http10
        && request.headers().iter().next().is_none();
    bare || request.header("x-haproxy-server-state").is_some()
}
