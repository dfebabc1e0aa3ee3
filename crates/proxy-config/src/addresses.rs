//! The addresses of a configuration, and which of them one process can open at the same time.

use super::bind::Bind;
use super::model::Config;
use doorbell_config::At;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::{Component, PathBuf};

/// An address of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundAddr {
    /// IP address and port; port 0 lets the kernel choose.
    pub addr: SocketAddr,
    /// Whether the address is `[::]` and the socket accepts no IPv4 clients.
    pub v6_only: bool,
}

impl BoundAddr {
    /// Whether the kernel refuses a socket at one of the addresses while a socket listens at the
    /// other.
    pub fn overlaps(self, other: Self) -> bool {
        let [a, b] = [self, other].map(|bound| canonical(bound.addr));
        a.port() == b.port()
            && a.port() != 0
            && match a.is_ipv4() == b.is_ipv4() {
                true => a == b || a.ip().is_unspecified() || b.ip().is_unspecified(),
                false => [self, other].into_iter().any(Self::is_dual_stack),
            }
    }

    fn is_dual_stack(self) -> bool {
        is_v6_wildcard(self.addr) && !self.v6_only
    }
}

impl Bind {
    pub(super) fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(addr) => Some(*addr),
            Self::Fd(_) | Self::Systemd(_) | Self::Unix(_) => None,
        }
    }

    /// Whether one configuration cannot have both addresses. It can have `[::]` and an IPv4
    /// address: [`Config::bound`] then restricts `[::]` to IPv6.
    fn overlaps(&self, other: &Self) -> bool {
        match [self, other].map(Self::tcp) {
            [Some(a), Some(b)] => {
                let [a, b] = [a, b].map(|addr| BoundAddr { addr, v6_only: is_v6_wildcard(addr) });
                a.overlaps(b)
            }
            _ => self.lexical() == other.lexical(),
        }
    }

    /// The address with the shortest spelling of its path, except that links are not followed: a
    /// file is validated without reading directories.
    fn lexical(&self) -> Self {
        let Self::Unix(path) = self else { return self.clone() };
        let mut short = PathBuf::new();
        for part in path.components() {
            match part == Component::ParentDir {
                true => _ = short.pop(),
                false => short.push(part),
            }
        }
        Self::Unix(short)
    }

    /// The keys by which [`Overlaps`] finds the addresses that may overlap this one: the address
    /// itself, and the wildcard of its family and port.
    fn keys(&self) -> [Self; 2] {
        let keys = match self.tcp().map(canonical) {
            Some(addr @ SocketAddr::V4(_)) => [addr, (Ipv4Addr::UNSPECIFIED, addr.port()).into()],
            Some(addr @ SocketAddr::V6(_)) => [addr, (Ipv6Addr::UNSPECIFIED, addr.port()).into()],
            None => return [self.lexical(), self.lexical()],
        };
        keys.map(Self::Tcp)
    }
}

/// Addresses of which no two overlap, by their keys. A wildcard overlaps all addresses of its
/// family and port, so only the first of these can be one.
#[derive(Default)]
pub(super) struct Overlaps(HashMap<Bind, (Bind, Range<usize>)>);

impl Overlaps {
    /// Adds an address unless it overlaps one that was added before, which is returned.
    pub(super) fn add(&mut self, bind: &Bind, span: &Range<usize>) -> Option<&(Bind, Range<usize>)> {
        let keys = bind.keys();
        let is_known = |key: &&Bind| self.0.get(*key).is_some_and(|(first, _)| first.overlaps(bind));
        if let Some(key) = keys.iter().find(is_known) {
            return self.0.get(key);
        }
        for key in keys {
            self.0.entry(key).or_insert_with(|| (bind.clone(), span.clone()));
        }
        None
    }
}

impl fmt::Display for BoundAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families = match is_v6_wildcard(self.addr) {
            true if self.v6_only => " (only IPv6)",
            true => " (IPv4 and IPv6)",
            false => "",
        };
        write!(f, "{}{families}", self.addr)
    }
}

