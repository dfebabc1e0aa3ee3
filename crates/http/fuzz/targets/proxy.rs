//! Target: PROXY headers, split, followed by other bytes, and compared with the `proxy-header`
//! crate.

use doorbell_http::proxy::{Header, LEN_MAX, Parsed, ProxyError, Version, parse, parse_within};
use proxy_header::{ParseConfig, ProxyHeader};

pub(crate) fn run(data: &[u8]) {
    let whole = parse(data);
    let mut need = 0;
    for len in 0..=data.len().min(LEN_MAX + 1) {
        match parse(&data[..len]) {
            Ok(Parsed::Incomplete { len_min }) => {
                assert!(len_min > len && len_min >= need && len_min <= LEN_MAX, "{len}: {len_min}");
                need = len_min;
            }
            decided => {
                assert_eq!(decided, whole, "the result for {len} bytes is also that for all bytes");
                assert!(decided.is_err() || decided == Ok(Parsed::NotProxy) || len >= need);
            }
        }
    }
    if let Ok(Parsed::Complete(header)) = whole {
        check(data, &header);
    }
    compare(data);
}

fn check(data: &[u8], header: &Header) {
    assert!(header.len <= data.len() && header.len <= LEN_MAX);
    assert_eq!(header.source.is_some(), header.destination.is_some());
    assert!(!header.local || (header.source.is_none() && header.version == Version::V2));
    if let (Some(source), Some(destination)) = (header.source, header.destination) {
        assert_eq!(source.is_ipv4(), destination.is_ipv4());
    }
}

/// Asserts that both parsers agree if both accept a header, and that every other difference has one
/// of the reasons below.
fn compare(data: &[u8]) {
    let ours = parse_within(data, usize::MAX);
    let theirs = ProxyHeader::parse(data, ParseConfig::default());
    match (ours, theirs) {
        (Ok(Parsed::Complete(ours)), Ok((theirs, len))) => {
            let ends = theirs.proxied_address().map(|addr| (addr.source, addr.destination));
            assert_eq!((ours.len, ours.source.zip(ours.destination)), (len, ends));
        }
        (Ok(Parsed::Complete(ours)), Err(error)) => {
            // The other parser examines the family of LOCAL headers. It also refuses a header
            // in which only the family or only the transport is unspecified.
            let family = data.get(13).copied().unwrap_or_default();
            let half = family & 0xf0 == 0 || family & 0xf == 0;
            assert!(ours.version == Version::V2 && (ours.local || half), "{error:?}");
        }
        (Err(error), Ok(_)) => {
            // The other parser ignores TLVs. In version 1 it accepts any number that Rust parses as
            // a port, lines of any length, LF in an UNKNOWN line, and any text after UNKNOWN.
            let known = match error {
                ProxyError::BadChecksum | ProxyError::TlvBeyondEnd => data[0] == b'\r',
                ProxyError::BadLineEnd | ProxyError::BadProtocol => data[6..].starts_with(b"UNKNOWN"),
                ProxyError::BadPort | ProxyError::TooLong => data[0] == b'P',
                _ => false,
            };
            assert!(known, "{error:?}");
        }
        // The other parser ignores the byte after PROXY.
        (Ok(Parsed::NotProxy), Ok(_)) => assert!(data.starts_with(b"PROXY") && data[5] != b' '),
        (Ok(Parsed::Incomplete { .. }), Ok(_)) => panic!("the other parser accepts a shorter header"),
        (Err(_) | Ok(Parsed::Incomplete { .. } | Parsed::NotProxy), Err(_)) => {}
    }
}
