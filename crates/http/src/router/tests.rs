//! The router against tables. `tests/machine/router.rs` compares it with a simple implementation.

use super::*;
use proptest::prelude::*;

fn route(name: &str, hosts: &[&str], path: &str, methods: MethodSet) -> Route<usize> {
    let hosts = hosts.iter().map(ToString::to_string).collect();
    Route { name: name.into(), hosts, path: path.into(), methods, value: 0 }
}

fn get() -> MethodSet {
    MethodSet::of(&[Method::Get])
}

fn build(routes: &[Route<usize>]) -> Result<Router<usize>, Vec<RouteError>> {
    let mut builder = Router::builder();
    for (value, route) in routes.iter().enumerate() {
        builder.add(Route { value, ..route.clone() });
    }
    builder.build().map_err(|errors| errors.into_iter().collect())
}

/// Formats a result: `3 a=x` for route 3 with a parameter, and a word for other results.
fn show(lookup: &Lookup<'_, '_, usize>) -> String {
    match lookup {
        Lookup::Found(found) => {
            let mut text = found.value.to_string();
            for (name, value) in found.params.iter() {
                text.push_str(&format!(" {name}={}", String::from_utf8_lossy(value)));
            }
            text
        }
        Lookup::MethodNotAllowed { allow } => format!("405 {allow}"),
        Lookup::Misdirected => "421".into(),
        Lookup::NotFound => "404".into(),
        Lookup::Options { allow } => format!("options {allow}"),
    }
}

#[test]
fn lookups() {
    let router = build(&[
        route("livez", &[], "/livez", get()),
        route("acme", &[], "/.well-known/acme-challenge/{*token}", get()),
        route("to_https", &["example.com", "WWW.example.com"], "/{*rest}", MethodSet::ANY),
        route("user", &[], "/user/{id}", get()),
        route("user_post", &[], "/user/{other}/post", MethodSet::of(&[Method::Post])),
        route("user_me", &[], "/user/me", get()),
        route("probe", &[], "/probe", MethodSet::of(&[Method::Get, Method::Options])),
        route("wild", &["files.example.com"], "/a/{*rest}", get()),
        route("one", &["files.example.com"], "/a/{one}", get()),
    ])
    .unwrap();
    for (host, method, path, expected) in [
        ("10.0.0.1:8080", Method::Get, "/livez", "0"),
        ("10.0.0.1:8080", Method::Head, "/livez", "0"),
        ("10.0.0.1:8080", Method::Post, "/livez", "405 GET, HEAD, OPTIONS"),
        ("10.0.0.1:8080", Method::Trace, "/livez", "405 GET, HEAD, OPTIONS"),
        ("10.0.0.1:8080", Method::Options, "/livez", "options GET, HEAD, OPTIONS"),
        ("10.0.0.1:8080", Method::Options, "/probe", "6"),
        ("10.0.0.1:8080", Method::Options, "*", "options GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"),
        ("10.0.0.1:8080", Method::Get, "*", "404"),
        ("10.0.0.1:8080", Method::Get, "/Livez", "421"),
        ("example.com:80", Method::Get, "/livez", "0"),
        ("example.com:80", Method::Get, "/livez/", "2 rest=livez/"),
        ("EXAMPLE.com.", Method::Post, "/", "2 rest="),
        ("www.example.com", Method::Get, "/x//y", "2 rest=x//y"),
        ("example.com", Method::Get, "/.well-known/acme-challenge/t0k", "1 token=t0k"),
        ("example.com", Method::Get, "/.well-known/other", "2 rest=.well-known/other"),
        ("evil.com", Method::Get, "/x", "421"),
        ("evil.com", Method::Get, "/user/7", "3 id=7"),
        ("", Method::Get, "/user/me", "5"),
        ("", Method::Get, "/user/", "421"),
        ("", Method::Post, "/user/7/post", "4 other=7"),
        ("", Method::Get, "/user/7/post", "405 OPTIONS, POST"),
        ("files.example.com", Method::Get, "/a/x", "8 one=x"),
        ("files.example.com", Method::Get, "/a/x/y", "7 rest=x/y"),
        ("files.example.com", Method::Get, "/a/", "7 rest="),
        ("files.example.com", Method::Get, "/a", "404"),
        ("files.example.com", Method::Get, "", "404"),
        ("files.example.com", Method::Get, "a/x", "404"),
    ] {
        let found = show(&router.find(Some(host.as_bytes()), method, path.as_bytes()));
        assert_eq!(found, expected, "{method:?} {host} {path}");
    }
    assert_eq!(show(&router.find(None, Method::Get, b"/livez")), "0");
    assert_eq!(router.values().count(), 9);
}

