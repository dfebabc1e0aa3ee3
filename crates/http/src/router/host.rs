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
            name.len() <= 253 && name.split('.').all(label)
        }
    };
    good.then_some(name)
}

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
}
