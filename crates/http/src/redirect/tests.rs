//! Locations in a table, and the locations for any request checked by a strict URL parser.

use super::*;
use crate::Method;
use crate::router::{Lookup, MethodSet, Route, Router};
use proptest::prelude::*;

fn location(
    redirect: &Redirect,
    host: &str,
    path: &str,
    query: Option<&str>,
) -> Result<String, RedirectError> {
    let target = RedirectTarget {
        host: Some(host.as_bytes()),
        path: path.as_bytes(),
        query: query.map(str::as_bytes),
        params: Params::none(),
    };
    let mut buf = [0; 256];
    redirect.location(&target, &mut buf).map(|location| String::from_utf8(location.to_vec()).unwrap())
}

fn https() -> RedirectBuilder {
    Redirect::to(Scheme::Https).host("Example.com").host("www.example.com").host("[::1]")
}

#[test]
fn the_status_is_the_one_that_was_asked_for() {
    assert_eq!(https().build().unwrap().status(), RedirectStatus::PermanentRedirect);
    let found = https().status(RedirectStatus::Found).build().unwrap();
    assert_eq!(found.status(), RedirectStatus::Found);
}

#[test]
fn locations() {
    let redirect = https().build().unwrap();
    for (host, path, query, expected) in [
        ("example.com", "/", None, Ok("https://example.com/")),
        ("EXAMPLE.com:80", "/a/b", Some("c=d&e[]=f"), Ok("https://example.com/a/b?c=d&e[]=f")),
        ("www.example.com.", "/", Some(""), Ok("https://www.example.com/?")),
        ("[::1]:8080", "/x", None, Ok("https://[::1]/x")),
        ("example.com", "//evil.com/x", None, Ok("https://example.com//evil.com/x")),
        ("example.com", "/\\evil.com", None, Ok("https://example.com/%5Cevil.com")),
        ("example.com", "/@evil.com", None, Ok("https://example.com/@evil.com")),
        ("example.com", "/%0d%0aSet-Cookie:x", None, Ok("https://example.com/%0d%0aSet-Cookie:x")),
        (
            "example.com",
            "/%zz%2F..%2f",
            Some("u=http://evil/?"),
            Ok("https://example.com/%zz%2F..%2f?u=http://evil/?"),
        ),
        ("example.com", "/\"<>^`{|}", Some("\\'"), Ok("https://example.com/%22%3C%3E%5E%60%7B%7C%7D?%5C'")),
        ("example.com", "/a?b", None, Ok("https://example.com/a%3Fb")),
        ("example.com", "/\r\nSet-Cookie: x", None, Err(RedirectError::BadTarget)),
        ("example.com", "/a", Some("\n"), Err(RedirectError::BadTarget)),
        ("example.com", "/a b", None, Err(RedirectError::BadTarget)),
        ("example.com", "/\0", None, Err(RedirectError::BadTarget)),
        ("example.com", "/%00", None, Err(RedirectError::BadTarget)),
        ("example.com", "/a", Some("x=%00"), Err(RedirectError::BadTarget)),
        ("example.com", "/\x7f", None, Err(RedirectError::BadTarget)),
        ("example.com", "/é", None, Err(RedirectError::BadTarget)),
        ("example.com", "/a#b", None, Err(RedirectError::BadTarget)),
        ("example.com", "*", None, Err(RedirectError::BadTarget)),
        ("example.com", "", None, Err(RedirectError::BadTarget)),
        ("evil.com", "/", None, Err(RedirectError::Misdirected)),
        ("example.com.evil.com", "/", None, Err(RedirectError::Misdirected)),
        ("example.com@evil.com", "/", None, Err(RedirectError::Misdirected)),
        ("", "/", None, Err(RedirectError::Misdirected)),
    ] {
        let found = location(&redirect, host, path, query);
        assert_eq!(found.as_deref(), expected.as_ref().map(|text| *text), "{host} {path:?}");
    }
}