/// The address, converted to IPv4 if it is an IPv4-mapped IPv6 address.
fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        v4 @ IpAddr::V4(_) => (v4, addr.port()).into(),
        IpAddr::V6(_) => addr,
    }
}

fn is_v6_wildcard(addr: SocketAddr) -> bool {
    addr.is_ipv6() && addr.ip().is_unspecified()
}

/// All stream addresses except that of `[admin]`, with their positions.
pub(super) fn streams(config: &Config) -> impl Iterator<Item = (Bind, Range<usize>)> {
    let gates = config.tcp_gates.iter().flat_map(|gate| &gate.binds);
    let probes = config.blackbox.iter().flat_map(|blackbox| &blackbox.binds);
    let links = config.links.iter().flat_map(|links| &links.binds);
    let addrs = gates.chain(probes).chain(links).map(|at| (Bind::Tcp(at.value), at.span.clone()));
    workers(config).map(|at| (at.value.clone(), at.span.clone())).chain(addrs)
}

/// The stream addresses at which workers accept connections.
fn workers(config: &Config) -> impl Iterator<Item = &At<Bind>> {
    let listeners = config.listeners.iter().flat_map(|listener| &listener.binds);
    listeners.chain(config.agents.iter().flat_map(|agent| &agent.binds))
}

/// All datagram addresses, with their positions.
pub(super) fn datagrams(config: &Config) -> impl Iterator<Item = &At<SocketAddr>> {
    config.udp.iter().flat_map(|udp| &udp.binds)
}

impl Config {
    /// All TCP addresses, except an implicit admin address, which is skipped if it cannot be bound.
    pub fn tcp_addrs(&self) -> impl Iterator<Item = SocketAddr> {
        let admin = self.admin.iter().filter(|admin| !admin.is_implicit).map(|admin| admin.bind);
        streams(self).filter_map(|(bind, _)| bind.tcp()).chain(admin)
    }

    /// The TCP addresses at which workers accept connections.
    pub fn worker_addrs(&self) -> impl Iterator<Item = SocketAddr> {
        workers(self).filter_map(|at| at.value.tcp())
    }

    /// A TCP address of this configuration as it is bound: `[::]` accepts IPv4 clients unless there
    /// is also an IPv4 address with the same port.
    pub fn bound(&self, addr: SocketAddr) -> BoundAddr {
        bound_among(addr, self.tcp_addrs())
    }

    /// A UDP address of this configuration as it is bound, as in [`Self::bound`].
    pub fn bound_datagram(&self, addr: SocketAddr) -> BoundAddr {
        bound_among(addr, datagrams(self).map(|at| at.value))
    }

    /// An address that cannot be bound while the sockets of `old` are open, and the address in
    /// `old` that prevents it. An unchanged address is no conflict, because its socket is taken
    /// over.
    pub fn conflict_with(&self, old: &Self) -> Option<(BoundAddr, BoundAddr)> {
        let tcp = |config: &Self| config.tcp_addrs().map(|addr| config.bound(addr)).collect();
        let udp = |config: &Self| datagrams(config).map(|at| config.bound_datagram(at.value)).collect();
        conflict(tcp(self), tcp(old)).or_else(|| conflict(udp(self), udp(old)))
    }
}

fn bound_among(addr: SocketAddr, mut others: impl Iterator<Item = SocketAddr>) -> BoundAddr {
    let is_twin = |other: SocketAddr| canonical(other).is_ipv4() && other.port() == addr.port();
    let v6_only = is_v6_wildcard(addr) && addr.port() != 0 && others.any(is_twin);
    BoundAddr { addr, v6_only }
}

