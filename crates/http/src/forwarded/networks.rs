//! Sets of addresses in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network: `10.0.0.0/8`, `2001:db8::/32`, or a single address.
///
/// A network inside `::ffff:0:0/96` stands for the IPv4 network it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    addr: IpAddr,
    len: u8,
}

/// The reason why a text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NetworkError {
    /// The text before the slash is not an address.
    BadAddress,
    /// The text after the slash is not a decimal number up to this maximum.
    BadLength(u8),
    /// The address has bits set after the prefix. Contains the network that was probably intended.
    HostBits(Network),
}

/// A set of networks, stored as sorted ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

/// First and last value of each range; the ranges are sorted and disjoint.
type Ranges<T> = Box<[(T, T)]>;

impl Network {
    /// Creates the network of the first `len` bits of an address.
    ///
    /// # Errors
    ///
    /// `len` exceeds the length of the address, or the address has bits set after the prefix.
    pub fn new(addr: IpAddr, len: u8) -> Result<Self, NetworkError> {
        let len_max = if addr.is_ipv4() { 32 } else { 128 };
        if len > len_max {
            return Err(NetworkError::BadLength(len_max));
        }
        let (first, _) = ends(addr, len);
        let inner = match (first, first.to_canonical()) {
            (IpAddr::V6(_), IpAddr::V4(v4)) if len >= 96 => Self { addr: v4.into(), len: len - 96 },
            _ => Self { addr: first, len },
        };
        if first == addr { Ok(inner) } else { Err(NetworkError::HostBits(inner)) }
    }
}

impl Networks {
    /// Whether the set contains the address. An IPv4 address inside IPv6 counts only as IPv4.
    #[inline]
    pub fn contains(&self, addr: IpAddr) -> bool {
        match addr.to_canonical() {
            IpAddr::V4(addr) => is_within(&self.v4, addr.to_bits()),
            IpAddr::V6(addr) => is_within(&self.v6, addr.to_bits()),
        }
    }

    /// Whether the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Parses each text as a network.
    ///
    /// # Errors
    ///
    /// The position of the first invalid text, and its error.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, (usize, NetworkError)> {
        let read = |(index, text): (usize, &str)| text.parse::<Network>().map_err(|error| (index, error));
        texts.into_iter().enumerate().map(read).collect()
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match ends(network.addr, network.len) {
                (IpAddr::V4(first), IpAddr::V4(last)) => v4.push((first.to_bits(), last.to_bits())),
                (IpAddr::V6(first), IpAddr::V6(last)) => v6.push((first.to_bits(), last.to_bits())),
                _ => {}
            }
        }
        Self { v4: joined(v4), v6: joined(v6) }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (addr, len) = text.split_once('/').map_or((text, None), |(addr, len)| (addr, Some(len)));
        let addr: IpAddr = addr.parse().map_err(|_| NetworkError::BadAddress)?;
        let len_max = if addr.is_ipv4() { 32 } else { 128 };
        let Some(len) = len else { return Self::new(addr, len_max) };
        let strict = !len.starts_with('+') && (len == "0" || !len.starts_with('0'));
        let len = len.parse().ok().filter(|_| strict).ok_or(NetworkError::BadLength(len_max))?;
        Self::new(addr, len)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadAddress => f.write_str("not an IP address before the prefix length"),
            Self::BadLength(max) => write!(f, "the prefix length is not a number from 0 to {max}"),
            Self::HostBits(network) => {
                write!(f, "the address has bits after the prefix; the network is {network}")
            }
        }
    }
}

impl std::error::Error for NetworkError {}

/// First and last address of a network.
fn ends(addr: IpAddr, len: u8) -> (IpAddr, IpAddr) {
    match addr {
        IpAddr::V4(addr) => {
            let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            let bits = addr.to_bits();
            (Ipv4Addr::from_bits(bits & !host).into(), Ipv4Addr::from_bits(bits | host).into())
        }
        IpAddr::V6(addr) => {
            let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            let bits = addr.to_bits();
            (Ipv6Addr::from_bits(bits & !host).into(), Ipv6Addr::from_bits(bits | host).into())
        }
    }
}

/// Sorts the ranges and removes those inside others. Networks are either disjoint or nested.
fn joined<T: Ord + Copy>(mut ranges: Vec<(T, T)>) -> Ranges<T> {
    ranges.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    ranges.dedup_by(|later, earlier| later.1 <= earlier.1);
    ranges.into_boxed_slice()
}

#[inline]
fn is_within<T: Ord + Copy>(ranges: &[(T, T)], value: T) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= value);
    after.checked_sub(1).and_then(|index| ranges.get(index)).is_some_and(|&(_, last)| value <= last)
}
