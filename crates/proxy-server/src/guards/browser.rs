//! Detects cross-site requests of browsers, and requests forwarded by a proxy.
//!
//! A browser can connect to every address of its machine, including the loopback address. A page
//! cannot forge the fields that the browser sets: under DNS rebinding, `Host` contains the name of
//! the page's site, and every request except GET and HEAD has `Origin` (Fetch, section 3.2).
//! Without TLS, browsers send `Sec-Fetch-Site` only to the loopback address and localhost (Fetch
//! Metadata, section 2), so a GET to another name of this machine can lack both fields.

use rustix::system::uname;
use std::net::IpAddr;

/// Prefixes of header fields that proxies add; [`FORWARDED`] contains whole names.
const FORWARDED_PREFIXES: [&str; 2] = ["x-forwarded-", "x-envoy-"];
const FORWARDED: [&str; 7] = [
    "cf-connecting-ip",
    "forwarded",
    "true-client-ip",
    "via",
    "x-client-ip",
    "x-original-forwarded-for",
    "x-real-ip",
];

/// Whether a `Host` can only mean this server: an address, a name of this machine, or one of
/// `names`. Any other name may belong to a site that uses DNS rebinding.
pub(crate) fn is_own_host(host: &[u8], names: &[String]) -> bool {
    let Some(name) = std::str::from_utf8(host).ok().map(without_port) else { return false };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is = |own: &str| name.eq_ignore_ascii_case(own);
    is_address(name)
        || is("localhost")
        || names.iter().any(|own| is(own))
        || uname().nodename().to_str().is_ok_and(is)
}

/// Whether a page of another site caused the request. `is_own` decides whether a host is this
/// server.
pub(crate) fn is_cross_site<'a>(
    field: impl Fn(&str) -> Option<&'a [u8]>,
    host: &[u8],
    is_own: impl Fn(&[u8]) -> bool,
) -> bool {
    let is_elsewhere = field("sec-fetch-site").is_some_and(|site| !matches!(site, b"same-origin" | b"none"));
    let is_foreign = |origin: &[u8]| {
        let scheme_len = origin.windows(3).position(|part| part == b"://").map(|at| at + 3);
        scheme_len.is_none_or(|len| !origin[len..].eq_ignore_ascii_case(host)) || !is_own(host)
    };
    is_elsewhere || field("origin").is_some_and(is_foreign)
}

/// Whether a GET request with this `Host` that has neither `Origin` nor `Sec-Fetch-Site` may be sent
/// by a page of another site: browsers omit both fields, unless the host is localhost or a loopback
/// address.
pub(crate) fn may_hide_site<'a>(field: impl Fn(&str) -> Option<&'a [u8]>, host: &[u8]) -> bool {
    let name = std::str::from_utf8(host).map(without_port).unwrap_or_default();
    let addr = addr_of(name);
    let is_loopback = name.eq_ignore_ascii_case("localhost") || addr.is_some_and(|addr| addr.is_loopback());
    !is_loopback && field("sec-fetch-site").is_none() && field("origin").is_none()
}

/// Whether `names` contain a field that proxies add. A peer that sends such a field is not the
/// client.
pub(crate) fn is_forwarded<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    let begins = |name: &str, prefix: &str| {
        name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
    };
    names.any(|name| {
        FORWARDED.iter().any(|field| name.eq_ignore_ascii_case(field))
            || FORWARDED_PREFIXES.iter().any(|prefix| begins(name, prefix))
    })
}

fn without_port(host: &str) -> &str {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name)
}

/// Whether this is an address other than the unspecified one, which pages of any site can use to
/// reach this machine.
fn is_address(name: &str) -> bool {
    addr_of(name).is_some_and(|addr| !addr.to_canonical().is_unspecified())
}