fn conflict(new: Vec<BoundAddr>, old: Vec<BoundAddr>) -> Option<(BoundAddr, BoundAddr)> {
    new.into_iter().find_map(|new| {
        let old = old.iter().find(|old| **old != new && old.overlaps(new))?;
        Some((new, *old))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, parse};

    #[test]
    fn an_ipv4_address_of_any_table_restricts_ipv6() {
        for (table, expected) in [
            ("[listener.b]\nbind = \"0.0.0.0:80\"", true),
            ("[agent.b]\nbind = \"0.0.0.0:80\"", true),
            ("[tcp_gate.b]\nbind = \"127.0.0.1:80\"", true),
            ("[blackbox]\ntargets = \"10.0.0.0/8\"\nbind = \"0.0.0.0:80\"", true),
            ("[admin]\nbind = \"127.0.0.1:80\"", true),
            ("[listener.b]\nbind = \"[::ffff:127.0.0.1]:80\"", true),
            ("[listener.b]\nbind = \"0.0.0.0:81\"", false),
            ("[agent.b]\nbind = \"unix:/run/b\"", false),
            ("[udp.b]\nbind = \"0.0.0.0:80\"", false),
        ] {
            let text = format!(
                "version = 1\n[health.readyz]\nrequire = []\n[listener.a]\nbind = \"[::]:80\"\n{table}\n"
            );
            let parsed = parse(&Source { name: "f".into(), text }, &|_| None);
            let config = parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems));
            assert_eq!(config.bound("[::]:80".parse().unwrap()).v6_only, expected, "{table}");
        }
    }

    #[test]
    fn only_a_dual_stack_wildcard_overlaps_the_other_family() {
        let bound = |text: &str| {
            let (addr, v6_only) = text.strip_suffix(" only").map_or((text, false), |addr| (addr, true));
            BoundAddr { addr: addr.parse().unwrap(), v6_only }
        };
        for (a, b, expected) in [
            ("0.0.0.0:80", "0.0.0.0:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "127.0.0.1:81", false),
            ("[::]:80", "[::1]:80", true),
            ("[::]:80 only", "[::1]:80", true),
            ("[::]:80", "[::]:80 only", true),
            ("[::]:80", "0.0.0.0:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80 only", "0.0.0.0:80", false),
            ("[::]:80 only", "[::ffff:127.0.0.1]:80", false),
            ("[::1]:80", "0.0.0.0:80", false),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
            ("[::ffff:127.0.0.1]:80", "0.0.0.0:80", true),
            ("[fe80::1%1]:80", "[fe80::1%2]:80", false),
        ] {
            assert_eq!(bound(a).overlaps(bound(b)), expected, "{a} {b}");
            assert_eq!(bound(b).overlaps(bound(a)), expected, "{b} {a}");
        }
    }

    #[test]
    fn spellings_of_a_path_are_one_address() {
        for (other, expected) in [
            ("unix:/run/a/../d.sock", true),
            ("unix:/../run/d.sock", true),
            ("unix://run/./d.sock", true),
            ("unix:/run/../d.sock", false),
            ("unix:/run/..d.sock", false),
        ] {
            let [bind, other] = ["unix:/run/d.sock", other].map(|text| text.parse::<Bind>().unwrap());
            assert_eq!(bind.overlaps(&other), expected, "{other}");
        }
    }

    #[test]
    fn overlaps_are_those_of_a_comparison_with_each_address() {
        let texts = [
            "0.0.0.0:80",
            "127.0.0.1:80",
            "127.0.0.2:80",
            "127.0.0.1:81",
            "[::]:80",
            "[::1]:80",
            "[::2]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:0.0.0.0]:80",
            "0.0.0.0:0",
            "127.0.0.1:0",
            "unix:/a",
            "unix:/b",
            "unix:/../c/..//./a",
        ];
        let binds: Vec<Bind> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let count = binds.len();
        for order in 0..count.pow(4) {
            let order = [0, 1, 2, 3].map(|at| &binds[order / count.pow(at) % count]);
            let (mut overlaps, mut known) = (Overlaps::default(), Vec::<&Bind>::new());
            for bind in order {
                let expected = known.iter().copied().find(|first| first.overlaps(bind));
                assert_eq!(overlaps.add(bind, &(0..0)).map(|(first, _)| first), expected, "{order:?}");
                if expected.is_none() {
                    known.push(bind);
                }
            }
        }
    }
}
