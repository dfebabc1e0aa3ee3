//! The client behind proxies, from `X-Forwarded-For` or `Forwarded` (RFC 7239). The fields are
//! trusted only if they come from configured networks.
//!
//! Entry points: [`Networks`], [`TrustedProxies::origin_of`].
//!
//! Each proxy appends the address of its peer at the right end. The search therefore goes from
//! right to left over all lines of the field, as long as the elements were added by trusted
//! proxies. The first address that is not a trusted proxy is the client. Elements to the left of it
//! were sent by that client and cannot be trusted. If an element is malformed or hides the address,
//! the search ends, and the previously found address is used.
//!
//! Each element of `Forwarded` contains the scheme of its hop, so the scheme is taken from the
//! element of the client. The elements of `X-Forwarded-Proto` cannot be matched with those of
//! `X-Forwarded-For`: some proxies append an element, most replace the field, and some pass it on
//! unchanged. If the nearest proxy writes the field, only the last element is certain not to come
//! from the client.

mod element;
mod networks;
#[cfg(test)]
mod tests;

pub use networks::{Network, NetworkError, Networks};

use crate::Request;
use crate::scheme::Scheme;
use std::net::IpAddr;

/// Maximum number of elements to examine.
pub const HOPS_MAX: u8 = 16;

/// The field written by the proxies.
///
/// Only one of these fields is used, because proxies pass the other one on unchanged from the
/// client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForwardedFrom {
    /// `Forwarded`, including its `proto=`.
    Forwarded,
    /// `X-Forwarded-For` and `X-Forwarded-Proto`. The default, because nearly all proxies write
    /// these.
    #[default]
    XForwardedFor,
}

/// Trusted proxies and the field they write.
#[derive(Clone, Debug)]
pub struct TrustedProxies {
    /// Addresses of the proxies.
    pub networks: Networks,
    /// The field written by the proxies.
    pub from: ForwardedFrom,
    /// Maximum number of elements to examine, at most [`HOPS_MAX`]: the number of proxies in the
    /// longest chain, because each proxy adds one element. If the limit is reached, the last
    /// address found is used as the client.
    pub hops_max: u8,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The client's address. An IPv4 address inside IPv6 is converted to IPv4.
    pub addr: IpAddr,
    /// The scheme that a trusted proxy reported. With `Forwarded`, it is the scheme of the connection
    /// between the client and the first trusted proxy. With `X-Forwarded-Proto`, it is the last
    /// element, which the nearest proxy reported.
    pub scheme: Option<Scheme>,
}

impl TrustedProxies {
    /// Creates a set of proxies that write the field `from`, with the maximum number of hops.
    pub const fn new(networks: Networks, from: ForwardedFrom) -> Self {
        Self { networks, from, hops_max: HOPS_MAX }
    }

    /// The client of a request whose connection comes from `peer`.
    pub fn origin_of(&self, request: &Request<'_>, peer: IpAddr) -> Origin {
        let direct = Origin { addr: peer.to_canonical(), scheme: None };
        if !self.networks.contains(peer) {
            return direct;
        }
        match self.from {
            ForwardedFrom::Forwarded => {
                let lines = Lines::of(request, "forwarded");
                self.walk(
                    direct,
                    lines.rightmost_first().flat_map(element::rightmost_first),
                    element::forwarded,
                )
            }
            ForwardedFrom::XForwardedFor => {
                let lines = Lines::of(request, "x-forwarded-for");
                let elements =
                    lines.rightmost_first().flat_map(|line| line.rsplit(|&byte| byte == b',').map(Some));
                let scheme = last_scheme(&Lines::of(request, "x-forwarded-proto"));
                let read = |element: &[u8]| Some(Origin { addr: element::addr(element)?, scheme });
                self.walk(Origin { scheme, ..direct }, elements, read)
            }
        }
    }

    fn walk<'a>(
        &self,
        mut origin: Origin,
        elements: impl Iterator<Item = Option<&'a [u8]>>,
        read: impl Fn(&[u8]) -> Option<Origin>,
    ) -> Origin {
        for element in elements.take(self.hops_max.min(HOPS_MAX).into()) {
            let Some(element) = element.map(<[u8]>::trim_ascii) else { return origin };
            if element.is_empty() {
                // A list may contain empty elements (RFC 9110 5.6.1).
                continue;
            }
            let Some(found) = read(element) else { return origin };
            origin = found;
            if !self.networks.contains(origin.addr) {
                return origin;
            }
        }
        origin
    }
}

/// The last lines of a field, as many as can contain elements to examine.
struct Lines<'a> {
    ring: [&'a [u8]; HOPS_MAX as usize],
    count: usize,
}

impl<'a> Lines<'a> {
    fn of(request: &Request<'a>, name: &str) -> Self {
        let mut lines = Self { ring: [b""; HOPS_MAX as usize], count: 0 };
        for (found, value) in request.headers() {
            if found.eq_ignore_ascii_case(name.as_bytes()) {
                let place = lines.count % lines.ring.len();
                if let Some(line) = lines.ring.get_mut(place) {
                    *line = value;
                }
                lines.count += 1;
            }
        }
        lines
    }

    fn rightmost_first(&self) -> impl Iterator<Item = &'a [u8]> {
        let first = self.count.saturating_sub(self.ring.len());
        (first..self.count).rev().filter_map(|index| self.ring.get(index % self.ring.len()).copied())
    }
}

/// The scheme in the last element. Elements before it may come from the client.
fn last_scheme(lines: &Lines<'_>) -> Option<Scheme> {
    let line = lines.rightmost_first().next()?;
    element::scheme(line.rsplit(|&byte| byte == b',').next()?.trim_ascii())
}