#[test]
fn the_named_host_wins_its_methods_and_leaves_the_rest() {
    let both = [
        route("any", &[], "/a", MethodSet::of(&[Method::Get, Method::Post])),
        route("named", &["h"], "/a", get()),
    ];
    let router = build(&both).unwrap();
    assert_eq!(show(&router.find(Some(b"h"), Method::Get, b"/a")), "1");
    assert_eq!(show(&router.find(Some(b"h"), Method::Head, b"/a")), "1");
    assert_eq!(show(&router.find(Some(b"h"), Method::Post, b"/a")), "0");
    assert_eq!(show(&router.find(Some(b"other"), Method::Get, b"/a")), "0");
}

/// The path is found before the method: a less specific route of the method is not used.
#[test]
fn a_path_hides_less_specific_paths_for_all_methods() {
    let post = MethodSet::of(&[Method::Post]);
    let router = build(&[
        route("rest", &[], "/{*rest}", MethodSet::ANY),
        route("one", &[], "/a/{one}", get()),
        route("static", &[], "/a/b", post),
        route("host", &["h"], "/a/{*rest}", MethodSet::ANY),
    ])
    .unwrap();
    for (host, method, path, expected) in [
        ("x", Method::Post, "/a/b", "2"),
        ("x", Method::Get, "/a/b", "405 OPTIONS, POST"),
        ("x", Method::Get, "/a/c", "1 one=c"),
        ("x", Method::Post, "/a/c", "405 GET, HEAD, OPTIONS"),
        ("x", Method::Post, "/a/c/d", "0 rest=a/c/d"),
        ("h", Method::Get, "/a/b", "405 OPTIONS, POST"),
        ("h", Method::Post, "/a/c", "405 GET, HEAD, OPTIONS"),
        ("h", Method::Post, "/a/c/d", "3 rest=c/d"),
    ] {
        let found = show(&router.find(Some(host.as_bytes()), method, path.as_bytes()));
        assert_eq!(found, expected, "{method:?} {host} {path}");
    }
}

#[test]
fn the_longest_name_wins() {
    let router = build(&[
        route("any", &[], "/a", MethodSet::ANY),
        route("all", &["*.example.com"], "/a", MethodSet::of(&[Method::Get, Method::Post])),
        route("deep", &["*.b.example.com"], "/a", get()),
        route("exact", &["c.b.example.com"], "/c", get()),
        route("rest", &["*.example.com"], "/{*rest}", get()),
    ])
    .unwrap();
    for (host, method, path, expected) in [
        ("x.example.com", Method::Get, "/a", "1"),
        ("X.EXAMPLE.COM.:80", Method::Get, "/a", "1"),
        ("x.y.example.com", Method::Post, "/a", "1"),
        ("x.b.example.com", Method::Get, "/a", "2"),
        ("x.b.example.com", Method::Post, "/a", "1"),
        ("x.b.example.com", Method::Delete, "/a", "0"),
        ("b.example.com", Method::Get, "/a", "1"),
        ("c.b.example.com", Method::Get, "/c", "3"),
        ("c.b.example.com", Method::Get, "/a", "2"),
        ("c.b.example.com", Method::Get, "/d", "4 rest=d"),
        ("d.b.example.com", Method::Get, "/c", "4 rest=c"),
        ("example.com", Method::Get, "/a", "0"),
        ("example.com", Method::Get, "/c", "421"),
        (".example.com", Method::Get, "/c", "421"),
        ("notexample.com", Method::Get, "/a", "0"),
        ("[::1]", Method::Get, "/a", "0"),
    ] {
        let found = show(&router.find(Some(host.as_bytes()), method, path.as_bytes()));
        assert_eq!(found, expected, "{method:?} {host} {path}");
    }
    // Names beyond the maximum length match no wildcard.
    let long = "a.".repeat(8000) + "example.com";
    assert_eq!(show(&router.find(Some(long.as_bytes()), Method::Get, b"/a")), "0");
}

