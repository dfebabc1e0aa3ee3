//! A policy of static tokens, a quota, and a request that both accept, for benches of their cost.
//!
//! Does not know about: measurements.

use doorbell_http::auth::{Policy, Tokens};
use doorbell_http::layer::{RateLimit, RequireAuth, ServiceExt as _};
use doorbell_http::limit::{Key, Limiter, Quota};
use doorbell_http::log::{Filter, Logger, Record, Sink};
use doorbell_http::router::{Lookup, MethodSet, Route, Router};
use doorbell_http::{Client, Method, Next, Service, StaticReply, Status, Time, service_fn};
use std::hint::black_box;
use std::sync::Arc;

use crate::machine::Machine;

/// A valid value of `Authorization` with a token of 32 bytes.
pub const VALUE: &[u8] = b"Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK";

/// A request for metrics with the token of [`VALUE`].
pub const AUTHORIZED: &[u8] =
    b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: Prometheus/3.1.0\r\n\
Accept: */*\r\nAuthorization: Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK\r\n\r\n";

/// A policy with this many tokens of 32 bytes. The last token is that of [`VALUE`].
///
/// # Panics
/// If the number exceeds the maximum of [`Tokens`].
pub fn policy(count: usize) -> Policy {
    let mut tokens = Tokens::new();
    for number in 1..count {
        let secret = format!("another-secret-of-32-bytes-{number:05}");
        tokens.add(&number.to_string(), secret.as_bytes()).expect("a good secret");
    }
    let secret = VALUE.strip_prefix(b"Bearer ").unwrap_or_default();
    tokens.add("prometheus", secret).expect("a good secret");
    Policy::bearer("bench", tokens).expect("a good realm")
}

/// A sink that discards log records.
struct Nowhere;

impl Sink for Nowhere {
    fn log(&self, record: &Record) {
        black_box(record);
    }
}

/// Creates a connection that receives [`AUTHORIZED`], without guards and with one prepared reply.
/// `client` is an IP address.
///
/// # Panics
/// If `client` is not an IP address.
pub fn plain(client: &str) -> Box<Machine> {
    scrape(client, Box::new(ready()))
}

/// Creates the connection of [`plain`] with a static token and a limiter by address that knows the
/// client.
///
/// # Panics
/// If `client` is not an IP address.
pub fn guarded(client: &str) -> Box<Machine> {
    let quota = Quota::per_second(1000).expect("a quota");
    let limit = RateLimit::new(Arc::new(Limiter::new(quota, 1024, [1, 2])), Key::Ip);
    scrape(client, Box::new(ready().guarded(RequireAuth::new(policy(1))).guarded(limit)))
}

/// Creates a connection with the whole chain: access log with errors only, limiter, token, router
/// with eight routes, and reply.
///
/// # Panics
/// If `client` is not an IP address.
pub fn chain(client: &str) -> Box<Machine> {
    let quota = Quota::per_second(1_000_000).expect("a quota");
    let limit = RateLimit::new(Arc::new(Limiter::new(quota, 1024, [1, 2])), Key::Ip);
    let service = routed().guarded(RequireAuth::new(policy(1))).guarded(limit);
    scrape(client, Box::new(service.with(Logger::new(Filter::ERRORS, Nowhere))))
}

fn scrape(client: &str, service: Box<dyn Service>) -> Box<Machine> {
    let mut machine = Machine::serving(AUTHORIZED, service);
    machine.client = Box::leak(Box::new(Client::at(client.parse().expect("an address"))));
    machine.now = Time::from_nanos(1_000_000_000_000);
    assert_eq!(machine.handle(), Next::Read, "the connection stays open");
    machine.out.clear();
    machine
}

fn ready() -> impl Service + 'static {
    let reply = StaticReply::text(Status::OK, "ok\n");
    service_fn(move |_, responder| responder.send(&reply))
}

fn routed() -> impl Service + 'static {
    let mut builder = Router::builder();
    for path in [
        "/livez",
        "/readyz",
        "/healthz",
        "/metrics",
        "/users/{id}",
        "/users/{id}/posts/{post}",
        "/docs/{*rest}",
        "/favicon.ico",
    ] {
        builder.add(Route {
            name: path.to_owned(),
            hosts: Vec::new(),
            path: path.to_owned(),
            methods: MethodSet::of(&[Method::Get]),
            value: StaticReply::text(Status::OK, "ok\n"),
        });
    }
    let router = builder.build().expect("the routes do not conflict");
    let missing = StaticReply::text(Status::NOT_FOUND, "not found\n");
    service_fn(move |request, reply| match router.find_for(request) {
        Lookup::Found(found) => reply.send(found.value),
        _ => reply.send(&missing),
    })
}
