//! The header that a load balancer puts before a connection to say who is at its other end: PROXY protocol, versions 1 and 2.
//!
//! Does not know about: sockets, which networks may send it, what a listener does without it. Entry: [`parse`].
//!
//! [`parse`] looks at all bytes that have arrived so far and keeps nothing. Whoever gets [`Parsed::Incomplete`] waits for more
//! and asks again with the whole: the longest header is small, and nearly always arrives in one piece.

mod crc32c;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::fmt;
use std::net::SocketAddr;

/// Default for the whole header of version 2, in bytes: both formats are made to fit in the smallest segment that every host
/// takes, 576 - 40 (PROXY protocol, section 2). Only a sender of long TLVs, such as whole certificates, needs more.
pub const LEN_MAX: usize = 536;

/// The longest line of version 1 with its CRLF (PROXY protocol, section 2.1).
pub const V1_LEN_MAX: usize = 107;

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A whole header; what follows is the connection.
    Complete(Header),
    /// The beginning of a header.
    Incomplete {
        /// No header ends before this many bytes in all; more than there are now.
        len_min: usize,
    },
    /// Not a header: told from the first byte that differs from both signatures.
    NotProxy,
}

/// A complete header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes that it takes; the connection begins after them.
    pub len: usize,
    /// The client; `None` when there is none to name, and the peer of the socket is the client: version 1 `UNKNOWN`, version 2
    /// `LOCAL`, unspecified families, unix sockets.
    pub source: Option<SocketAddr>,
    /// Whom the client wanted; `None` together with `source`.
    pub destination: Option<SocketAddr>,
    /// Which format it came in.
    pub version: Version,
    /// True when the proxy speaks for itself (version 2 `LOCAL`): its health check.
    pub local: bool,
}

/// The two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Why a header that began well cannot be one. The connection is to be closed (PROXY protocol, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyError {
    /// Version 2: no room for the two addresses of the family.
    AddressesTooShort,
    /// Version 1: not an address of the family in its canonical form.
    BadAddress,
    /// Version 2: a checksum that is not that of the header, is not 4 bytes long, or comes twice.
    BadChecksum,
    /// Version 2: neither LOCAL nor PROXY.
    BadCommand,
    /// Version 2: a family or a transport without a meaning.
    BadFamily,
    /// Version 1: fields missing, too many, or not set apart by one space.
    BadLine,
    /// Version 1: a CR or LF that is not part of the CRLF at the end.
    BadLineEnd,
    /// Version 1: not a decimal number up to 65535 without leading zeros.
    BadPort,
    /// Version 1: none of `TCP4`, `TCP6`, `UNKNOWN`.
    BadProtocol,
    /// The signature of version 2 with another version.
    BadVersion,
    /// Version 2: a TLV that runs past the end of the header.
    TlvBeyondEnd,
    /// Version 1: no CRLF in 107 bytes. Version 2: announces more than is taken.
    TooLong,
}

/// Looks for a header of at most [`LEN_MAX`] bytes at the start of `bytes`, which are all bytes that have arrived.
///
/// # Errors
///
/// The bytes began as a header and cannot become one, whatever follows.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ProxyError> {
    parse_within(bytes, LEN_MAX)
}

/// As [`parse`], with an own limit for the length of a header of version 2.
///
/// # Errors
///
/// As [`parse`].
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
            Self::BadLine => "PROXY v1: not two addresses and two ports set apart by single spaces",
            Self::BadLineEnd => "PROXY v1: a CR or LF inside the line",
            Self::BadPort => "PROXY v1: not a port",
            Self::BadProtocol => "PROXY v1: neither TCP4 nor TCP6 nor UNKNOWN",
            Self::BadVersion => "PROXY: unknown version",
            Self::TlvBeyondEnd => "PROXY v2: a TLV runs past the end",
            Self::TooLong => "PROXY: header too long",
        })
    }
}

impl std::error::Error for ProxyError {}

/// Whether `bytes` is the start of `whole`, or begins with it.
fn agrees(bytes: &[u8], whole: &[u8]) -> bool {
    bytes.iter().zip(whole).all(|(a, b)| a == b)
}
