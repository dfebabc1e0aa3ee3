//! Owns the kernel's layout of addresses and of the control data with a destination or source
//! address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::{CONTROL_LEN, NAME_LEN};

/// Alignment of control messages (cmsg(3)).
const ALIGN: usize = size_of::<usize>();
/// Bytes of `struct cmsghdr`: a length, a level and a type.
const HEAD_LEN: usize = (ALIGN + 2 * size_of::<i32>()).next_multiple_of(ALIGN);

/// Bytes in a buffer of a fixed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoded<const MAX: usize> {
    pub(super) bytes: [u8; MAX],
    pub(super) len: usize,
}

impl<const MAX: usize> Encoded<MAX> {
    const EMPTY: Self = Self { bytes: [0; MAX], len: 0 };

    #[inline]
    fn put(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }
}

/// Reads `struct sockaddr_in` or `struct sockaddr_in6`.
#[inline]
pub(super) fn peer(name: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*name.first_chunk()?));
    let port = u16::from_be_bytes(*name.get(2..)?.first_chunk()?);
    match family {
        libc::AF_INET => {
            let octets: [u8; 4] = *name.get(4..)?.first_chunk()?;
            Some(SocketAddr::new(Ipv4Addr::from(octets).into(), port))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = *name.get(8..)?.first_chunk()?;
            let scope = u32::from_ne_bytes(*name.get(24..)?.first_chunk()?);
            let ip = Ipv6Addr::from(octets);
            Some(match ip.to_ipv4_mapped() {
                Some(ip) => SocketAddr::new(ip.into(), port),
                None => SocketAddrV6::new(ip, port, 0, scope).into(),
            })
        }
        _ => None,
    }
}

/// Finds the destination address in control data.
#[inline]
pub(super) fn local(mut control: &[u8]) -> Option<IpAddr> {
    loop {
        let len = usize::from_ne_bytes(*control.first_chunk()?);
        let level = i32::from_ne_bytes(*control.get(ALIGN..)?.first_chunk()?);
        let kind = i32::from_ne_bytes(*control.get(ALIGN + 4..)?.first_chunk()?);
        let data = control.get(HEAD_LEN..len)?;
        match (level, kind) {
            // `ipi_spec_dst`: the destination or, for a broadcast, the local address, because a
            // reply cannot have a broadcast address as its source.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let octets: [u8; 4] = *data.get(4..)?.first_chunk()?;
                return Some(Ipv4Addr::from(octets).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let octets: [u8; 16] = *data.first_chunk()?;
                return Some(IpAddr::from(octets).to_canonical());
            }
            _ => control = control.get(len.next_multiple_of(ALIGN)..)?,
        }
    }
}

/// Writes the address of a receiver, for an IPv6 socket if `is_v6` is true, otherwise for an IPv4
/// socket.
#[inline]
pub(super) fn encode_peer(peer: SocketAddr, is_v6: bool) -> Encoded<NAME_LEN> {
    let mut name = Encoded::EMPTY;
    let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
    name.put(&u16::try_from(family).unwrap_or_default().to_ne_bytes());
    name.put(&peer.port().to_be_bytes());
    match (peer, is_v6) {
        (SocketAddr::V4(v4), false) => {
            name.put(&v4.ip().octets());
            name.put(&[0; 8]);
        }
        (_, _) => {
            name.put(&[0; 4]);
            name.put(&mapped(peer.ip()).octets());
            let scope = if let SocketAddr::V6(v6) = peer { v6.scope_id() } else { 0 };
            name.put(&scope.to_ne_bytes());
        }
    }
    name
}

/// Writes control data with a source address, for an IPv6 socket if `is_v6` is true, otherwise for
/// an IPv4 socket.
#[inline]
pub(super) fn encode_local(local: Option<IpAddr>, is_v6: bool) -> Encoded<CONTROL_LEN> {
    let mut control = Encoded::EMPTY;
    let Some(local) = local else { return control };
    let (level, kind, data_len) = if is_v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>())
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>())
    };
    control.put(&(HEAD_LEN + data_len).to_ne_bytes());
    control.put(&level.to_ne_bytes());
    control.put(&kind.to_ne_bytes());
    match (local, is_v6) {
        (IpAddr::V4(local), false) => {
            // The interface 0: the kernel chooses the route.
            control.put(&[0; 4]);
            control.put(&local.octets());
            control.put(&[0; 4]);
        }
        (local, _) => {
            control.put(&mapped(local).octets());
            control.put(&[0; 4]);
        }
    }
    control.len = (HEAD_LEN + data_len).next_multiple_of(ALIGN);
    control
}

/// The address in the form of a dual-stack socket: IPv4 addresses are mapped to IPv6.
const fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_survive_in_both_families() {
        for (text, is_v6) in [("192.0.2.1:53", false), ("192.0.2.1:53", true), ("[2001:db8::1]:65535", true)]
        {
            let name = encode_peer(both(text), is_v6);
            assert_eq!(peer(&name.bytes[..name.len]), Some(both(text)), "{text}");
            let expected = if is_v6 { 28 } else { 16 };
            assert_eq!(name.len, expected);
        }
        let scoped = SocketAddr::from(SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 7));
        assert_eq!(peer(&encode_peer(scoped, true).bytes), Some(scoped));
    }

    #[test]
    fn a_destination_is_found_behind_other_options_and_none_is_invented() {
        for (text, is_v6) in [("192.0.2.1", false), ("192.0.2.1", true), ("2001:db8::1", true)] {
            let ip: IpAddr = text.parse().unwrap();
            let control = encode_local(Some(ip), is_v6);
            let control = &control.bytes[..control.len];
            assert_eq!(local(control), Some(ip), "{text}");
            let other: Vec<u8> = [
                &(HEAD_LEN + 4).to_ne_bytes()[..],
                &libc::SOL_SOCKET.to_ne_bytes(),
                &libc::SO_TIMESTAMP.to_ne_bytes(),
                &[0; 8],
            ]
            .concat();
            assert_eq!(local(&[&other, control].concat()), Some(ip), "{text}");
        }
        assert_eq!(local(&[]), None);
        assert_eq!(local(&[0; 64]), None, "a length of zero");
        assert_eq!(local(&[0xff; 64]), None);
        assert_eq!(encode_local(None, true).len, 0);
    }

    #[test]
    fn foreign_or_cut_addresses_are_none() {
        assert_eq!(peer(&[]), None);
        assert_eq!(peer(&[0; 28]), None);
        let name = encode_peer(both("[2001:db8::1]:1"), true);
        assert_eq!(peer(&name.bytes[..20]), None);
    }
}
