//! Options of a check by ICMP echo.

use super::address::{HostPort, Resolve};
use super::latency::LatencyRule;
use super::target::target;
use doorbell_config::Table;

/// An ICMP or ICMPv6 echo ("ping").
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct IcmpCheck {
    /// Name or address of the host. `net.ipv4.ping_group_range` must contain a group of doorbell,
    /// also for IPv6. Required.
    #[key(required = "\"192.0.2.1\"")]
    pub host: HostPort,
    /// Bytes of content of the request, which the reply must repeat. Requests that are longer than
    /// the MTU are sent in fragments.
    #[key(default = 56, range = 8..=65_507)]
    pub size: u32,
    /// Maximum number of hops to the host: TTL, or hop limit of IPv6. Default: that of the system.
    #[key(range = 1..=255)]
    pub max_hops: Option<u8>,
    /// Number of times that the request is sent, spread evenly over `timeout`, until a reply
    /// arrives.
    #[key(default = 1, range = 1..=10)]
    pub sends: u32,
    /// Limits on the latency.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

target!(check: IcmpCheck, check.host.remote());

impl IcmpCheck {
    /// One echo of 56 bytes. The port of `host` is ignored.
    #[must_use]
    pub fn new(host: HostPort) -> Self {
        Self { host, ..Self::default() }
    }
}