#[test]
fn the_short_way_never_leaves_a_host_out() {
    let guarded = |hosts: &[&str]| {
        build(&[route("guarded", hosts, "/status", get()), route("open", &[], "/status", get())]).unwrap()
    };
    let limits = crate::Limits::default();
    let bytes = b"GET /status HTTP/1.1\r\nHost: x.corp.example\r\n\r\n";
    let mut head = crate::parse::Head::new();
    head.parse(bytes, &limits).unwrap().unwrap();
    let request = Request::new(bytes, &head, b"");
    for hosts in [&["*.corp.example"][..], &["x.corp.example"], &["h", "*.corp.example"]] {
        let router = guarded(hosts);
        assert_eq!(show(&router.find_for(&request)), "0", "{hosts:?}");
        assert!(router.find_plain(&request).is_none_or(|found| *found.value() == 0), "{hosts:?}");
    }
    let router = build(&[route("open", &[], "/status", get())]).unwrap();
    assert!(router.find_plain(&request).is_some(), "most probes use the plain path");
    router.forgo_plain();
    for router in [router.clone(), router] {
        assert!(router.find_plain(&request).is_none());
        assert_eq!(show(&router.find_for(&request)), "0");
    }
}

#[test]
fn conflicts_name_both_routes() {
    let errors = build(&[
        route("one", &[], "/a/{x}", get()),
        route("two", &[], "/a/{y}", get()),
        route("three", &["h", "i"], "/b", MethodSet::ANY),
        route("four", &["I", "h"], "/b", get()),
        route("five", &[], "/b", get()),
        route("six", &["*.h"], "/b", get()),
        route("seven", &["*.H."], "/b", MethodSet::of(&[Method::Get, Method::Post])),
    ])
    .unwrap_err();
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "routes `one` and `two` match the same requests: GET /a/{x} (= /a/{y}) on any host",
            "route `three` hides a part of route `four`: GET /b on host h",
            "route `six` hides a part of route `seven`: GET /b on host *.h",
        ]
    );
}

#[test]
fn each_route_conflicts_only_with_the_first_that_claims_a_method() {
    let post = MethodSet::of(&[Method::Post]);
    let mut routes = vec![route("get", &[], "/", get()), route("post", &["h", "i"], "/", post)];
    routes.extend((0..300).map(|n| route(&format!("any{n}"), &[], "/", MethodSet::ANY)));
    routes.extend((0..300).map(|n| route(&format!("here{n}"), &["i", "h"], "/", MethodSet::ANY)));
    let errors = build(&routes).unwrap_err();
    let found = errors.iter().map(|error| match error {
        RouteError::Duplicate(conflict) | RouteError::Shadowed(conflict) => {
            (conflict.first.as_str(), conflict.second.as_str())
        }
        other => panic!("{other}"),
    });
    let found: Vec<_> = found.collect();
    assert_eq!(found[..3], [("get", "any0"), ("get", "any1"), ("any0", "any1")]);
    // The first of each kind conflicts with one route, every other with two.
    assert_eq!(found.len(), 2 * (1 + 299 * 2));
}

