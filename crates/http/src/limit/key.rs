//! The keys by which a limiter distinguishes clients.
//!
//! Does not know about: quotas, how a client's address was determined.

use std::net::IpAddr;

use super::prefix::first_bits;
use crate::Request;

/// Default number of bits of an IPv6 address that identify a client: the smallest network that a
/// provider gives to a customer (RFC 6177).
///
/// Used by every limit per address.
pub const CLIENT_V6_LEN: u8 = 64;

/// The property that identifies a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The first field with this name, which must be trusted: a client that controls it has one
    /// quota per value.
    Header(Box<str>),
    /// The address: all of IPv4; of IPv6 the bits that identify a client ([`CLIENT_V6_LEN`], or the
    /// setting of [`RateLimit::client_v6_len`](crate::layer::RateLimit::client_v6_len)).
    Ip,
    /// The first bits of the address: a client usually has at least 64 bits of IPv6 addresses.
    Prefix {
        /// Number of bits of an IPv4 address, 0 to 32.
        v4_len: u8,
        /// Number of bits of an IPv6 address, 0 to 128.
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
    // An address and a zero byte, which no field contains.
    V4([u8; 5]),
    V6([u8; 17]),
}

impl Key {
    /// The field or token of a request that serves as its key. `None` if it has none, or if clients
    /// are counted by address: then use [`Self::of_addr`].
    #[inline]
    pub fn named<'a>(&self, request: &Request<'a>) -> Option<KeyBytes<'a>> {
        let text = match self {
            Self::Header(name) => request.header(name),
            Self::Token => request.authorization().and_then(|(value, _)| bearer(value)),
            Self::Ip | Self::Prefix { .. } => None,
        };
        text.map(|text| KeyBytes(Inner::Text(text)))
    }

    /// The key of a client at this address. `v6_len` is the number of significant bits of IPv6,
    /// unless the key sets it.
    #[inline]
    pub fn of_addr(&self, client: IpAddr, v6_len: u8) -> KeyBytes<'static> {
        match self {
            Self::Prefix { v4_len, v6_len } => KeyBytes::prefix(client, *v4_len, *v6_len),
            Self::Header(_) | Self::Ip | Self::Token => KeyBytes::ip(client, v6_len),
        }
    }
}

impl KeyBytes<'_> {
    /// The common key of all clients on Unix sockets, which have no addresses. No field contains a
    /// zero byte.
    pub const UNIX: Self = Self(Inner::Text(b"\0unix"));

    /// A client by its address: all of IPv4, the first `v6_len` bits of IPv6. IPv4 inside IPv6
    /// (`::ffff:192.0.2.1`) counts as the IPv4 address.
    #[inline]
    pub fn ip(addr: IpAddr, v6_len: u8) -> Self {
        Self::prefix(addr, 32, v6_len)
    }

    /// The first bits of an address; longer lengths mean the whole address.
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

    /// The input of a limiter.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Inner::Text(text) => text,
            Inner::V4(bytes) => bytes,
            Inner::V6(bytes) => bytes,
        }
    }
}

/// The network that counts as one client: the whole IPv4 address, or the first `v6_len` bits of
/// IPv6.
#[inline]
pub fn client_net(addr: IpAddr, v6_len: u8) -> IpAddr {
    match addr.to_canonical() {
        IpAddr::V6(addr) => first_bits(addr, v6_len).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The token after `Bearer`, in any case, and spaces.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii_start();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}
