//! Options of a check by ICMP echo.
//!
//! Does not know about: how an echo is sent.

use super::address::{HostPort, Resolve};
use super::latency::LatencyRule;
use super::target::target;
use doorbell_config::Table;

/// An ICMP or ICMPv6 echo ("ping").
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct IcmpCheck {
    /// Name or address of the host. `net.ipv4.ping_group_range` must contain a group of doorbell,
    /// also for IPv6. Required.
    #[key(required = "\"192.0.2.1\"", with = host)]
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

/// Form of the host: a name or an address.
mod host {
    use super::HostPort;
    use doorbell_config::{Entry, Json, Key, Value as _};

    pub(super) fn read(entry: &Entry<'_>) -> Option<HostPort> {
        let text = entry.string()?;
        HostPort::parse_host(&text).or_else(|| {
            let help = "write a name or an address without a port, as in \"db.internal\" or \"2001:db8::1\"";
            entry.refuse("bad-value", format!("{text:?} is not a host"), help)
        })
    }

    pub(super) fn dump(host: &HostPort) -> Option<Json> {
        Some(host.host.clone().into())
    }

    pub(super) fn form(key: &Key) -> Json {
        String::form(key)
    }
}
