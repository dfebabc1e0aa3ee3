//! Targets of requests: URLs, and their addresses.

use std::net::{SocketAddr, ToSocketAddrs};

/// The parts of an `http` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Host and port as in the `Host` header.
    pub authority: String,
    /// Host name or address, without brackets.
    pub host: String,
    /// The port. Default 80.
    pub port: u16,
    /// Path and query, starting with the slash.
    pub path: String,
}

impl Url {
    /// Parses `http://host:port/path?query`. Scheme, port, path and query are optional.
    ///
    /// # Errors
    /// A description of the error in one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return Err("https is not supported: use http and a port without TLS".to_owned());
            }
            Some((scheme, _)) => return Err(format!("{scheme:?} is not supported, only http")),
            None => text,
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(
                "a user name in the URL is not supported: use --header \"Authorization: ...\"".to_owned()
            );
        }
        let (host, port) = split_port(authority)?;
        if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(format!("{text:?} has no host; write http://127.0.0.1:8080/livez"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { authority: authority.to_owned(), host: host.to_owned(), port, path })
    }
}

/// Returns the first address of a host.
///
/// # Errors
/// A description of the error in one sentence.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let found = (host, port).to_socket_addrs();
    let mut addrs = found.map_err(|error| format!("cannot resolve {host:?}: {error}"))?;
    addrs.next().ok_or_else(|| format!("{host:?} has no address"))
}

/// Returns the first address outside this machine's loopback.
#[must_use]
pub fn not_loopback(targets: &[SocketAddr]) -> Option<SocketAddr> {
    targets.iter().copied().find(|target| !target.ip().to_canonical().is_loopback())
}

fn split_port(authority: &str) -> Result<(&str, u16), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(|| format!("{authority:?} has no ']'"))?;
            match after.strip_prefix(':') {
                None if after.is_empty() => (host, None),
                None => return Err(format!("{after:?} after ']' is not a port")),
                port => (host, port),
            }
        }
        None => match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(format!("write an IPv6 address in brackets: [{authority}]"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let Some(port) = port else { return Ok((host, 80)) };
    match port.parse() {
        Ok(number @ 1..) if port.bytes().all(|byte| byte.is_ascii_digit()) => Ok((host, number)),
        _ => Err(format!("{port:?} is not a port")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, authority, host, port, path) in [
            ("http://127.0.0.1:8080/livez?a=b#c", "127.0.0.1:8080", "127.0.0.1", 8080, "/livez?a=b"),
            ("HTTP://example.com", "example.com", "example.com", 80, "/"),
            ("localhost:1", "localhost:1", "localhost", 1, "/"),
            ("localhost?x", "localhost", "localhost", 80, "/?x"),
            ("http://[::1]:81/", "[::1]:81", "::1", 81, "/"),
            ("http://[::1]", "[::1]", "::1", 80, "/"),
        ] {
            let want = Url { authority: authority.into(), host: host.into(), port, path: path.into() };
            assert_eq!(Url::parse(text), Ok(want), "{text}");
        }
        for text in [
            "",
            "http://",
            "https://a/",
            "ftp://a/",
            "http://a:0/",
            "http://a:65536/",
            "http://a:+1/",
            "http://a:b/",
            "http://::1/",
            "http://[::1/",
            "http://[::1]x/",
            "http://u@a/",
            "http://a b/",
            "http:///x",
        ] {
            assert!(Url::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn loopback_is_distinguished() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        let here = [addr("127.0.0.1:1"), addr("127.9.9.9:1"), addr("[::1]:1"), addr("[::ffff:127.0.0.1]:1")];
        assert_eq!(not_loopback(&here), None);
        for away in ["10.0.0.1:1", "0.0.0.0:1", "[::]:1", "192.168.0.1:1", "[::ffff:10.0.0.1]:1"] {
            assert_eq!(not_loopback(&[here[0], addr(away)]), Some(addr(away)));
        }
    }
}
