//! Networks and chains of proxies, in tables and compared with simple models.

use super::*;
use crate::Limits;
use crate::parse::Head;
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn networks(texts: &[&str]) -> Networks {
    Networks::parse(texts.iter().copied()).unwrap()
}

/// The trusted proxies of these tests: `10.0.0.0/8` and `fd00::/8`.
fn trusted(from: ForwardedFrom) -> TrustedProxies {
    TrustedProxies::new(networks(&["10.0.0.0/8", "fd00::/8"]), from)
}

/// Returns the origin of a request with these field lines in the form `192.0.2.1 https`.
fn origin(proxies: &TrustedProxies, peer: &str, lines: &[(&str, &str)]) -> String {
    let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for (name, value) in lines {
        bytes.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    bytes.extend(b"\r\n");
    let mut head = Head::new();
    assert_eq!(head.parse(&bytes, &Limits::default()), Ok(Some(bytes.len())), "{lines:?}");
    let origin = proxies.origin_of(&Request::new(&bytes, &head, b""), peer.parse().unwrap());
    let scheme = match origin.scheme {
        Some(Scheme::Http) => " http",
        Some(Scheme::Https) => " https",
        None => "",
    };
    format!("{}{scheme}", origin.addr)
}

#[test]
fn x_forwarded_for() {
    let proxies = trusted(ForwardedFrom::XForwardedFor);
    for (peer, values, expected) in [
        ("10.0.0.1", &[][..], "10.0.0.1"),
        ("10.0.0.1", &["192.0.2.1"], "192.0.2.1"),
        ("::ffff:10.0.0.1", &["192.0.2.1"], "192.0.2.1"),
        ("::ffff:198.51.100.1", &["192.0.2.1"], "198.51.100.1"),
        ("198.51.100.1", &["192.0.2.1"], "198.51.100.1"),
        ("10.0.0.1", &["203.0.113.9, 192.0.2.1"], "192.0.2.1"),
        ("10.0.0.1", &["203.0.113.9, 192.0.2.1, 10.9.9.9"], "192.0.2.1"),
        ("10.0.0.1", &["203.0.113.9", "192.0.2.1", "10.9.9.9,10.8.8.8"], "192.0.2.1"),
        ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", &["192.0.2.1,,  , 10.0.0.2 ,"], "192.0.2.1"),
        ("10.0.0.1", &["", "192.0.2.1", ""], "192.0.2.1"),
        ("10.0.0.1", &["192.0.2.1, what, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", &["192.0.2.1, unknown"], "10.0.0.1"),
        ("10.0.0.1", &["192.0.2.1, 192.0.2.01"], "10.0.0.1"),
        ("10.0.0.1", &["192.0.2.1, \u{e9}"], "10.0.0.1"),
        ("10.0.0.1", &["192.0.2.1:8080"], "192.0.2.1"),
        ("10.0.0.1", &["192.0.2.1:"], "10.0.0.1"),
        ("10.0.0.1", &["192.0.2.1:123456"], "10.0.0.1"),
        ("10.0.0.1", &["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
        ("10.0.0.1", &["[2001:db8::1]:443"], "2001:db8::1"),
        ("10.0.0.1", &["[2001:db8::1]443"], "10.0.0.1"),
        ("10.0.0.1", &["[2001:db8::1"], "10.0.0.1"),
        ("10.0.0.1", &["[192.0.2.1]"], "10.0.0.1"),
        ("10.0.0.1", &["::ffff:192.0.2.1"], "192.0.2.1"),
        ("10.0.0.1", &["192.0.2.1, ::ffff:10.0.0.2"], "192.0.2.1"),
        ("fd00::1", &["192.0.2.1, fd12::2"], "192.0.2.1"),
        ("10.0.0.1", &["\"192.0.2.1\""], "10.0.0.1"),
    ] {
        let lines: Vec<_> = values.iter().map(|value| ("X-FORWARDED-for", *value)).collect();
        assert_eq!(origin(&proxies, peer, &lines), expected, "{peer} {values:?}");
    }
    let other = [("Forwarded", "for=192.0.2.1")];
    assert_eq!(origin(&proxies, "10.0.0.1", &other), "10.0.0.1", "the unused field is not trusted");
}

#[test]
fn x_forwarded_proto() {
    let proxies = trusted(ForwardedFrom::XForwardedFor);
    let ask = |peer: &str, protos: &[&str]| {
        let lines: Vec<_> = protos.iter().map(|value| ("X-Forwarded-Proto", *value)).collect();
        origin(&proxies, peer, &[&lines[..], &[("X-Forwarded-For", "192.0.2.1")]].concat())
    };
    for (protos, expected) in [
        (&["https"][..], "192.0.2.1 https"),
        (&["HTTP"], "192.0.2.1 http"),
        (&["http, https"], "192.0.2.1 https"),
        (&["http", "https"], "192.0.2.1 https"),
        (&["https", "gopher"], "192.0.2.1"),
        (&["https,"], "192.0.2.1"),
    ] {
        assert_eq!(ask("10.0.0.1", protos), expected, "{protos:?}");
        assert_eq!(ask("192.0.2.9", protos), "192.0.2.9", "{protos:?}");
    }
    assert_eq!(origin(&proxies, "10.0.0.1", &[("X-Forwarded-Proto", "https")]), "10.0.0.1 https");
}

/// A client reaches the first of two trusted proxies by HTTP and claims HTTPS. `first` and `second`
/// are what the proxies do with the field.
#[test]
fn chains_of_proxies_never_report_the_scheme_that_the_client_claims() {
    let proxies = trusted(ForwardedFrom::XForwardedFor);
    for (first, second, protos, expected) in [
        ("replaces", "replaces", "http", "http"),
        ("replaces", "passes on", "http", "http"),
        ("appends", "replaces", "http", "http"),
        ("appends", "passes on", "https, http", "http"),
        ("replaces", "appends, reached by HTTPS", "http, https", "https"),
        ("appends", "appends, reached by HTTP", "https, http, http", "http"),
        ("appends", "appends, reached by HTTPS", "https, http, https", "https"),
    ] {
        let lines = [("X-Forwarded-For", "192.0.2.1, 10.0.0.2"), ("X-Forwarded-Proto", protos)];
        let found = origin(&proxies, "10.0.0.1", &lines);
        assert_eq!(found, format!("192.0.2.1 {expected}"), "{first}, {second}");
    }
    // In `Forwarded` each hop has its own element: that of the client counts.
    let proxies = trusted(ForwardedFrom::Forwarded);
    for (value, expected) in [
        ("for=192.0.2.1;proto=http, for=10.0.0.2;proto=https", "192.0.2.1 http"),
        ("for=203.0.113.9;proto=https, for=192.0.2.1;proto=http, for=10.0.0.2;proto=https", "192.0.2.1 http"),
        ("for=203.0.113.9;proto=https, for=192.0.2.1, for=10.0.0.2;proto=https", "192.0.2.1"),
    ] {
        assert_eq!(origin(&proxies, "10.0.0.1", &[("Forwarded", value)]), expected, "{value}");
    }
}

#[test]
fn forwarded() {
    let proxies = trusted(ForwardedFrom::Forwarded);
    for (values, expected) in [
        (&[][..], "10.0.0.1"),
        (&["for=192.0.2.1"], "192.0.2.1"),
        (&["FOR=192.0.2.1;Proto=HTTPS;by=203.0.113.43"], "192.0.2.1 https"),
        (&["for=192.0.2.1 ; proto=https"], "192.0.2.1 https"),
        (&["proto=http;for=\"192.0.2.1:4711\""], "192.0.2.1 http"),
        (&["for=192.0.2.1;proto=https, for=10.0.0.2;proto=http"], "192.0.2.1 https"),
        (&["for=203.0.113.1", "for=192.0.2.1", "for=10.0.0.2;by=10.0.0.1"], "192.0.2.1"),
        (&["for=\"[2001:db8:cafe::17]:4711\""], "2001:db8:cafe::17"),
        (&["For=\"[2001:db8:cafe::17]\""], "2001:db8:cafe::17"),
        (&["for=\"[::ffff:192.0.2.1]\""], "192.0.2.1"),
        (&["for=\"192.0.2.1:_port\""], "192.0.2.1"),
        (&["for=192.0.2.1;ext=\"a, b; for=10.0.0.9 \\\" \\\\\""], "192.0.2.1"),
        (&["for=192.0.2.1;;"], "192.0.2.1"),
        (&["for=203.0.113.7, for=192.0.2.1,, for=10.0.0.2,"], "192.0.2.1"),
        (&["for=192.0.2.1, for=unknown"], "10.0.0.1"),
        (&["for=192.0.2.1, for=_hidden;proto=https"], "10.0.0.1"),
        (&["for=192.0.2.1, by=10.0.0.2"], "10.0.0.1"),
        (&["for=192.0.2.1, for=10.0.0.2, for=_x, for=10.0.0.3"], "10.0.0.3"),
        (&["for=2001:db8::1"], "10.0.0.1"),
        (&["for=[2001:db8::1]"], "10.0.0.1"),
        (&["for=\"2001:db8::1\""], "10.0.0.1"),
        (&["for=192.0.2.1:80"], "10.0.0.1"),
        (&["for=192.0.2.1;for=192.0.2.2"], "10.0.0.1"),
        (&["for=192.0.2.1;proto=http;proto=https"], "10.0.0.1"),
        (&["for=192.0.2.1 proto=http"], "10.0.0.1"),
        (&["for=\"192.0.2.1"], "10.0.0.1"),
        (&["for=192.0.2.1\""], "10.0.0.1"),
        (&["for=\"192.0.2.1\"x"], "10.0.0.1"),
        (&["for=\"192.0.2\\.1\""], "10.0.0.1"),
        (&["for"], "10.0.0.1"),
        (&["for="], "10.0.0.1"),
        (&["=192.0.2.1"], "10.0.0.1"),
        (&["for =192.0.2.1"], "10.0.0.1"),
        (&["192.0.2.1"], "10.0.0.1"),
        // A quoted string that a client did not close does not hide the proxy's element.
        (&["for=\"10.0.0.9, for=192.0.2.1"], "192.0.2.1"),
        (&["for=\"10.0.0.9\\, for=192.0.2.1"], "192.0.2.1"),
        (&["x=\", for=192.0.2.1, for=10.0.0.2;ext=\"a,b\""], "192.0.2.1"),
        (&["for=\"10.0.0.9, for=\"10.0.0.3\""], "10.0.0.3"),
    ] {
        let lines: Vec<_> = values.iter().map(|value| ("Forwarded", *value)).collect();
        assert_eq!(origin(&proxies, "10.0.0.1", &lines), expected, "{values:?}");
        assert_eq!(origin(&proxies, "192.0.2.9", &lines), "192.0.2.9", "{values:?}");
    }
    let other = [("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https")];
    assert_eq!(origin(&proxies, "10.0.0.1", &other), "10.0.0.1");
}

#[test]
fn the_walk_is_bounded() {
    let mut proxies = trusted(ForwardedFrom::XForwardedFor);
    let chain: Vec<String> = (1..=40).rev().map(|last| format!("10.1.1.{last}")).collect();
    let one_line = chain.join(", ");
    let lines: Vec<_> = chain.iter().map(|addr| ("X-Forwarded-For", addr.as_str())).collect();
    for (hops_max, expected) in
        [(0, "10.0.0.1"), (1, "10.1.1.1"), (3, "10.1.1.3"), (16, "10.1.1.16"), (255, "10.1.1.16")]
    {
        proxies.hops_max = hops_max;
        assert_eq!(origin(&proxies, "10.0.0.1", &[("X-Forwarded-For", &one_line)]), expected);
        assert_eq!(origin(&proxies, "10.0.0.1", &lines), expected);
    }
    let mut forwarded = trusted(ForwardedFrom::Forwarded);
    forwarded.hops_max = 3;
    let elements: Vec<String> = chain.iter().map(|addr| format!("for={addr}")).collect();
    assert_eq!(origin(&forwarded, "10.0.0.1", &[("Forwarded", &elements.join(","))]), "10.1.1.3");
    // Thousands of quotes and backslashes are handled.
    for hostile in ["\\\"".repeat(3000), "\"".repeat(6001), "\\".repeat(6000), ",".repeat(6000)] {
        assert_eq!(origin(&forwarded, "10.0.0.1", &[("Forwarded", &hostile)]), "10.0.0.1");
    }
}

#[test]
fn no_proxy_is_trusted_by_default() {
    let proxies = TrustedProxies::new(Networks::default(), ForwardedFrom::default());
    assert!(proxies.networks.is_empty());
    assert_eq!(origin(&proxies, "127.0.0.1", &[("X-Forwarded-For", "192.0.2.1")]), "127.0.0.1");
}

#[test]
fn good_networks() {
    for (text, shown, inside, outside) in [
        (
            "10.0.0.0/8",
            "10.0.0.0/8",
            &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"][..],
            &["9.255.255.255", "11.0.0.0", "::10.0.0.1"][..],
        ),
        ("192.0.2.1", "192.0.2.1/32", &["192.0.2.1"], &["192.0.2.0", "192.0.2.2"]),
        ("0.0.0.0/0", "0.0.0.0/0", &["0.0.0.0", "255.255.255.255", "::ffff:1.1.1.1"], &["::", "::1"]),
        ("::1", "::1/128", &["::1"], &["::", "::2", "127.0.0.1"]),
        ("::/0", "::/0", &["::", "ffff::"], &["1.2.3.4", "::ffff:1.2.3.4"]),
        ("fe80::/10", "fe80::/10", &["fe80::1", "febf:ffff::"], &["fec0::", "fe7f::"]),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8", &["10.9.9.9"], &["11.0.0.0"]),
        ("::ffff:192.0.2.1", "192.0.2.1/32", &["192.0.2.1"], &["192.0.2.2"]),
        ("::ffff:0:0/96", "0.0.0.0/0", &["1.2.3.4"], &["::1"]),
    ] {
        let network: Network = text.parse().unwrap();
        assert_eq!(network.to_string(), shown);
        let networks: Networks = [network].into_iter().collect();
        inside.iter().for_each(|addr| assert!(networks.contains(addr.parse().unwrap()), "{text} {addr}"));
        outside.iter().for_each(|addr| assert!(!networks.contains(addr.parse().unwrap()), "{text} {addr}"));
    }
}

#[test]
fn bad_networks() {
    for (text, message) in [
        ("", "not an IP address before the prefix length"),
        ("example.com", "not an IP address before the prefix length"),
        ("10.0.0/8", "not an IP address before the prefix length"),
        ("10.0.0.0 /8", "not an IP address before the prefix length"),
        ("10.0.0.0/", "the prefix length is not a number from 0 to 32"),
        ("10.0.0.0/33", "the prefix length is not a number from 0 to 32"),
        ("10.0.0.0/+8", "the prefix length is not a number from 0 to 32"),
        ("10.0.0.0/08", "the prefix length is not a number from 0 to 32"),
        ("10.0.0.0/255.0.0.0", "the prefix length is not a number from 0 to 32"),
        ("::/129", "the prefix length is not a number from 0 to 128"),
        ("::/256", "the prefix length is not a number from 0 to 128"),
        ("10.0.0.1/8", "the address has bits after the prefix; the network is 10.0.0.0/8"),
        ("2001:db8::1/32", "the address has bits after the prefix; the network is 2001:db8::/32"),
        ("::ffff:10.0.0.1/104", "the address has bits after the prefix; the network is 10.0.0.0/8"),
        ("::ffff:10.0.0.0/64", "the address has bits after the prefix; the network is ::/64"),
    ] {
        let error = text.parse::<Network>().unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
        assert_eq!(Networks::parse(["::1", text]), Err((1, error)));
    }
}

proptest! {
    #[test]
    fn networks_as_a_plain_list(nets in vec((any::<u32>(), 0..=32u8), 0..20), addrs in vec(any::<u32>(), 0..20)) {
        // Addresses at the bounds of the networks are included.
        let mask = |len: u8| u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        let edges = nets.iter().flat_map(|&(bits, len)| {
            let first = bits & mask(len);
            [first, first.wrapping_sub(1), first | !mask(len), (first | !mask(len)).wrapping_add(1)]
        });
        let addrs: Vec<u32> = addrs.iter().copied().chain(edges).collect();
        let v4 = |bits: u32| IpAddr::V4(Ipv4Addr::from_bits(bits));
        let v6 = |bits: u32| IpAddr::V6(Ipv6Addr::from_bits(u128::from(bits) << 96));
        let set: Networks = nets.iter().map(|&(bits, len)| Network::new(v4(bits & mask(len)), len).unwrap()).collect();
        let set6: Networks = nets.iter().map(|&(bits, len)| Network::new(v6(bits & mask(len)), len).unwrap()).collect();
        for addr in addrs {
            let expected = nets.iter().any(|&(bits, len)| (bits ^ addr) & mask(len) == 0);
            prop_assert_eq!(set.contains(v4(addr)), expected);
            prop_assert_eq!(set6.contains(v6(addr)), expected);
        }
    }

    /// The client is found whatever it sends before the proxies' elements, and no text makes an
    /// address trusted.
    #[test]
    fn a_client_cannot_hide(sent in "[ -~]{0,40}", hops in 0..4u8, in_one_line: bool, forwarded: bool) {
        let from = if forwarded { ForwardedFrom::Forwarded } else { ForwardedFrom::XForwardedFor };
        let name = if forwarded { "Forwarded" } else { "X-Forwarded-For" };
        let element = |addr: &str| if forwarded { format!("for={addr}") } else { addr.to_owned() };
        let mut appended = vec![element("192.0.2.1")];
        appended.extend((0..hops).map(|hop| element(&format!("10.0.0.{hop}"))));
        let proxies = trusted(from);
        let found = if in_one_line {
            origin(&proxies, "10.1.1.1", &[(name, &format!("{sent}, {}", appended.join(", ")))])
        } else {
            origin(&proxies, "10.1.1.1", &[(name, &sent), (name, &appended.join(", "))])
        };
        prop_assert_eq!(found, "192.0.2.1");
        prop_assert_eq!(origin(&proxies, "192.0.2.9", &[(name, &sent)]), "192.0.2.9");
    }
}
