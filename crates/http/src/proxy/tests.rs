//! PROXY headers: a table for each version, all split points, round trips, mutations.
//!
//! Does not know about: other parsers; `tests/machine/proxy.rs` compares the results with those of another
//! parser.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Returns a version 2 header with this command, family and block.
fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let len = u16::try_from(block.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &len, block].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind][..], &u16::try_from(value.len()).unwrap().to_be_bytes(), value].concat()
}

const INET: &[u8] = &[192, 0, 2, 1, 198, 51, 100, 2, 0x1f, 0x90, 0x01, 0xbb];

/// Returns a header with `INET`, these TLVs and a valid checksum.
fn with_checksum(tlvs: &[u8]) -> Vec<u8> {
    let mut header = v2(0x21, 0x11, &[INET, tlvs, &tlv(3, &[0; 4])].concat());
    let sum = crc32c::of(&[&header]).to_be_bytes();
    let at = header.len() - 4;
    header[at..].copy_from_slice(&sum);
    header
}

/// A header, its source and destination (`None`: no addresses), and whether it is LOCAL.
type Good = (Vec<u8>, Option<(&'static str, &'static str)>, bool);

fn good() -> Vec<Good> {
    let inet6: Vec<u8> =
        [[0u8; 15].as_slice(), &[1], &[0x20, 1, 0xd, 0xb8], &[0; 11], &[7], &[0, 0, 0xff, 0xff]].concat();
    let inet_ends = Some(("192.0.2.1:8080", "198.51.100.2:443"));
    let inet6_ends = Some(("[::1]:0", "[2001:db8::7]:65535"));
    let longest = format!("PROXY UNKNOWN {} {} 65535 65535\r\n", "f".repeat(39), "f".repeat(39));
    let line = |text: &str| text.as_bytes().to_vec();
    vec![
        (
            line("PROXY TCP4 127.0.0.1 127.0.0.1 23334 18197\r\n"),
            Some(("127.0.0.1:23334", "127.0.0.1:18197")),
            false,
        ),
        (
            line("PROXY TCP4 255.255.255.255 0.0.0.0 65535 0\r\n"),
            Some(("255.255.255.255:65535", "0.0.0.0:0")),
            false,
        ),
        (line("PROXY TCP6 ::1 2001:DB8::7 0 65535\r\n"), inet6_ends, false),
        (line("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n"), Some(("[::ffff:192.0.2.1]:1", "[::1]:2")), false),
        (line("PROXY UNKNOWN\r\n"), None, false),
        (line("PROXY UNKNOWN \r\n"), None, false),
        (line("PROXY UNKNOWN  any thing \x01\r\n"), None, false),
        (longest.into_bytes(), None, false),
        // The LOCAL header of HAProxy's health check.
        (v2(0x20, 0, b""), None, true),
        (v2(0x20, 0xff, b"not examined"), None, true),
        (v2(0x21, 0, b""), None, false),
        (v2(0x21, 0, b"not examined"), None, false),
        (v2(0x21, 0x02, b""), None, false),
        (v2(0x21, 0x10, INET), None, false),
        (v2(0x21, 0x11, INET), inet_ends, false),
        (v2(0x21, 0x12, INET), inet_ends, false),
        (v2(0x21, 0x21, &inet6), inet6_ends, false),
        (v2(0x21, 0x22, &inet6), inet6_ends, false),
        (v2(0x21, 0x31, &[b'/'; 216]), None, false),
        (v2(0x21, 0x32, &[&[b'/'; 216][..], &tlv(4, b"")].concat()), None, false),
        (v2(0x21, 0x11, &[INET, &tlv(4, b"xyz"), &tlv(0xea, b"\x01vpce-1")].concat()), inet_ends, false),
        (v2(0x21, 0x11, &[INET, &tlv(4, &[0; 505])].concat()), inet_ends, false),
        (with_checksum(b""), inet_ends, false),
        (with_checksum(&tlv(2, b"example.com")), inet_ends, false),
    ]
}

