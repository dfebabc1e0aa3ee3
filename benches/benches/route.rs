//! Finding the route of a request among the routes of a small server.
//!
//! Does not know about: how the path was parsed.

use criterion::{Criterion, criterion_group, criterion_main};
use doorbell_http::Method;
use doorbell_http::router::{Lookup, MethodSet, Route, Router};
use std::hint::black_box;

fn router() -> Router<u32> {
    let mut builder = Router::builder();
    let paths = [
        "/livez",
        "/readyz",
        "/healthz",
        "/metrics",
        "/status/{name}",
        "/api/v1/checks/{check}/result",
        "/.well-known/acme-challenge/{token}",
        "/docs/{*rest}",
    ];
    for (value, path) in (0..).zip(paths) {
        builder.add(Route {
            name: path.to_owned(),
            hosts: Vec::new(),
            path: path.to_owned(),
            methods: MethodSet::of(&[Method::Get]),
            value,
        });
    }
    builder.build().expect("the routes do not conflict")
}

fn route(c: &mut Criterion) {
    let router = router();
    let host = b"127.0.0.1:18181".as_slice();
    for (name, path, found) in [
        ("route/static", "/readyz", true),
        ("route/dynamic", "/api/v1/checks/database/result", true),
        ("route/rest", "/docs/guide/start", true),
        ("route/not found", "/favicon.ico", false),
    ] {
        c.bench_function(name, |b| {
            b.iter(|| {
                let lookup = router.find(Some(black_box(host)), Method::Get, black_box(path.as_bytes()));
                assert_eq!(matches!(lookup, Lookup::Found(_)), found);
                lookup
            });
        });
    }
}

criterion_group!(benches, route);
criterion_main!(benches);
