//! Version 1: one line of text, parsed strictly.

use super::{Header, Parsed, ProxyError, V1_LEN_MAX, Version, agrees};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const SIGNATURE: &[u8] = b"PROXY ";
/// Length of `PROXY UNKNOWN` and CRLF.
pub(super) const LEN_MIN: usize = 15;

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, ProxyError> {
    if !agrees(bytes, SIGNATURE) {
        return Ok(Parsed::NotProxy);
    }
    let rest = bytes.get(SIGNATURE.len()..).unwrap_or_default();
    if !["TCP4 ", "TCP6 ", "UNKNOWN"].into_iter().any(|protocol| agrees(rest, protocol.as_bytes())) {
        return Err(ProxyError::BadProtocol);
    }
    let window = bytes.get(..V1_LEN_MAX).unwrap_or(bytes);
    let Some(end) = memchr::memchr2(b'\r', b'\n', window) else {
        if bytes.len() >= V1_LEN_MAX {
            return Err(ProxyError::TooLong);
        }
        return Ok(Parsed::Incomplete { len_min: LEN_MIN.max(bytes.len() + 1) });
    };
    match (window.get(end), window.get(end + 1)) {
        (Some(b'\r'), Some(b'\n')) => {}
        (Some(b'\r'), None) if bytes.len() < V1_LEN_MAX => {
            return Ok(Parsed::Incomplete { len_min: LEN_MIN.max(bytes.len() + 1) });
        }
        (Some(b'\r'), None) => return Err(ProxyError::TooLong),
        _ => return Err(ProxyError::BadLineEnd),
    }
    let line = window.get(SIGNATURE.len()..end).unwrap_or_default();
    let ends = decode(line)?.unzip();
    let (source, destination) = ends;
    Ok(Parsed::Complete(Header { len: end + 2, source, destination, version: Version::V1, local: false }))
}

/// Source and destination in the text between `PROXY ` and the CRLF.
fn decode(line: &[u8]) -> Result<Option<(SocketAddr, SocketAddr)>, ProxyError> {
    let line = match line.strip_prefix(b"UNKNOWN") {
        // Any text may follow and must be ignored.
        Some([] | [b' ', ..]) => return Ok(None),
        Some(_) => return Err(ProxyError::BadProtocol),
        None => std::str::from_utf8(line).map_err(|_| ProxyError::BadLine)?,
    };
    let mut fields = line.split(' ');
    let mut field = || fields.next().filter(|field| !field.is_empty()).ok_or(ProxyError::BadLine);
    let [protocol, source, destination, source_port, destination_port] =
        [field()?, field()?, field()?, field()?, field()?];
    if fields.next().is_some() {
        return Err(ProxyError::BadLine);
    }
    let addr = |text: &str| match protocol {
        "TCP4" => text.parse().map(|addr: Ipv4Addr| IpAddr::V4(addr)),
        _ => text.parse().map(|addr: Ipv6Addr| IpAddr::V6(addr)),
    };
    let addr = |text| addr(text).map_err(|_| ProxyError::BadAddress);
    Ok(Some((
        SocketAddr::new(addr(source)?, port(source_port)?),
        SocketAddr::new(addr(destination)?, port(destination_port)?),
    )))
}

/// Parses a port. Unlike `str::parse`, this accepts neither a sign nor leading zeros.
fn port(text: &str) -> Result<u16, ProxyError> {
    let strict = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| strict).ok_or(ProxyError::BadPort)
}
