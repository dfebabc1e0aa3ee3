//! Addresses of sockets, as configured and as bound.

use doorbell_proxy_config::BoundAddr;
use doorbell_proxy_config::model::Config;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, getsockname, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

/// The address of a listener or agent as it is bound. Without IPv6, `[::]` is replaced by all IPv4
/// addresses, so that an address such as `:8080` also works there.
pub(super) fn for_workers(addr: SocketAddr, config: &Config) -> BoundAddr {
    match addr.ip() {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) if !has_ipv6() => {
            BoundAddr { addr: (Ipv4Addr::UNSPECIFIED, addr.port()).into(), v6_only: false }
        }
        _ => config.bound(addr),
    }
}

/// Whether the kernel supports IPv6.
fn has_ipv6() -> bool {
    let socket = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None);
    !matches!(socket, Err(Errno::AFNOSUPPORT))
}

/// The address of a TCP socket; `None` for a socket of another kind.
pub(super) fn of(socket: &impl AsFd) -> Option<BoundAddr> {
    let addr = SocketAddr::try_from(getsockname(socket).ok()?).ok()?;
    let is_wildcard = addr.is_ipv6() && addr.ip().is_unspecified();
    Some(BoundAddr { addr, v6_only: is_wildcard && sockopt::ipv6_v6only(socket).ok()? })
}
