//! Host names in requests and in the configuration.
#![expect(
    clippy::indexing_slicing,
    reason = "each index is a position found in the same bytes, or the number of bytes written"
)]

use super::ByteMap;
use std::io::Write as _;
use std::net::Ipv6Addr;

/// The host in a `Host` field or an authority, without port and trailing dot.
///
/// The case is unchanged.
#[must_use]
#[inline]
pub fn without_port(host: &[u8]) -> &[u8] {
    let end = match host.first() {
        Some(b'[') => memchr::memchr(b']', host).map_or(host.len(), |at| at + 1),
        _ => memchr::memchr(b':', host).unwrap_or(host.len()),
    };
    let name = &host[..end];
    name.strip_suffix(b".").unwrap_or(name)
}

/// Finds the host of a request, with or without a port, among hosts in [`canonical`] form.
#[inline(always)]
pub(crate) fn find(hosts: &ByteMap<true>, host: &[u8]) -> Option<u32> {
    match host.first() {
        Some(b'[') => find_literal(hosts, host),
        _ => hosts.find(without_port(host)),
    }
}

/// Finds an IPv6 address literal, which can be written in many notations (RFC 4291 2.2).
#[cold]
#[inline(never)]
pub(super) fn find_literal(hosts: &ByteMap<true>, host: &[u8]) -> Option<u32> {
    let mut spelled = [0; LITERAL_LEN_MAX];
    let literal = std::str::from_utf8(without_port(host)).ok().and_then(literal_addr)?;
    let room = spelled.len();
    let mut rest = &mut spelled[..];
    write!(rest, "[{literal}]").ok()?;
    let len = room - rest.len();
    hosts.find(&spelled[..len])
}

fn literal_addr(literal: &str) -> Option<Ipv6Addr> {
    literal.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Converts a configured host to canonical form: lower case, no trailing dot, an address as in RFC
/// 5952.
///
/// `None` if the host is neither a name nor an address literal, or has a port.
#[must_use]
pub fn canonical(host: &str) -> Option<String> {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if name.starts_with('[') {
        return literal_addr(&name).map(|addr| format!("[{addr}]"));
    }
    // Underscores are not allowed by RFC 1123 but common in private networks.
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let good = name.len() <= NAME_LEN_MAX && name.split('.').all(label);
    good.then_some(name)
}

/// Converts a configured host, or `*.` and a name, to canonical form.
///
/// `None` if the text is neither of the two.
#[must_use]
pub fn canonical_pattern(host: &str) -> Option<String> {
    match host.strip_prefix(WILDCARD) {
        Some(suffix) if !suffix.starts_with('[') => {
            canonical(suffix).map(|suffix| format!("{WILDCARD}{suffix}"))
        }
        Some(_) => None,
        None => canonical(host),
    }
}

/// The names, without their `*.`, of all wildcards that match `name`, longest first. There are none
/// for a name that is too long.
#[inline]
pub(super) fn suffixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = if name.len() <= NAME_LEN_MAX { name } else { b"" };
    std::iter::from_fn(move || {
        let dot = memchr::memchr(b'.', rest)?;
        // `*` must match at least one character.
        let covers = dot > 0;
        rest = &rest[dot + 1..];
        Some(rest).filter(|_| covers)
    })
}

/// Prefix of a wildcard host.
pub(super) const WILDCARD: &str = "*.";
/// Maximum length of a name in bytes, including dots (RFC 1035 2.3.4).
const NAME_LEN_MAX: usize = 253;
/// Maximum length of an IPv6 address in brackets, in bytes: eight groups of four digits.
const LITERAL_LEN_MAX: usize = 2 + 8 * 4 + 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_dots_are_cut() {
        for (host, expected) in [
            ("example.com", "example.com"),
            ("example.com:80", "example.com"),
            ("example.com.:80", "example.com"),
            ("example.com.", "example.com"),
            ("[::1]:8080", "[::1]"),
            ("[::1]", "[::1]"),
            ("[::1", "[::1"),
            ("", ""),
            (":80", ""),
            ("a:b:c", "a"),
        ] {
            assert_eq!(without_port(host.as_bytes()), expected.as_bytes(), "{host}");
        }
    }

    #[test]
    fn canonical_hosts() {
        for (host, expected) in [
            ("Example.COM", Some("example.com")),
            ("example.com.", Some("example.com")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("[2001:DB8:0:0::0001]", Some("[2001:db8::1]")),
            ("my_host", Some("my_host")),
            ("[::1]:80", None),
            ("[nope]", None),
            ("a:80", None),
            ("", None),
            (".", None),
            ("a..b", None),
            ("-a", None),
            ("a/b", None),
            ("u@a", None),
            ("a b", None),
            ("a\\b", None),
            ("exämple.com", None),
        ] {
            assert_eq!(canonical(host).as_deref(), expected, "{host}");
        }
        assert!(canonical(&"a".repeat(64)).is_none());
        assert!(canonical(&vec!["a"; 130].join(".")).is_none());
    }

    #[test]
    fn wildcards() {
        for (host, expected) in [
            ("*.Example.com", Some("*.example.com")),
            ("*.example.com.", Some("*.example.com")),
            ("*.a", Some("*.a")),
            ("example.com", Some("example.com")),
            ("*", None),
            ("*.", None),
            ("*.*.a", None),
            ("a.*.b", None),
            ("*a.b", None),
            ("*.[::1]", None),
            ("*.a:80", None),
        ] {
            assert_eq!(canonical_pattern(host).as_deref(), expected, "{host}");
        }
    }

    #[test]
    fn suffixes_of_names() {
        let all = |name: &[u8]| suffixes(name).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(all(b"a.b.c"), [b"b.c".to_vec(), b"c".to_vec()]);
        assert!(all(b"a").is_empty() && all(b"").is_empty() && all(b".a").is_empty());
        assert_eq!(all(&b"a.".repeat(126)).len(), 126);
        assert!(all(&b"a.".repeat(127)).is_empty());
    }
}
