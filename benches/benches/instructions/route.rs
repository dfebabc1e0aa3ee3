//! Instruction counts of a route look-up, with the router of `doorbell-http` and with matchit, the
//! router of axum. Rows of matchit have no limit of instructions.
use doorbell_http::Method;
use doorbell_http::router::{Lookup, MethodSet, Route, Router};
use gungraun::{library_benchmark, library_benchmark_group};

use crate::harness::at_most;

/// Routes of a small server; both routers support all of them. In the last two routes static text
/// competes with a parameter after a common prefix.
const PATHS: [&str; 9] = [
    "/livez",
    "/readyz",
    "/metrics",
    "/status/{name}",
    "/api/v1/checks/{check}/result",
    "/.well-known/acme-challenge/{token}",
    "/docs/{*rest}",
    "/jobs/{job}/result",
    "/jobs/list/all",
];

const STATIC: &str = "/readyz";
const DYNAMIC: &str = "/api/v1/checks/database/result";
const REST: &str = "/docs/guide/start";
const MISSING: &str = "/favicon.ico";
/// `list` is static text in one route and a parameter in another. A router that tries the static
/// text first must backtrack.
const BACK: &str = "/jobs/list/result";

type Ours = Box<Router<u32>>;

/// A matchit router with a route for each method, because matchit only matches paths.
type Theirs = Box<matchit::Router<[Option<u32>; Method::ALL.len()]>>;

fn ours() -> Ours {
    let mut builder = Router::builder();
    for (value, path) in (0..).zip(PATHS) {
        builder.add(Route {
            name: path.to_owned(),
            hosts: Vec::new(),
            path: path.to_owned(),
            methods: MethodSet::of(&[Method::Get]),
            value,
        });
    }
    Box::new(builder.build().expect("the routes do not conflict"))
}

fn theirs() -> Theirs {
    let mut router = matchit::Router::new();
    for (value, path) in (0..).zip(PATHS) {
        let mut methods = [None; Method::ALL.len()];
        for method in [Method::Get, Method::Head] {
            methods[method as usize] = Some(value);
        }
        router.insert(path, methods).expect("the routes do not conflict");
    }
    Box::new(router)
}

/// Returns the number of the route, and its parameter `name` if the route has it.
fn find<'p>(router: &Router<u32>, path: &'p str, name: &str) -> Option<(u32, Option<&'p [u8]>)> {
    let path = std::hint::black_box(path).as_bytes();
    match router.find(Some(std::hint::black_box(b"127.0.0.1:18181")), std::hint::black_box(Method::Get), path)
    {
        Lookup::Found(found) if name.is_empty() => Some((*found.value, None)),
        Lookup::Found(found) => Some((*found.value, found.params.value(name))),
        _ => None,
    }
}

/// [`find`] with matchit.
fn find_theirs<'p>(
    router: &matchit::Router<[Option<u32>; Method::ALL.len()]>,
    path: &'p str,
    name: &str,
) -> Option<(u32, Option<&'p [u8]>)> {
    let found = router.at(std::hint::black_box(path)).ok()?;
    let value = found.value[std::hint::black_box(Method::Get) as usize]?;
    let param = if name.is_empty() { None } else { found.params.get(name) };
    Some((value, param.map(str::as_bytes)))
}

#[library_benchmark]
#[bench::fixed(args = (ours(), STATIC, ""), config = at_most(133))]
#[bench::dynamic(args = (ours(), DYNAMIC, ""), config = at_most(707))]
#[bench::dynamic_param(args = (ours(), DYNAMIC, "check"), config = at_most(973))]
#[bench::rest(args = (ours(), REST, "rest"), config = at_most(530))]
#[bench::back(args = (ours(), BACK, "job"), config = at_most(637))]
#[bench::missing(args = (ours(), MISSING, ""), config = at_most(380))]
fn own(router: Ours, path: &str, name: &str) -> (bool, Ours) {
    (std::hint::black_box(find(&router, path, name)).is_some(), router)
}

#[library_benchmark]
#[bench::fixed(args = (theirs(), STATIC, ""))]
#[bench::dynamic(args = (theirs(), DYNAMIC, ""))]
#[bench::dynamic_param(args = (theirs(), DYNAMIC, "check"))]
#[bench::rest(args = (theirs(), REST, "rest"))]
#[bench::back(args = (theirs(), BACK, "job"))]
#[bench::missing(args = (theirs(), MISSING, ""))]
fn other(router: Theirs, path: &str, name: &str) -> (bool, Theirs) {
    (std::hint::black_box(find_theirs(&router, path, name)).is_some(), router)
}

library_benchmark_group!(name = routes, benchmarks = [own, other]);

/// Asserts that the counted look-ups give the correct results, and that the known differences of
/// matchit still exist.
pub(crate) fn check_replies() {
    for (path, name, expect) in [
        (STATIC, "", Some((1, None))),
        (DYNAMIC, "check", Some((4, Some(b"database".as_slice())))),
        (REST, "rest", Some((6, Some(b"guide/start".as_slice())))),
        (BACK, "job", Some((7, Some(b"list".as_slice())))),
        (MISSING, "", None),
    ] {
        assert_eq!(find(&ours(), path, name), expect, "{path}");
        assert_eq!(find_theirs(&theirs(), path, name), expect, "{path}");
    }
    let mut router = matchit::Router::new();
    router.insert("/a/{name}", 1).expect("the first");
    assert!(router.insert("/a/{*rest}", 2).is_err(), "matchit refuses both routes together");
    assert!(router.at("/a/").is_err(), "matchit does not match an empty parameter");
    let mut router = matchit::Router::new();
    router.insert("/a/{*rest}", 1).expect("the first");
    assert!(router.at("/a/").is_err(), "matchit does not match an empty catch-all");
}