#[test]
fn every_bad_route_is_reported() {
    let many = "/{a}".to_owned() + &"/x".repeat(SEGMENTS_MAX);
    let params: String = (0..=PARAMS_MAX).map(|n| format!("/{{p{n}}}")).collect();
    let bad = [
        ("", PatternError::NoLeadingSlash),
        ("a", PatternError::NoLeadingSlash),
        ("/a{b}", PatternError::BadByte(b'{')),
        ("/{b}.png", PatternError::BadByte(b'{')),
        ("/a b", PatternError::BadByte(b' ')),
        ("/a?b", PatternError::BadByte(b'?')),
        ("/a\\b", PatternError::BadByte(b'\\')),
        ("/{}", PatternError::BadName),
        ("/{*}", PatternError::BadName),
        ("/{a-b}", PatternError::BadName),
        ("/{a}/{a}", PatternError::DuplicateName),
        ("/{*a}/b", PatternError::RestNotLast),
        (&many, PatternError::TooManySegments),
        (&params, PatternError::TooManyParams),
    ];
    let routes: Vec<_> = bad.iter().map(|(path, _)| route("r", &[], path, get())).collect();
    let errors = build(&routes).unwrap_err();
    assert_eq!(errors.len(), bad.len());
    for (error, (path, expected)) in errors.iter().zip(bad) {
        let RouteError::BadPath { cause, .. } = error else { panic!("{error}") };
        assert_eq!(*cause, expected, "{path}");
    }
    let errors = build(&[route("r", &["a b", "u@h"], "/", MethodSet::EMPTY)]).unwrap_err();
    assert_eq!(errors.len(), 3);
    assert_eq!(errors[0].to_string(), "route `r`: `a b` is not a host name or an address");
    assert_eq!(errors[2].to_string(), "route `r` has no methods");
}

#[test]
fn a_tree_full_of_branches_is_walked_once() {
    // Every segment has a static and a parameter branch, and none of them matches. Each node may be
    // visited only once.
    let mut routes = Vec::new();
    for n in 0..200_u32 {
        let path: String = (0..7).map(|bit| if n >> bit & 1 == 0 { "/a" } else { "/{p}" }).collect();
        let names = (0..7).fold(path, |path, bit| path.replacen("{p}", &format!("{{n{bit}}}"), 1));
        routes.push(route(&n.to_string(), &[], &(names + "/end"), get()));
    }
    routes.truncate(128);
    let router = build(&routes).unwrap();
    assert_eq!(show(&router.find(None, Method::Get, b"/a/a/a/a/a/a/a/no")), "404");
    assert_eq!(show(&router.find(None, Method::Get, b"/b/a/a/a/a/a/a/end")), "1 n0=b");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_only_a_lookup(
        host in prop::collection::vec(any::<u8>(), 0..40),
        path in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let router = build(&[
            route("a", &["h"], "/a/{x}/b/{*y}", get()),
            route("b", &[], "/{x}/{y}", get()),
        ]).unwrap();
        if let Lookup::Found(found) = router.find(Some(&host), Method::Get, &path) {
            prop_assert_eq!(path[0], b'/');
            for (_, value) in found.params.iter() {
                prop_assert!(path.windows(value.len().max(1)).any(|window| window == value) || value.is_empty());
            }
        }
    }
}

/// A listed host that is an address is found in each of its notations (RFC 4291 2.2).
#[test]
fn an_address_is_one_host_however_it_is_written() {
    for listed in ["[2001:db8::1]", "[2001:DB8:0:0:0:0:0:1]", "[2001:db8:0::0001]"] {
        let router = build(&[route("r", &[listed], "/", MethodSet::ANY)]).unwrap();
        for asked in ["[2001:db8::1]", "[2001:DB8::1]:80", "[2001:db8:0:0:0:0:0:1]", "[2001:db8:0::1]"] {
            let found = router.find(Some(asked.as_bytes()), Method::Get, b"/");
            assert!(matches!(found, Lookup::Found(_)), "{listed} requested as {asked}: {found:?}");
        }
        let other = router.find(Some(b"[2001:db8::2]"), Method::Get, b"/");
        assert!(matches!(other, Lookup::Misdirected), "{other:?}");
    }
}
