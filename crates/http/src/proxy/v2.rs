//! Version 2: 16 fixed bytes, addresses, TLVs.

use super::{Header, Parsed, ProxyError, Version, agrees, crc32c};
use std::net::{IpAddr, SocketAddr};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED_LEN: usize = 16;
const CHECKSUM: u8 = 0x03;

pub(super) fn parse(bytes: &[u8], len_max: usize) -> Result<Parsed, ProxyError> {
    if !agrees(bytes, SIGNATURE) {
        return Ok(Parsed::NotProxy);
    }
    let version_command = bytes.get(12).copied();
    let local = match version_command {
        Some(0x20) => true,
        Some(0x21) | None => false,
        Some(0x22..=0x2f) => return Err(ProxyError::BadCommand),
        Some(_) => return Err(ProxyError::BadVersion),
    };
    // The family of a LOCAL header is ignored.
    let family = match bytes.get(13) {
        Some(&byte) if !local => Family::of(byte)?,
        _ => Family::Unnamed,
    };
    let Some(&[high, low]) = bytes.get(14..FIXED_LEN) else {
        return Ok(Parsed::Incomplete { len_min: FIXED_LEN });
    };
    let len = FIXED_LEN + usize::from(u16::from_be_bytes([high, low]));
    if len > len_max {
        return Err(ProxyError::TooLong);
    }
    if len < FIXED_LEN + family.addresses_len() {
        return Err(ProxyError::AddressesTooShort);
    }
    let Some(header) = bytes.get(..len) else { return Ok(Parsed::Incomplete { len_min: len }) };
    let block = header.get(FIXED_LEN..).unwrap_or_default();
    let ends = match family {
        Family::Inet => ends::<4>(block),
        Family::Inet6 => ends::<16>(block),
        Family::Unix | Family::Unnamed => None,
    };
    // The position of the TLVs is known only for families with addresses.
    if family != Family::Unnamed {
        check_tlvs(header, FIXED_LEN + family.addresses_len())?;
    }
    let (source, destination) = ends.unzip();
    Ok(Parsed::Complete(Header { len, source, destination, version: Version::V2, local }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Inet,
    Inet6,
    Unix,
    /// A family without usable addresses.
    Unnamed,
}

impl Family {
    /// Parses family and transport. An unspecified value is accepted and the addresses are ignored,
    /// as section 2.2 allows. Undefined values are refused.
    fn of(byte: u8) -> Result<Self, ProxyError> {
        match (byte >> 4, byte & 0xf) {
            (0, 0..=2) | (1..=3, 0) => Ok(Self::Unnamed),
            (1, 1 | 2) => Ok(Self::Inet),
            (2, 1 | 2) => Ok(Self::Inet6),
            (3, 1 | 2) => Ok(Self::Unix),
            _ => Err(ProxyError::BadFamily),
        }
    }

    const fn addresses_len(self) -> usize {
        match self {
            Self::Inet => 2 * 4 + 2 * 2,
            Self::Inet6 => 2 * 16 + 2 * 2,
            Self::Unix => 2 * 108,
            Self::Unnamed => 0,
        }
    }
}

/// Parses source and destination: two addresses of `N` bytes, then two ports.
fn ends<const N: usize>(block: &[u8]) -> Option<(SocketAddr, SocketAddr)>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let &[a, b, c, d] = rest.first_chunk()?;
    Some((
        SocketAddr::new(IpAddr::from(*source), u16::from_be_bytes([a, b])),
        SocketAddr::new(IpAddr::from(*destination), u16::from_be_bytes([c, d])),
    ))
}

/// Checks the TLVs from `at` to the end of the header.
fn check_tlvs(header: &[u8], mut at: usize) -> Result<(), ProxyError> {
    let mut summed = false;
    while at < header.len() {
        let Some(&[kind, high, low]) = header.get(at..at + 3) else { return Err(ProxyError::TlvBeyondEnd) };
        let from = at + 3;
        at = from + usize::from(u16::from_be_bytes([high, low]));
        let Some(value) = header.get(from..at) else { return Err(ProxyError::TlvBeyondEnd) };
        if kind == CHECKSUM {
            let expected = value.try_into().map(u32::from_be_bytes).map_err(|_| ProxyError::BadChecksum)?;
            // Only one checksum is allowed, because several would make the work quadratic.
            if std::mem::replace(&mut summed, true) {
                return Err(ProxyError::BadChecksum);
            }
            // The checksum is computed with zeros in place of its own bytes.
            let (before, after) = (header.get(..from), header.get(at..));
            let parts = [before.unwrap_or_default(), &[0; 4], after.unwrap_or_default()];
            if crc32c::of(&parts) != expected {
                return Err(ProxyError::BadChecksum);
            }
        }
    }
    Ok(())
}
