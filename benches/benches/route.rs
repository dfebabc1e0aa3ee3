//! Look-up of a route in a small server, and of a short link in a large map.

mod routes;

use criterion::{Criterion, criterion_group, criterion_main};
use doorbell_http::Method;
use doorbell_http::linkmap::LinkMap;
use doorbell_http::router::Lookup;
use std::hint::black_box;

fn route(c: &mut Criterion) {
    let router = routes::router([
        "/livez",
        "/readyz",
        "/healthz",
        "/metrics",
        "/status/{name}",
        "/api/v1/checks/{check}/result",
        "/.well-known/acme-challenge/{token}",
        "/docs/{*rest}",
    ]);
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

/// Each look-up uses another path, so that the bench covers most of the map and not one cache line.
/// The order of the paths differs from the order of the map's entries.
fn link(c: &mut Criterion) {
    let path = |n: u32| format!("/l/{:08x}", n.wrapping_mul(0x9e37_79b1));
    let text: String =
        (0..100_000).map(|n| format!("{} https://www.example.com/pages/{n}\n", path(n))).collect();
    let map = LinkMap::parse(&text).expect("good lines");
    for (name, from, found) in
        [("link/found among 100,000", 0, true), ("link/not found among 100,000", 100_000, false)]
    {
        let paths: String = (0..65_536).map(|n| path(from + n * 7919 % 65_536)).collect();
        let mut paths = paths.as_bytes().chunks_exact(11).cycle();
        c.bench_function(name, |b| {
            b.iter(|| {
                let link = map.find(black_box(paths.next().expect("the iterator repeats")));
                assert_eq!(link.is_some(), found);
                link
            });
        });
    }
}

criterion_group!(benches, route, link);
criterion_main!(benches);
