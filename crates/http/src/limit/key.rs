//! What a limiter tells clients apart by.
//!
//! Does not know about: quotas, how a client's address was found.

use std::net::IpAddr;

use super::prefix::first_bits;
use crate::Request;

/// Bits of an IPv6 address that are one client unless something else is asked for: the smallest network
/// that a provider gives to a customer (RFC 6177). Every limit by address counts by it.
pub const CLIENT_V6_LEN: u8 = 64;

/// What makes two requests the same client's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The first field with this name, which has to be trusted: whoever can choose it has as many quotas as values.
    Header(Box<str>),
    /// The address: all of IPv4; of IPv6 as many bits as are one client ([`CLIENT_V6_LEN`], or what
    /// [`RateLimit::client_v6_len`](crate::layer::RateLimit::client_v6_len) says).
    Ip,
    /// The first bits of the address: a client usually has 64 bits of IPv6 addresses to itself, or more.
    Prefix {
        /// Bits of an IPv4 address, 0 to 32.
        v4_len: u8,
        /// Bits of an IPv6 address, 0 to 128.
        v6_len: u8,
    },
    /// The bearer token (RFC 6750).
    Token,
}

/// The bytes of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyBytes<'a>(Inner<'a>);

#[derive(Clone, Copy, Debug)]
enum Inner<'a> {
    Text(&'a [u8]),
    // An address, and a zero byte, which no field has.
    V4([u8; 5]),
    V6([u8; 17]),
}

impl Key {
    /// The field or the token of a request that is named here. `None` where it has none, or where clients are told apart by their
    /// addresses: [`Self::of_addr`] is what is left then.
    #[inline]
    pub fn named<'a>(&self, request: &Request<'a>) -> Option<KeyBytes<'a>> {
        let text = match self {
            Self::Header(name) => request.header(name),
            Self::Token => request.authorization().and_then(|(value, _)| bearer(value)),
            Self::Ip | Self::Prefix { .. } => None,
        };
        text.map(|text| KeyBytes(Inner::Text(text)))
    }

    /// The key of a client at this address, of which `v6_len` bits count if it is one of IPv6 and nothing else is said here.
    #[inline]
    pub fn of_addr(&self, client: IpAddr, v6_len: u8) -> KeyBytes<'static> {
        match self {
            Self::Prefix { v4_len, v6_len } => KeyBytes::prefix(client, *v4_len, *v6_len),
            Self::Header(_) | Self::Ip | Self::Token => KeyBytes::ip(client, v6_len),
        }
    }
}

impl KeyBytes<'_> {
    /// All clients on Unix sockets together, which have no addresses. A zero byte is in no field.
    pub const UNIX: Self = Self(Inner::Text(b"\0unix"));

    /// A client by its address: all of IPv4, the first `v6_len` bits of IPv6. An address that is IPv4
    /// inside IPv6 (`::ffff:192.0.2.1`) is the IPv4 address.
    #[inline]
    pub fn ip(addr: IpAddr, v6_len: u8) -> Self {
        Self::prefix(addr, 32, v6_len)
    }

    /// The first bits of an address; lengths beyond the address mean all of it.
    #[inline]
    pub fn prefix(addr: IpAddr, v4_len: u8, v6_len: u8) -> Self {
        match addr.to_canonical() {
            IpAddr::V4(addr) => {
                let mask = u32::MAX.checked_shl(32u32.saturating_sub(v4_len.into())).unwrap_or(0);
                let [a, b, c, d] = (addr.to_bits() & mask).to_be_bytes();
                Self(Inner::V4([a, b, c, d, 0]))
            }
            IpAddr::V6(addr) => {
                let mut bytes = [0; 17];
                bytes.iter_mut().zip(first_bits(addr, v6_len).octets()).for_each(|(to, from)| *to = from);
                Self(Inner::V6(bytes))
            }
        }
    }

    /// What a limiter takes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Inner::Text(text) => text,
            Inner::V4(bytes) => bytes,
            Inner::V6(bytes) => bytes,
        }
    }
}

/// What counts as one client by its address: all of IPv4, the network of the first `v6_len` bits of IPv6.
#[inline]
pub fn client_net(addr: IpAddr, v6_len: u8) -> IpAddr {
    match addr.to_canonical() {
        IpAddr::V6(addr) => first_bits(addr, v6_len).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// What follows `Bearer` and spaces; the scheme is in any case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii_start();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}
