//! Host names as requests spell them and as the configuration lists them.
//!
//! Does not know about: routes, ports beyond cutting them off.
#![expect(clippy::indexing_slicing, reason = "the end was found in the very bytes that are cut")]

/// The host without its port and without a closing dot, as it stands in a `Host` field or an authority.
/// Case is left alone.
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

/// A configured host in the one spelling we use: lower case, no closing dot. `None` when it is not a name or an
/// address literal, or carries a port.
#[must_use]
pub fn canonical(host: &str) -> Option<String> {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let good = match name.strip_prefix('[') {
        Some(inner) => {
            inner.strip_suffix(']').is_some_and(|literal| literal.parse::<std::net::Ipv6Addr>().is_ok())
        }
        None => {
            // Underscores are outside RFC 1123 but common inside networks.
            let label = |label: &str| {
                (1..=63).contains(&label.len())
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            };
            name.len() <= NAME_LEN_MAX && name.split('.').all(label)
        }
    };
    good.then_some(name)
}

/// A configured host or `*.` and a name, in the one spelling we use. `None` when it is neither.
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

/// The names that a wildcard may cover this one with, without their `*.`, longest first. None for names too long to be any.
#[inline]
pub(super) fn suffixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = if name.len() <= NAME_LEN_MAX { name } else { b"" };
    std::iter::from_fn(move || {
        let dot = memchr::memchr(b'.', rest)?;
        // `*` stands for something.
        let covers = dot > 0;
        rest = &rest[dot + 1..];
        Some(rest).filter(|_| covers)
    })
}

/// What a host that stands for many begins with.
pub(super) const WILDCARD: &str = "*.";
/// Bytes of a name (RFC 1035 2.3.4), the dots among them.
const NAME_LEN_MAX: usize = 253;

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