fn addr_of(name: &str) -> Option<IpAddr> {
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bracketed.unwrap_or(name).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_ours_if_it_cannot_be_another_site() {
        let names = ["doorbell.example".to_owned()];
        let own = uname().nodename().to_string_lossy().into_owned();
        for (host, expect) in [
            ("127.0.0.1", true),
            ("127.0.0.1:9130", true),
            ("10.1.2.3:80", true),
            ("[::1]:9130", true),
            ("[::1]", true),
            ("0.0.0.0:9130", false),
            ("[::]:9130", false),
            ("[::ffff:0.0.0.0]", false),
            ("localhost", true),
            ("LocalHost.:9130", true),
            ("doorbell.example:9130", true),
            ("Doorbell.Example", true),
            (own.as_str(), true),
            ("evil.example", false),
            ("evil.example:9130", false),
            ("a.doorbell.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1:evil.example", false),
            ("evil.example:", false),
            ("", false),
        ] {
            assert_eq!(is_own_host(host.as_bytes(), &names), expect, "{host}");
        }
        assert!(!is_own_host(b"\xff", &names));
    }

    #[test]
    fn a_page_may_send_requests_to_its_own_site() {
        let is_cross = |fields: &[(&str, &'static str)], host: &str| {
            let field = |name: &str| {
                let found = fields.iter().find(|(field, _)| *field == name);
                found.map(|(_, value)| value.as_bytes())
            };
            is_cross_site(field, host.as_bytes(), |host| is_own_host(host, &[]))
        };
        for (fields, host, expect) in [
            (&[][..], "evil.example", false),
            (&[("origin", "http://localhost:80")], "localhost:80", false),
            (&[("origin", "https://127.0.0.1")], "127.0.0.1", false),
            (&[("sec-fetch-site", "none")], "localhost", false),
            (&[("sec-fetch-site", "same-origin")], "localhost", false),
            (&[("sec-fetch-site", "same-site")], "localhost", true),
            (&[("sec-fetch-site", "cross-site")], "localhost", true),
            (&[("origin", "null")], "localhost", true),
            (&[("origin", "")], "", true),
            (&[("origin", "https://evil.example")], "localhost", true),
            (&[("origin", "http://localhost:81")], "localhost:80", true),
            // DNS rebinding: the name of the page's site resolves to the address of this server.
            (&[("origin", "http://evil.example:80")], "evil.example:80", true),
        ] {
            assert_eq!(is_cross(fields, host), expect, "{fields:?} {host}");
        }
    }

    #[test]
    fn browsers_omit_both_fields_for_hosts_other_than_loopback() {
        let may_hide = |fields: &[(&str, &'static str)], host: &str| {
            let field = |name: &str| {
                let found = fields.iter().find(|(field, _)| *field == name);
                found.map(|(_, value)| value.as_bytes())
            };
            may_hide_site(field, host.as_bytes())
        };
        for host in ["localhost:9130", "LOCALHOST", "127.0.0.1:9130", "127.1.2.3", "[::1]:9130"] {
            assert!(!may_hide(&[], host), "{host}");
        }
        for host in ["doorbell.example:9130", "localhost.evil.example", "10.0.0.1", "[::ffff:127.0.0.1]"] {
            assert!(may_hide(&[], host), "{host}");
            assert!(!may_hide(&[("origin", "http://a")], host), "{host}");
            assert!(!may_hide(&[("sec-fetch-site", "none")], host), "{host}");
        }
    }

    #[test]
    fn proxies_are_known_by_their_fields() {
        for (name, expect) in [
            ("x-forwarded-for", true),
            ("X-Forwarded-Proto", true),
            ("Forwarded", true),
            ("VIA", true),
            ("x-real-ip", true),
            ("x-envoy-external-address", true),
            ("x-forwarde", false),
            ("x-request-id", false),
            ("host", false),
            ("forwarder", false),
        ] {
            assert_eq!(is_forwarded(["accept", name].into_iter()), expect, "{name}");
        }
    }
}
