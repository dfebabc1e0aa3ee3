//! The network part of an IPv6 address.

use std::net::Ipv6Addr;

/// Keeps the first `len` bits of an address and clears the others. A larger `len` keeps all bits.
#[inline]
pub(super) fn first_bits(addr: Ipv6Addr, len: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128u32.saturating_sub(len.into())).unwrap_or(0);
    Ipv6Addr::from_bits(addr.to_bits() & mask)
}
