//! The rows of the published table of Flint, a Go server: the cost of each layer of a small HTTP
//! server, called in isolation.
//!
//! `crates/http/tests/alloc_layers.rs` shows that no row allocates. The benches `logger` and
//! `limit` have the rows of the logger and of two threads on one limiter.
//!
//! `cargo bench -p doorbell-benches --bench flint --bench limit --bench logger`, on two idle cores
//! of a virtual machine (AMD EPYC); "Go" is the figure published by Flint's authors:
//!
//! | row | ns | goal | Go |
//! |---|---:|---:|---:|
//! | parse GET | 26 | 150 | 3,147 |
//! | parse POST with body | 66 | 200 | 3,728 |
//! | static route | 3.9 | 40 | 980 |
//! | dynamic route | 26 | 60 | 1,400 |
//! | not found | 17 | 40 | 1,108 |
//! | logger, on the thread that serves | 53 | 60 | 497 |
//! | rate limiter, alone | 10.5 | 50 | 1,058 |
//! | rate limiter, two threads on one key | 34 | 150 | |
//! | whole chain | 76 | 300 | 1,470 |

mod routes;

use criterion::{Criterion, criterion_group, criterion_main};
use doorbell_benches::guard::Scrape;
use doorbell_benches::{POST, PROBE};
use doorbell_http::limit::{CLIENT_V6_LEN, KeyBytes, Limiter, Quota};
use doorbell_http::parse::{Framing, Head};
use doorbell_http::router::Lookup;
use doorbell_http::{Limits, Method, Next, Time};
use std::hint::black_box;
use std::net::IpAddr;
use std::time::Duration;

fn parse(c: &mut Criterion) {
    let limits = Limits::default();
    c.bench_function("flint/parse GET", |b| {
        b.iter(|| {
            let mut head = Head::new();
            let len = head.parse(black_box(PROBE), &limits);
            assert_eq!(len, Ok(Some(PROBE.len())));
            head
        });
    });
    c.bench_function("flint/parse POST with body", |b| {
        b.iter(|| {
            let request = black_box(POST);
            let mut head = Head::new();
            let Ok(Some(len)) = head.parse(request, &limits) else { panic!("a whole head") };
            let Framing::Length(body_len) = head.framing() else { panic!("a body with a length") };
            let body = usize::try_from(body_len).ok().and_then(|body_len| request.get(len..len + body_len));
            assert!(body.is_some_and(|body| body.len() == 27));
            (head, body)
        });
    });
}

fn route(c: &mut Criterion) {
    let router = routes::router([
        "/livez",
        "/readyz",
        "/healthz",
        "/metrics",
        "/users/{id}",
        "/users/{id}/posts/{post}",
        "/.well-known/acme-challenge/{token}",
        "/docs/{*rest}",
    ]);
    let find = |path: &'static str| {
        router.find(Some(black_box(b"127.0.0.1:18181")), black_box(Method::Get), black_box(path.as_bytes()))
    };
    c.bench_function("flint/static route", |b| {
        b.iter(|| {
            let Lookup::Found(found) = find("/readyz") else { panic!("there is a route") };
            *found.value
        });
    });
    c.bench_function("flint/dynamic route", |b| {
        b.iter(|| {
            let Lookup::Found(found) = find("/users/1042") else { panic!("there is a route") };
            let id = found.params.value("id");
            assert!(id.is_some());
            (*found.value, id)
        });
    });
    c.bench_function("flint/not found", |b| {
        b.iter(|| {
            let lookup = find("/favicon.ico");
            assert!(matches!(lookup, Lookup::NotFound));
            lookup
        });
    });
}

fn chain(c: &mut Criterion) {
    c.bench_function("flint/rate limiter", |b| {
        let quota = Quota::per_second(1_000_000).expect("a quota");
        let limiter = Limiter::new(quota, 1024, [1, 2]);
        let addr = black_box(IpAddr::from([192, 0, 2, 1]));
        let mut now = Time::from_nanos(1_000_000_000_000);
        b.iter(|| {
            now = now.after(Duration::from_micros(10));
            limiter.check(KeyBytes::ip(addr, CLIENT_V6_LEN).as_bytes(), now)
        });
        assert_eq!(limiter.counts().denied, 0);
    });
    c.bench_function("flint/whole chain, parser and reply included", |b| {
        let mut scrape = Scrape::chain("192.0.2.1");
        b.iter(|| assert_eq!(scrape.handle_anew(), Next::Read));
        assert!(scrape.output().starts_with(b"HTTP/1.1 200 OK\r\n"));
    });
}

criterion_group!(benches, parse, route, chain);
criterion_main!(benches);
