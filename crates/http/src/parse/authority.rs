//! `uri-host [ ":" port ]` of RFC 3986 3.2.2, as in `Host` and absolute targets.

use crate::class;
use std::net::Ipv6Addr;

/// Whether `value` is a host with an optional port.
///
/// Stricter than the grammar in four ways: the value must not be empty, must not contain a comma
/// (which would join two values), the port is at most 65535, and brackets contain only IPv6
/// addresses.
#[inline]
pub(crate) fn is_host(value: &[u8]) -> bool {
    let (host_ok, rest) = if let Some(inner) = value.strip_prefix(b"[") {
        let end = inner.iter().position(|&byte| byte == b']').unwrap_or(inner.len());
        (is_ipv6(inner.get(..end).unwrap_or_default()), inner.get(end + 1..))
    } else {
        let end = value.iter().position(|&byte| !class::is(byte, class::HOST)).unwrap_or(value.len());
        let host = value.get(..end).unwrap_or_default();
        (!host.is_empty() && has_sound_escapes(host), value.get(end..))
    };
    host_ok
        && match rest {
            Some([]) => true,
            Some([b':', port @ ..]) => is_port(port),
            _ => false,
        }
}

/// Whether two authorities have the same host and port. The default port of the scheme replaces a
/// missing port.
pub fn is_same_authority(one: &[u8], other: &[u8], is_https: bool) -> bool {
    let default_port: &[u8] = if is_https { b":443" } else { b":80" };
    let without = |authority: &'_ [u8]| {
        let rest = [default_port, b":"].into_iter().find_map(|end| authority.strip_suffix(end));
        rest.map_or(authority.len(), <[u8]>::len)
    };
    let (one, other) = (one.get(..without(one)), other.get(..without(other)));
    one.zip(other).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
}

fn is_ipv6(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Whether each `%` is followed by two hexadecimal digits.
fn has_sound_escapes(host: &[u8]) -> bool {
    let mut rest = host;
    while let Some(at) = memchr::memchr(b'%', rest) {
        match rest.get(at + 1..at + 3) {
            Some(digits) if digits.iter().all(|&byte| class::is(byte, class::HEX)) => {}
            _ => return false,
        }
        rest = rest.get(at + 3..).unwrap_or_default();
    }
    true
}

/// Whether the bytes are a port, which may be empty according to the grammar.
fn is_port(digits: &[u8]) -> bool {
    digits.len() <= 5
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().fold(0u32, |port, digit| port * 10 + u32::from(digit - b'0')) <= 65_535
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_not_written_is_that_of_the_scheme() {
        for (one, other, http, https) in [
            ("a", "A", true, true),
            ("a", "a:", true, true),
            ("a", "a:80", true, false),
            ("a:80", "a:", true, false),
            ("a:443", "a", false, true),
            ("a:8080", "a", false, false),
            ("a:8080", "a:8080", true, true),
            ("[::1]:80", "[::1]", true, false),
            ("[::80]", "[::]", false, false),
            ("a", "b", false, false),
        ] {
            for (is_https, expected) in [(false, http), (true, https)] {
                let both = [(one, other), (other, one)];
                let same =
                    both.map(|(one, other)| is_same_authority(one.as_bytes(), other.as_bytes(), is_https));
                assert_eq!(same, [expected; 2], "{one} {other} {is_https}");
            }
        }
    }

    #[test]
    fn hosts() {
        for good in [
            "a",
            "a:80",
            "a:",
            "127.0.0.1:65535",
            "[::1]",
            "[::1]:80",
            "[::ffff:1.2.3.4]",
            "a%20b",
            "a_b",
            "xn--a",
            "a.",
            "a-b.c~d",
            "%41",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a b",
            "a/b",
            "u@a",
            "a,b",
            "a:b",
            "a:65536",
            "a:000080",
            "a:-1",
            "[::1",
            "[]",
            "[:]",
            "::1",
            "[::1]x",
            "[::1%25eth0]",
            "[v1.a]",
            "a%2",
            "a%zz",
            "%",
            "a\"",
            "a\\b",
            "a?b",
            "a#b",
            "\u{e9}",
            "a:80:80",
            "a]",
            "[::1]:x",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
