//! The PROXY protocol, versions 1 and 2: a header by which a load balancer reports the client of a
//! connection.
//!
//! Entry point: [`parse`].
//!
//! [`parse`] examines all bytes received so far and keeps no state. After [`Parsed::Incomplete`]
//! the caller waits for more bytes and calls [`parse`] again with all bytes received so far.
//! Repeated parsing is cheap, because even the longest header is small, and a header nearly always
//! arrives in one piece.

mod crc32c;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::fmt;
use std::net::SocketAddr;

/// Default limit for a header of version 2, in bytes. A header of either version fits into the
/// smallest segment that every host accepts, 576 - 40 (PROXY protocol, section 2).
///
/// Only senders of long TLVs, such as whole certificates, need more.
pub const LEN_MAX: usize = 536;

/// Maximum length of a version 1 line including CRLF (PROXY protocol, section 2.1).
pub const V1_LEN_MAX: usize = 107;

/// The result of parsing the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A complete header; the data of the connection follows.
    Complete(Header),
    /// The beginning of a header.
    Incomplete {
        /// Minimum total length of the header in bytes, which exceeds the number of bytes received.
        len_min: usize,
    },
    /// No header, as shown by the first byte that differs from both signatures.
    NotProxy,
}

/// A complete header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the header in bytes; the connection's data begins after it.
    pub len: usize,
    /// The client. `None` if the header names no client, so that the peer of the socket is the
    /// client: version 1 `UNKNOWN`, version 2 `LOCAL`, unspecified families, Unix sockets.
    pub source: Option<SocketAddr>,
    /// The address that the client connected to; `None` if `source` is `None`.
    pub destination: Option<SocketAddr>,
    /// The format.
    pub version: Version,
    /// Whether the proxy itself is the client (version 2 `LOCAL`), as in its health checks.
    pub local: bool,
}

/// The two versions of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// The reason why a header is invalid.
///
/// The connection must be closed (PROXY protocol, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProxyError {
    /// Version 2: the header is too short for two addresses of its family.
    AddressesTooShort,
    /// Version 1: an address is not in the canonical form of its family.
    BadAddress,
    /// Version 2: the checksum is wrong, not 4 bytes long, or repeated.
    BadChecksum,
    /// Version 2: the command is neither LOCAL nor PROXY.
    BadCommand,
    /// Version 2: the family or the transport is undefined.
    BadFamily,
    /// Version 1: too few or too many fields, or fields not separated by single spaces.
    BadLine,
    /// Version 1: the line contains a CR or LF that is not part of the final CRLF.
    BadLineEnd,
    /// Version 1: a port is not a decimal number up to 65535 without leading zeros.
    BadPort,
    /// Version 1: the protocol is none of `TCP4`, `TCP6` and `UNKNOWN`.
    BadProtocol,
    /// The signature of version 2 is followed by another version number.
    BadVersion,
    /// Version 2: a TLV extends beyond the header.
    TlvBeyondEnd,
    /// Version 1: no CRLF in 107 bytes. Version 2: the announced length exceeds the limit.
    TooLong,
}

/// Parses a header of at most [`LEN_MAX`] bytes at the start of `bytes`, which must be all bytes
/// received so far.
///
/// # Errors
///
/// The bytes begin like a header but cannot become a valid one.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ProxyError> {
    parse_within(bytes, LEN_MAX)
}

/// Parses a header as [`parse`] does, with another limit for the length of a version 2 header.
///
/// # Errors
///
/// Like [`parse`].
pub fn parse_within(bytes: &[u8], len_max: usize) -> Result<Parsed, ProxyError> {
    match bytes.first() {
        Some(b'P') => v1::parse(bytes),
        Some(b'\r') => v2::parse(bytes, len_max),
        Some(_) => Ok(Parsed::NotProxy),
        None => Ok(Parsed::Incomplete { len_min: v1::LEN_MIN }),
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddressesTooShort => "PROXY v2: no room for the addresses of its family",
            Self::BadAddress => "PROXY v1: not an address of its family",
            Self::BadChecksum => "PROXY v2: the checksum is wrong",
            Self::BadCommand => "PROXY v2: unknown command",
            Self::BadFamily => "PROXY v2: unknown address family or transport",
            Self::BadLine => "PROXY v1: not two addresses and two ports separated by single spaces",
            Self::BadLineEnd => "PROXY v1: a CR or LF inside the line",
            Self::BadPort => "PROXY v1: not a port",
            Self::BadProtocol => "PROXY v1: neither TCP4 nor TCP6 nor UNKNOWN",
            Self::BadVersion => "PROXY: unknown version",
            Self::TlvBeyondEnd => "PROXY v2: a TLV extends beyond the end",
            Self::TooLong => "PROXY: header too long",
        })
    }
}

impl std::error::Error for ProxyError {}

/// Whether one of `bytes` and `whole` is a prefix of the other.
fn agrees(bytes: &[u8], whole: &[u8]) -> bool {
    bytes.iter().zip(whole).all(|(a, b)| a == b)
}