fn expected(header: &[u8], ends: Option<(&str, &str)>, local: bool) -> Header {
    let (source, destination) = ends.map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).unzip();
    let version = if header[0] == b'P' { Version::V1 } else { Version::V2 };
    Header { len: header.len(), source, destination, version, local }
}

#[test]
fn good_headers() {
    for (header, ends, local) in good() {
        let complete = Ok(Parsed::Complete(expected(&header, ends, local)));
        assert_eq!(parse(&header), complete, "{}", header.escape_ascii());
        for after in [b"G".as_slice(), b"\r\n", b"\r\n\r\n\0", b"PROXY UNKNOWN\r\n", &[0; 600]] {
            assert_eq!(parse(&[&header, after].concat()), complete, "{}", header.escape_ascii());
        }
    }
}

#[test]
fn every_prefix_of_a_good_header_is_incomplete() {
    for (header, ..) in good() {
        for len in 0..header.len() {
            let Ok(Parsed::Incomplete { len_min }) = parse(&header[..len]) else {
                panic!("{} of {}: {:?}", len, header.escape_ascii(), parse(&header[..len]));
            };
            assert!(len < len_min && len_min <= header.len(), "{len} {len_min} {}", header.escape_ascii());
        }
    }
}

/// The minimum length never decreases, even if the next byte can only lead to an error.
#[test]
fn what_is_needed_never_shrinks() {
    for line in [b"PROXY TCP4 2\r".as_slice(), b"PROXY TCP6 :\r", b"PROXY TCP4 1"] {
        let mut need = 0;
        for len in 0..=line.len() {
            let Ok(Parsed::Incomplete { len_min }) = parse(&line[..len]) else {
                panic!("{}", line[..len].escape_ascii());
            };
            assert!(len_min >= need, "{}: {len_min} after {need}", line[..len].escape_ascii());
            need = len_min;
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn bad_headers() {
    use ProxyError::*;
    let line = |text: &str| text.as_bytes().to_vec();
    let unknown = |len: usize| [b"PROXY UNKNOWN ".as_slice(), &vec![b'x'; len - 16], b"\r\n"].concat();
    assert_eq!(unknown(107).len(), 107);
    for (header, error) in [
        (line("PROXY TCP5"), BadProtocol),
        (line("PROXY tcp4"), BadProtocol),
        (line("PROXY  "), BadProtocol),
        (line("PROXY \r\n"), BadProtocol),
        (line("PROXY TCP4\r\n"), BadProtocol),
        (line("PROXY UNKNOWNX\r\n"), BadProtocol),
        (line("PROXY TCP4 \r\n"), BadLine),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n"), BadLine),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 \r\n"), BadLine),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n"), BadLine),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n"), BadLine),
        (line("PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n"), BadLine),
        (line("PROXY TCP4 1.2.3.4\t1.2.3.4 1 2 3\r\n"), BadAddress),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 \xff\r\n".to_vec(), BadLine),
        (line("PROXY TCP4 1.2.3.4 1.2.3.04 1 2\r\n"), BadAddress),
        (line("PROXY TCP4 1.2.3.4 1.2.3.256 1 2\r\n"), BadAddress),
        (line("PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n"), BadAddress),
        (line("PROXY TCP4 ::1 ::1 1 2\r\n"), BadAddress),
        (line("PROXY TCP6 1.2.3.4 ::1 1 2\r\n"), BadAddress),
        (line("PROXY TCP6 ::1%eth0 ::1 1 2\r\n"), BadAddress),
        (line("PROXY TCP6 [::1] ::1 1 2\r\n"), BadAddress),
        (line("PROXY TCP6 1::2::3 ::1 1 2\r\n"), BadAddress),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n"), BadPort),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n"), BadPort),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 00 2\r\n"), BadPort),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 +2\r\n"), BadPort),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 -2\r\n"), BadPort),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 0x2\r\n"), BadPort),
        (line("PROXY UNKNOWN\n"), BadLineEnd),
        (line("PROXY UNKNOWN\r\r\n"), BadLineEnd),
        (line("PROXY UNKNOWN a\nb\r\n"), BadLineEnd),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\rG"), BadLineEnd),
        (unknown(108), TooLong),
        (unknown(109), TooLong),
        (unknown(109)[..107].to_vec(), TooLong),
        (v2(0x22, 0x11, INET), BadCommand),
        (v2(0x2f, 0x11, INET), BadCommand),
        (v2(0x11, 0x11, INET), BadVersion),
        (v2(0x01, 0x11, INET), BadVersion),
        (v2(0x30, 0x11, INET), BadVersion),
        (v2(0x21, 0x03, INET), BadFamily),
        (v2(0x21, 0x13, INET), BadFamily),
        (v2(0x21, 0x40, INET), BadFamily),
        (v2(0x21, 0xf1, INET), BadFamily),
        (v2(0x21, 0x11, &INET[..11]), AddressesTooShort),
        (v2(0x21, 0x21, &[0; 35]), AddressesTooShort),
        (v2(0x21, 0x31, &[0; 215]), AddressesTooShort),
        (v2(0x21, 0x11, &[INET, &[4]].concat()), TlvBeyondEnd),
        (v2(0x21, 0x11, &[INET, &[4, 0]].concat()), TlvBeyondEnd),
        (v2(0x21, 0x11, &[INET, &[4, 0, 1]].concat()), TlvBeyondEnd),
        (v2(0x21, 0x11, &[INET, &tlv(4, b"a"), &[4, 0xff, 0xff, 1]].concat()), TlvBeyondEnd),
        (v2(0x21, 0x11, &[INET, &tlv(3, b"abc")].concat()), BadChecksum),
        (v2(0x21, 0x11, &[INET, &tlv(3, b"abcd")].concat()), BadChecksum),
        (with_checksum(&tlv(3, b"abcd")), BadChecksum),
        (v2(0x21, 0x11, &[INET, &tlv(4, &[0; 506])].concat()), TooLong),
        (v2(0x20, 0, &[0; 521]), TooLong),
    ] {
        assert_eq!(parse(&header), Err(error), "{}", header.escape_ascii());
        assert_eq!(parse(&[&header, b"\r\n".as_slice()].concat()), Err(error), "{}", header.escape_ascii());
        // No prefix of an invalid header is accepted as a complete header.
        for len in 0..header.len() {
            let prefix = parse(&header[..len]);
            assert!(
                matches!(prefix, Ok(Parsed::Incomplete { len_min }) if len_min > len) || prefix == Err(error),
                "{len} of {}: {prefix:?}",
                header.escape_ascii()
            );
        }
    }
}

