//! The router, compared with a simple router that tries all routes and applies the documented
//! priorities directly.

use doorbell_http::parse::Head;
use doorbell_http::router::{Lookup, MethodSet, Route, RouteError, Router, host, param_names};
use doorbell_http::{Limits, Method, Request};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Formats the result of a look-up.
fn show(lookup: &Lookup<'_, '_, usize>) -> String {
    match lookup {
        Lookup::Found(found) => {
            let params = found.params.iter();
            let params = params.map(|(name, value)| format!(" {name}={}", String::from_utf8_lossy(value)));
            format!("{}{}", found.value, params.collect::<String>())
        }
        Lookup::MethodNotAllowed { allow } => format!("405 {allow}"),
        Lookup::Misdirected => "421".into(),
        Lookup::NotFound => "404".into(),
        Lookup::Options { allow } => format!("options {allow}"),
    }
}

/// Rank of a pattern for a path, segment by segment; the lowest rank is best. Also returns the
/// parameters.
fn suits<'p>(pattern: &str, path: &'p str) -> Option<(Vec<u8>, Vec<&'p str>)> {
    let (mut kinds, mut values) = (Vec::new(), Vec::new());
    let mut left = path.strip_prefix('/');
    for segment in pattern[1..].split('/') {
        let rest = left?;
        if segment.starts_with("{*") {
            kinds.push(2);
            values.push(rest);
            return Some((kinds, values));
        }
        let (head, tail) = rest.split_once('/').map_or((rest, None), |(head, tail)| (head, Some(tail)));
        if segment.starts_with('{') {
            kinds.push(1);
            values.push(Some(head).filter(|head| !head.is_empty())?);
        } else {
            kinds.push(0);
            (segment == head).then_some(())?;
        }
        left = tail;
    }
    left.is_none().then_some((kinds, values))
}

/// Rank of a route's hosts for a name; the lowest rank is best: the number of bytes matched by the
/// wildcard, 0 without a wildcard, and the largest number for a route for any host. `None` if no
/// host matches.
fn suits_host(hosts: &[String], name: &str) -> Option<usize> {
    if hosts.is_empty() {
        return Some(usize::MAX);
    }
    let one = |host: &String| match host.strip_prefix('*') {
        Some(suffix) => name.strip_suffix(suffix).filter(|open| !open.is_empty()).map(str::len),
        None => (host == name).then_some(0),
    };
    hosts.iter().filter_map(one).min()
}