#[test]
fn ports_of_the_scheme_are_dropped_and_others_kept() {
    for (scheme, port, expected) in [
        (Scheme::Https, None, "https://h/"),
        (Scheme::Https, Some(443), "https://h/"),
        (Scheme::Https, Some(80), "https://h:80/"),
        (Scheme::Https, Some(8443), "https://h:8443/"),
        (Scheme::Http, Some(80), "http://h/"),
        (Scheme::Http, Some(443), "http://h:443/"),
    ] {
        let builder = Redirect::to(scheme).host("h");
        let builder = match port {
            Some(port) => builder.port(port),
            None => builder,
        };
        assert_eq!(location(&builder.build().unwrap(), "h:8080", "/", None).unwrap(), expected);
    }
}

#[test]
fn an_unlisted_host_goes_to_the_canonical_one() {
    let redirect = https().canonical_host("Main.example.com").build().unwrap();
    assert_eq!(location(&redirect, "evil.com", "/x", None).unwrap(), "https://main.example.com/x");
    assert_eq!(location(&redirect, "www.example.com", "/x", None).unwrap(), "https://www.example.com/x");
    let target = RedirectTarget { host: None, path: b"/x", query: None, params: Params::none() };
    assert_eq!(redirect.location(&target, &mut [0; 64]).unwrap(), b"https://main.example.com/x");
}

#[test]
fn templates_take_path_parameters_and_query() {
    let routes = Router::builder()
        .route(Route {
            name: "old".into(),
            hosts: vec![],
            path: "/old/{user}/{*rest}".into(),
            methods: MethodSet::ANY,
            value: (),
        })
        .build()
        .unwrap();
    for (template, keep_query, expected) in [
        ("/new/{rest}", true, "https://h/new/b//c?q"),
        ("/{user}{path}", true, "https://h/a/old/a/b//c?q"),
        ("{path}/end", false, "https://h/old/a/b//c/end"),
        ("/", false, "https://h/"),
        ("/{unknown}", false, "https://h/"),
    ] {
        let redirect = Redirect::to(Scheme::Https)
            .canonical_host("h")
            .path(template)
            .keep_query(keep_query)
            .build()
            .unwrap();
        let path = b"/old/a/b//c";
        let Lookup::Found(found) = routes.find(None, Method::Get, path) else { panic!("no route") };
        let target = RedirectTarget { host: None, path, query: Some(b"q"), params: found.params };
        let mut buf = [0; 64];
        assert_eq!(redirect.location(&target, &mut buf).unwrap(), expected.as_bytes(), "{template}");
    }
}

#[test]
fn an_encoded_nul_is_not_put_together() {
    let redirect = https().path("{path}0{path}").build().unwrap();
    assert_eq!(location(&redirect, "example.com", "/%0", None), Err(RedirectError::BadTarget));
    assert_eq!(location(&redirect, "example.com", "/%1", None).unwrap(), "https://example.com/%10/%1");
}

#[test]
fn a_buffer_too_small_is_reported() {
    let redirect = https().build().unwrap();
    let target = RedirectTarget {
        host: Some(b"example.com"),
        path: b"/a\\b",
        query: Some(b"q=1"),
        params: Params::none(),
    };
    let whole = b"https://example.com/a%5Cb?q=1";
    for len in 0..whole.len() {
        assert_eq!(redirect.location(&target, &mut vec![0; len]), Err(RedirectError::TooLong));
    }
    assert_eq!(redirect.location(&target, &mut vec![0; whole.len()]).unwrap(), whole);
}

#[test]
fn what_cannot_be_built() {
    let to = || Redirect::to(Scheme::Https);
    assert_eq!(to().build().unwrap_err(), RedirectBuildError::NoHost);
    assert_eq!(to().host("h").port(0).build().unwrap_err(), RedirectBuildError::ZeroPort);
    for host in ["", "a b", "a/b", "a:80", "u@h", "h\r\n"] {
        assert_eq!(to().host(host).build().unwrap_err(), RedirectBuildError::BadHost(host.into()));
        assert_eq!(to().canonical_host(host).build().unwrap_err(), RedirectBuildError::BadHost(host.into()));
    }
    for path in [
        "", "new", "{rest}", "/{", "/{}", "/{a-b}", "/a b", "/a?b", "/a#b", "/\\", "/\r\n", "/é", "/}",
        "/%00",
    ] {
        assert_eq!(to().host("h").path(path).build().unwrap_err(), RedirectBuildError::BadPath(path.into()));
    }
}

#[test]
fn codes() {
    for code in 0..600 {
        match RedirectStatus::from_code(code) {
            Some(status) => assert_eq!(status.code(), code),
            None => assert!(![301, 302, 303, 307, 308].contains(&code)),
        }
    }
    assert_eq!(RedirectStatus::default().code(), 308);
}