#[test]
fn a_wrong_checksum_in_any_bit() {
    let header = with_checksum(&tlv(2, b"a"));
    for bit in 16 * 8..header.len() * 8 {
        let mut changed = header.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let parsed = parse(&changed);
        // A changed bit in its type or length can turn the checksum's TLV into another TLV, or into
        // a TLV that extends beyond the end.
        let framing = (28 * 8..32 * 8).contains(&bit) || (32 * 8..35 * 8).contains(&bit);
        assert!(parsed.is_err() || framing, "bit {bit}: {parsed:?}");
    }
}

#[test]
fn own_limit() {
    let large = v2(0x21, 0x11, &[INET, &tlv(4, &[0; 2000])].concat());
    assert_eq!(parse(&large), Err(ProxyError::TooLong));
    assert_eq!(parse(&large[..16]), Err(ProxyError::TooLong), "reported before all bytes have arrived");
    assert!(matches!(parse_within(&large, large.len()), Ok(Parsed::Complete(_))));
    assert_eq!(parse_within(&large, large.len() - 1), Err(ProxyError::TooLong));
}

#[test]
fn distinguished_at_the_first_differing_byte() {
    for start in ["GET / HTTP/1.1", "\x16\x03\x01", "", "\0", "proxy", "\n", " PROXY", "QUIT"] {
        for len in 1..=start.len() {
            assert_eq!(parse(&start.as_bytes()[..len]), Ok(Parsed::NotProxy), "{}", start.escape_debug());
        }
    }
    assert!(matches!(parse(b""), Ok(Parsed::Incomplete { .. })));
    for signature in [b"PROXY ".as_slice(), SIGNATURE] {
        for at in 0..signature.len() {
            for byte in 0..=255 {
                let mut bytes = signature[..=at].to_vec();
                bytes[at] = byte;
                let known = [b"PROXY ".as_slice(), SIGNATURE].iter().any(|whole| whole.starts_with(&bytes));
                assert_eq!(parse(&bytes) == Ok(Parsed::NotProxy), !known, "{}", bytes.escape_ascii());
            }
        }
    }
    // Bytes with which an HTTP client may begin.
    assert_eq!(parse(b"\r\n\r\nGET"), Ok(Parsed::NotProxy));
    assert_eq!(parse(b"PUT / "), Ok(Parsed::NotProxy));
    assert_eq!(parse(b"PROXYFOO /"), Ok(Parsed::NotProxy));
}

