//! The PROXY header that load balancers send before their checks.
//!
//! The format is that of the PROXY protocol, sections 2.1 and 2.2.

use doorbell_config::Words;
use std::net::SocketAddr;

/// Kinds of PROXY headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum ProxyHeader {
    /// Version 1 with the addresses of the connection.
    V1,
    /// Version 2 with the addresses of the connection.
    V2,
    /// Version 2 without addresses (LOCAL).
    Local,
}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

impl ProxyHeader {
    /// Encodes the header of a connection. `addrs` are the source and the target of the connection;
    /// `None` for a connection without IP addresses.
    #[must_use]
    pub fn bytes(self, addrs: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
        let Some((source, target)) = addrs else {
            return match self {
                Self::V1 => b"PROXY UNKNOWN\r\n".to_vec(),
                Self::V2 | Self::Local => Self::local(),
            };
        };
        match self {
            Self::V1 => {
                let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
                let (from, to) = (source.ip(), target.ip());
                format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), target.port()).into_bytes()
            }
            Self::V2 => {
                let (family, addresses) = match (source, target) {
                    (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                        (0x11, [from.ip().octets(), to.ip().octets()].concat())
                    }
                    _ => (0x21, [source, target].map(octets_v6).concat()),
                };
                let ports = [source.port(), target.port()].map(u16::to_be_bytes).concat();
                let len = u16::try_from(addresses.len() + ports.len()).unwrap_or(u16::MAX);
                [SIGNATURE, &[0x21, family][..], &len.to_be_bytes(), &addresses, &ports].concat()
            }
            Self::Local => Self::local(),
        }
    }

    fn local() -> Vec<u8> {
        [SIGNATURE, &[0x20, 0, 0, 0][..]].concat()
    }
}

fn octets_v6(addr: SocketAddr) -> [u8; 16] {
    match addr {
        SocketAddr::V4(addr) => addr.ip().to_ipv6_mapped().octets(),
        SocketAddr::V6(addr) => addr.ip().octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let addrs = |from: &str, to: &str| Some((from.parse().unwrap(), to.parse().unwrap()));
        let v4 = addrs("192.0.2.1:513", "198.51.100.2:80");
        let v6 = addrs("[2001:db8::1]:513", "[2001:db8::2]:80");
        let mut long = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24".to_vec();
        long.extend_from_slice(
            b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02",
        );
        long.extend_from_slice(b"\x02\x01\0\x50");
        for (header, addrs, expected) in [
            (ProxyHeader::V1, None, &b"PROXY UNKNOWN\r\n"[..]),
            (ProxyHeader::V2, None, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"),
            (ProxyHeader::V1, v4, &b"PROXY TCP4 192.0.2.1 198.51.100.2 513 80\r\n"[..]),
            (ProxyHeader::V1, v6, b"PROXY TCP6 2001:db8::1 2001:db8::2 513 80\r\n"),
            (
                ProxyHeader::V2,
                v4,
                b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\x02\x01\0\x50",
            ),
            (ProxyHeader::V2, v6, &long),
            // As captured from HAProxy 2.6.
            (ProxyHeader::Local, v4, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"),
        ] {
            let found = header.bytes(addrs);
            assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{header:?}");
        }
    }
}