/// Scheme, host, port, path, query.
type Url<'a> = (&'a str, &'a str, Option<u16>, &'a str, Option<&'a str>);

/// Parses a URL strictly by RFC 3986: scheme, host, port, path and query, or `None` for a forbidden
/// byte.
fn parse(url: &str) -> Option<Url<'_>> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#', '\\'])?);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port.parse().ok()?)),
        _ => (authority, None),
    };
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/?[]".contains(&byte);
    (path.starts_with('/') && !authority.contains('@') && rest.bytes().all(allowed))
        .then_some((scheme, host, port, path, query))
}

fn target_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        prop::collection::vec(prop::sample::select(b"/\\@:%0dEaA.?#[]evil.com\r\n \0".to_vec()), 0..60),
        "[!-~]{0,60}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_location_is_ours(
        host in prop_oneof![
            Just(b"example.com:81".to_vec()),
            Just(b"www.example.com".to_vec()),
            target_bytes(),
        ],
        mut path in target_bytes(),
        query in prop::option::of(target_bytes()),
        slash in any::<bool>(),
        port in prop::sample::select(vec![443, 8443]),
        template in prop::sample::select(vec!["{path}", "/x{path}", "/{path}{path}/", "/fixed"]),
    ) {
        if slash {
            path.insert(0, b'/');
        }
        let redirect = https().port(port).path(template).build().unwrap();
        let target =
            RedirectTarget { host: Some(&host), path: &path, query: query.as_deref(), params: Params::none() };
        let mut buf = [0; 512];
        match redirect.location(&target, &mut buf) {
            Ok(location) => {
                let text = std::str::from_utf8(location).unwrap();
                let Some((scheme, host, found_port, path_out, query_out)) = parse(text) else {
                    return Err(TestCaseError::fail(format!("not a URL: {text}")));
                };
                prop_assert_eq!(scheme, "https");
                prop_assert!(["example.com", "www.example.com", "[::1]"].contains(&host));
                prop_assert_eq!(found_port, (port != 443).then_some(port));
                prop_assert!(!text.contains("%00"));
                if template == "{path}" && path.iter().all(|byte| !b"\\\"<>^`{|}?".contains(byte)) {
                    prop_assert_eq!(path_out.as_bytes(), path);
                }
                if query.as_ref().is_none_or(|query| query.iter().all(|byte| !b"\\\"<>^`{|}".contains(byte))) {
                    prop_assert_eq!(query_out.map(str::as_bytes), query.as_deref());
                }
            }
            Err(RedirectError::BadTarget) => {
                let bytes = [path.as_slice(), query.as_deref().unwrap_or_default()];
                let bad = bytes.iter().any(|bytes| {
                    bytes.iter().any(|byte| !(b'!'..=b'~').contains(byte) || *byte == b'#')
                        || bytes.windows(3).any(|window| window == b"%00")
                });
                let doubled = template == "/{path}{path}/";
                prop_assert!(bad || doubled || path.first() != Some(&b'/'));
            }
            Err(RedirectError::Misdirected) => {
                let known = host.to_ascii_lowercase();
                prop_assert!(known != b"example.com:81" && known != b"www.example.com");
            }
            Err(RedirectError::TooLong) => prop_assert!(path.len() * 6 + 200 > 512),
            Err(RedirectError::LeadsBack) => prop_assert!(false, "only for a request"),
        }
    }
}

#[test]
fn an_address_is_one_host_however_it_is_written() {
    let redirect = Redirect::to(Scheme::Https).host("[2001:DB8:0::1]").build().unwrap();
    let location = |host: &str| {
        let target =
            RedirectTarget { host: Some(host.as_bytes()), path: b"/", query: None, params: Params::none() };
        redirect
            .location(&target, &mut [0; 64])
            .map(|location| String::from_utf8_lossy(location).into_owned())
    };
    for host in ["[2001:db8::1]", "[2001:db8:0:0:0:0:0:1]:80"] {
        assert_eq!(location(host).as_deref(), Ok("https://[2001:db8::1]/"), "{host}");
    }
    assert_eq!(location("[2001:db8::2]"), Err(RedirectError::Misdirected));
}