fn pair() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = any::<([u8; 4], u16, [u8; 4], u16)>()
        .prop_map(|(a, port, b, other)| (SocketAddr::from((a, port)), SocketAddr::from((b, other))));
    let v6 = any::<([u8; 16], u16, [u8; 16], u16)>()
        .prop_map(|(a, port, b, other)| (SocketAddr::from((a, port)), SocketAddr::from((b, other))));
    prop_oneof![v4, v6]
}

fn encode_v2((source, destination): (SocketAddr, SocketAddr), tlvs: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let octets = |addr: SocketAddr| match addr {
        SocketAddr::V4(addr) => addr.ip().octets().to_vec(),
        SocketAddr::V6(addr) => addr.ip().octets().to_vec(),
    };
    let mut block = [octets(source), octets(destination)].concat();
    block.extend([source.port().to_be_bytes(), destination.port().to_be_bytes()].concat());
    tlvs.iter().for_each(|(kind, value)| block.extend(tlv(*kind, value)));
    v2(0x21, if source.is_ipv4() { 0x11 } else { 0x21 }, &block)
}

proptest! {
    #[test]
    fn round_trip_v1(pair in pair(), after in vec(any::<u8>(), 0..20)) {
        let (source, destination) = pair;
        let protocol = if source.is_ipv4() { "TCP4" } else { "TCP6" };
        let (from, to) = (source.ip(), destination.ip());
        let line = format!("PROXY {protocol} {from} {to} {} {}\r\n", source.port(), destination.port());
        let header = Header {
            len: line.len(), source: Some(source), destination: Some(destination), version: Version::V1, local: false,
        };
        prop_assert_eq!(parse(&[line.as_bytes(), &after].concat()), Ok(Parsed::Complete(header)));
    }

    #[test]
    fn round_trip_v2(pair in pair(), tlvs in vec((4..=255u8, vec(any::<u8>(), 0..60)), 0..6), after in vec(any::<u8>(), 0..20)) {
        let bytes = encode_v2(pair, &tlvs);
        let header = Header {
            len: bytes.len(), source: Some(pair.0), destination: Some(pair.1), version: Version::V2, local: false,
        };
        prop_assert_eq!(parse(&[&bytes[..], &after].concat()), Ok(Parsed::Complete(header)));
        for len in 0..bytes.len() {
            let incomplete = matches!(parse(&bytes[..len]), Ok(Parsed::Incomplete { len_min }) if len_min > len);
            prop_assert!(incomplete);
        }
    }

    /// A result other than "incomplete" for a prefix applies to every continuation.
    #[test]
    fn never_another_verdict_later(
        which in 0..24usize,
        at in 0..200usize,
        byte in any::<u8>(),
        after in vec(any::<u8>(), 0..8),
    ) {
        let (mut bytes, ..) = good().swap_remove(which);
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.extend(after);
        let last = parse(&bytes);
        let mut need = 0;
        for len in 0..=bytes.len() {
            match parse(&bytes[..len]) {
                Ok(Parsed::Incomplete { len_min }) => {
                    prop_assert!(len_min > len && len_min >= need);
                    need = len_min;
                }
                decided => {
                    prop_assert_eq!(decided, last);
                    if let Ok(Parsed::Complete(header)) = decided {
                        prop_assert!(header.len <= len && len >= need);
                    }
                }
            }
        }
    }
}