/// The value of `Allow`, in the order used by the router.
fn allow(methods: impl Fn(Method) -> bool) -> String {
    let order = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE"].into_iter();
    let method = |name: &str| Method::from_bytes(name.as_bytes()).expect("a method");
    order
        .filter(|&name| {
            name == "OPTIONS" || methods(method(name)) || (name == "HEAD" && methods(Method::Get))
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn naive(routes: &[Route<usize>], name: &str, method: Method, path: &str) -> String {
    if method == Method::Options && path == "*" {
        return format!(
            "options {}",
            allow(|method| routes.iter().any(|route| route.methods.contains(method)))
        );
    }
    let named = |route: &&Route<usize>| !route.hosts.is_empty();
    let listed = routes.iter().filter(named).any(|route| suits_host(&route.hosts, name).is_some());
    let elsewhere = routes.iter().filter(named).any(|route| suits(&route.path, path).is_some());
    let mut best: Vec<_> = routes
        .iter()
        .enumerate()
        .filter_map(|(number, route)| {
            let open = suits_host(&route.hosts, name)?;
            let (kinds, values) = suits(&route.path, path)?;
            Some((kinds, open, number, values))
        })
        .collect();
    best.sort();
    let Some((kinds, ..)) = best.first().cloned() else {
        return if elsewhere && !listed { "421" } else { "404" }.into();
    };
    best.retain(|candidate| candidate.0 == kinds);
    let takes = |method| best.iter().find(|&&(_, _, number, _)| routes[number].methods.contains(method));
    let implied = if method == Method::Head { takes(Method::Get) } else { None };
    match takes(method).or(implied) {
        Some((_, _, number, values)) => {
            let names = param_names(&routes[*number].path).expect("a pattern");
            let params = names.iter().zip(values).map(|(name, value)| format!(" {name}={value}"));
            format!("{number}{}", params.collect::<String>())
        }
        None => {
            let word = if method == Method::Options { "options" } else { "405" };
            format!("{word} {}", allow(|method| takes(method).is_some()))
        }
    }
}

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(vec!["a", "b", "ab", "", "long-static-segment"]).prop_map(str::to_owned),
        3 => select(vec!["{x}", "{y}"]).prop_map(str::to_owned),
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    (vec(segment(), 1..5), any::<bool>()).prop_filter_map("a bad pattern", |(mut parts, rest)| {
        if rest {
            parts.push("{*z}".into());
        }
        let path = format!("/{}", parts.join("/"));
        param_names(&path).is_ok().then_some(path)
    })
}

fn some_route() -> impl Strategy<Value = Route<usize>> {
    let hosts = vec(select(vec!["h", "i.j", "k.i.j", "*.j", "*.i.j", "*.h"]), 0..3);
    let methods = select(vec![
        MethodSet::of(&[Method::Get]),
        MethodSet::of(&[Method::Post]),
        MethodSet::of(&[Method::Head, Method::Options]),
        MethodSet::of(&[Method::Trace]),
        MethodSet::ANY,
    ]);
    (hosts, pattern(), methods).prop_map(|(hosts, path, methods)| Route {
        name: String::new(),
        hosts: hosts.into_iter().map(str::to_owned).collect(),
        path,
        methods,
        value: 0,
    })
}

fn some_request() -> impl Strategy<Value = (&'static str, Method, String)> {
    let part = select(vec!["a", "b", "ab", "", "c", "long-static-segment"]);
    let path = prop_oneof![
        20 => vec(part, 1..7).prop_map(|parts| format!("/{}", parts.join("/"))),
        1 => Just("*".to_owned()),
        1 => Just(String::new()),
    ];
    let hosts = vec![
        "h", "i.j", "k.i.j", "l.i.j", "m.l.i.j", "x.j", "j", "x.h", "k", "", "H:80", "I.J.", ".j", "[::1]",
    ];
    (select(hosts), select(Method::ALL.to_vec()), path)
}

/// Adds routes one by one and returns those without a conflict, each with its number. The error for
/// a conflicting route must name the other route.
fn build(candidates: Vec<Route<usize>>) -> Result<(Vec<Route<usize>>, Router<usize>), TestCaseError> {
    let mut routes: Vec<Route<usize>> = Vec::new();
    let mut router = Router::builder().build().expect("without routes there is no conflict");
    for mut candidate in candidates {
        candidate.value = routes.len();
        candidate.name = format!("r{}", routes.len());
        routes.push(candidate);
        let builder = routes.iter().cloned().fold(Router::builder(), |builder, route| builder.route(route));
        match builder.build() {
            Ok(built) => router = built,
            Err(errors) => {
                let refused = routes.pop().expect("the route was just pushed");
                check_conflicts(&routes, &refused, errors.all())?;
            }
        }
    }
    Ok((routes, router))
}

/// Asserts that a conflict is reported exactly for routes with the same shape of path, a common
/// host and a common method.
fn check_conflicts(
    routes: &[Route<usize>],
    refused: &Route<usize>,
    errors: &[RouteError],
) -> Result<(), TestCaseError> {
    let shape = |path: &str| path.replace("{x}", "{}").replace("{y}", "{}");
    let clash = |route: &&Route<usize>| {
        let hosts = if route.hosts.is_empty() {
            refused.hosts.is_empty()
        } else {
            route.hosts.iter().any(|host| refused.hosts.contains(host))
        };
        hosts
            && shape(&route.path) == shape(&refused.path)
            && !route.methods.intersection(refused.methods).is_empty()
    };
    let expected: Vec<&str> = routes.iter().filter(clash).map(|route| route.name.as_str()).collect();
    let mut named = Vec::new();
    for error in errors {
        match error {
            RouteError::Duplicate(conflict) | RouteError::Shadowed(conflict) => {
                prop_assert_eq!(&conflict.second, &refused.name);
                let first = format!("`{}`", conflict.first);
                prop_assert!(error.to_string().contains(&first));
                named.push(conflict.first.as_str());
            }
            other => prop_assert!(false, "{}", other),
        }
    }
    named.sort_by_key(|name| name[1..].parse::<usize>().expect("a number"));
    prop_assert_eq!(named, expected);
    Ok(())
}

/// Asserts that the fast path returns nothing or the result of the full look-up, and that it finds
/// every path without parameters if no route names a host.
fn check_plain(
    router: &Router<usize>,
    by_host: bool,
    (host, method, path): &(&str, Method, String),
) -> Result<(), TestCaseError> {
    let bytes = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
    let mut head = Head::new();
    let Ok(Some(_)) = head.parse(&bytes, &Limits::default()) else {
        return Ok(());
    };
    let request = Request::new(&bytes, &head, b"");
    let found = router.find_for(&request);
    match router.find_plain(&request) {
        Some(plain) => {
            prop_assert_eq!(show(&Lookup::Found(plain.matched(&request))), show(&found));
            prop_assert!(matches!(found, Lookup::Found(found) if found.value == plain.value()));
        }
        None => {
            let is_static = matches!(&found, Lookup::Found(found) if found.params.iter().next().is_none());
            prop_assert!(by_host || !is_static, "{} {} is a static route", method, path);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// The router agrees with the simple router. Each listener has its own routes, and all get the
    /// same requests.
    #[test]
    fn same_as_naive(
        listeners in vec((vec(some_route(), 0..12), any::<bool>()), 1..4),
        requests in vec(some_request(), 1..20),
    ) {
        for (mut candidates, only_wild) in listeners {
            if only_wild {
                candidates.iter_mut().for_each(|route| route.hosts.retain(|host| host.starts_with('*')));
            }
            let (routes, router) = build(candidates)?;
            let by_host = routes.iter().any(|route| !route.hosts.is_empty());
            // Random paths rarely match two routes, so the paths of the routes are requested as
            // well.
            let hits = routes.iter().filter(|route| !route.path.contains('{')).flat_map(|route| {
                requests.iter().map(|&(host, method, _)| (host, method, route.path.clone()))
            });
            for request in hits.chain(requests.iter().cloned()).collect::<Vec<_>>().iter() {
                let (host, method, path) = request;
                check_plain(&router, by_host, request)?;
                let name = String::from_utf8_lossy(host::without_port(host.as_bytes())).to_lowercase();
                let expected = naive(&routes, &name, *method, path);
                let found = show(&router.find(Some(host.as_bytes()), *method, path.as_bytes()));
                prop_assert_eq!(found, expected, "{:?} {} {} on {:?}", method, host, path, routes);
            }
        }
    }
}
