//! The keys by which a limiter distinguishes clients.

use std::net::IpAddr;

use super::prefix::first_bits;
use crate::Request;

/// Default number of bits of an IPv6 address that identify a client: the length of the smallest
/// network that a provider assigns to a customer (RFC 6177).
///
/// Used by every limit that counts by address.
pub const CLIENT_V6_LEN: u8 = 64;

/// The property that identifies a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Key {
    /// The first field with this name. The field must be trusted: a client that controls it has one
    /// quota for each value.
    Header(Box<str>),
    /// The address. All bits of an IPv4 address count. Of an IPv6 address, only the bits that
    /// identify a client count ([`CLIENT_V6_LEN`], or the setting of
    /// [`RateLimit::client_v6_len`](crate::layer::RateLimit::client_v6_len)).
    Ip,
    /// The first bits of the address, because a client can usually choose at least 64 bits of its
    /// IPv6 address.
    Prefix {
        /// Number of bits of an IPv4 address, 0 to 32.
        v4_len: u8,
        /// Number of bits of an IPv6 address, 0 to 128.
        v6_len: u8,
    },
    /// The bearer token (RFC 6750).
    Token,
}

/// The key of one client, as the bytes that a limiter hashes.
#[derive(Clone, Copy, Debug)]
pub struct KeyBytes<'a>(Inner<'a>);

#[derive(Clone, Copy, Debug)]
enum Inner<'a> {
    Text(&'a [u8]),
    // An address is followed by a zero byte, which no field contains.
    V4([u8; 5]),
    V6([u8; 17]),
}

impl Key {
    /// The field or token that is the key of this request. `None` if the request has neither, or if
    /// requests are counted by address; use [`Self::of_addr`] then.
    #[inline]
    pub fn named<'a>(&self, request: &Request<'a>) -> Option<KeyBytes<'a>> {
        let text = match self {
            Self::Header(name) => request.header(name),
            Self::Token => request.authorization().and_then(|(value, _)| bearer(value)),
            Self::Ip | Self::Prefix { .. } => None,
        };
        text.map(|text| KeyBytes(Inner::Text(text)))
    }

    /// The key of a client with this address. `v6_len` is the number of significant bits of an IPv6
    /// address, unless the key sets it.
    #[inline]
    pub fn of_addr(&self, client: IpAddr, v6_len: u8) -> KeyBytes<'static> {
        match self {
            Self::Prefix { v4_len, v6_len } => KeyBytes::prefix(client, *v4_len, *v6_len),
            Self::Header(_) | Self::Ip | Self::Token => KeyBytes::ip(client, v6_len),
        }
    }
}

impl KeyBytes<'_> {
    /// The common key of all clients on Unix sockets, which have no address. It contains a zero
    /// byte, so that it equals no field.
    pub const UNIX: Self = Self(Inner::Text(b"\0unix"));

    /// The key for an address: all of an IPv4 address, the first `v6_len` bits of an IPv6 address.
    /// An IPv4 address inside IPv6 (`::ffff:192.0.2.1`) counts as IPv4.
    #[inline]
    pub fn ip(addr: IpAddr, v6_len: u8) -> Self {
        Self::prefix(addr, 32, v6_len)
    }

    /// The key for the first bits of an address. A length beyond the address means the whole
    /// address.
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

    /// The bytes that a limiter hashes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Inner::Text(text) => text,
            Inner::V4(bytes) => bytes,
            Inner::V6(bytes) => bytes,
        }
    }
}

/// The network that counts as one client: the IPv4 address itself, or the first `v6_len` bits of an
/// IPv6 address.
#[inline]
pub fn client_net(addr: IpAddr, v6_len: u8) -> IpAddr {
    match addr.to_canonical() {
        IpAddr::V6(addr) => first_bits(addr, v6_len).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The token after `Bearer` (case-insensitive) and spaces.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii_start();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}
