//! A policy of static tokens, a quota, and a request that both accept, for benches of their cost.

use doorbell_http::auth::{Policy, Tokens};
use doorbell_http::layer::{RateLimit, RequireAuth, ServiceExt as _};
use doorbell_http::limit::{Key, Limiter, Quota};
use doorbell_http::log::{Filter, Logger, Record, Sink};
use doorbell_http::router::{Lookup, MethodSet, Route, Router};
use doorbell_http::{
    Client, Conn, Date, Io, Limits, Method, Next, Out, Service, StaticReply, Status, Time, service_fn,
};
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

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

/// A connection that receives [`AUTHORIZED`] repeatedly, with a service that has one prepared
/// reply.
pub struct Scrape {
    service: Box<dyn Service>,
    client: Client<'static>,
    limits: Limits,
    date: Date,
    carry: Vec<u8>,
    out: Out,
    conn: Conn,
    now: Time,
}

/// A sink that discards log records.
struct Nowhere;

impl Sink for Nowhere {
    fn log(&self, record: &Record) {
        black_box(record);
    }
}

impl Scrape {
    /// Creates a connection without guards. `client` is an IP address.
    ///
    /// # Panics
    /// If `client` is not an IP address.
    pub fn plain(client: &str) -> Box<Self> {
        Self::of(client, Box::new(ready()))
    }

    /// Creates a connection with a static token and a limiter by address that knows the client.
    ///
    /// # Panics
    /// If `client` is not an IP address.
    pub fn guarded(client: &str) -> Box<Self> {
        let quota = Quota::per_second(1000).expect("a quota");
        let limit = RateLimit::new(Arc::new(Limiter::new(quota, 1024, [1, 2])), Key::Ip);
        Self::of(client, Box::new(ready().guarded(RequireAuth::new(policy(1))).guarded(limit)))
    }

    /// Creates a connection with the whole chain: access log with errors only, limiter, token,
    /// router with eight routes, and reply.
    ///
    /// # Panics
    /// If `client` is not an IP address.
    pub fn chain(client: &str) -> Box<Self> {
        let quota = Quota::per_second(1_000_000).expect("a quota");
        let limit = RateLimit::new(Arc::new(Limiter::new(quota, 1024, [1, 2])), Key::Ip);
        let service = routed().guarded(RequireAuth::new(policy(1))).guarded(limit);
        Self::of(client, Box::new(service.with(Logger::new(Filter::ERRORS, Nowhere))))
    }

    /// Opens a new connection ten microseconds after the previous one, and calls [`Self::handle`].
    pub fn handle_anew(&mut self) -> Next {
        self.now = self.now.after(Duration::from_micros(10));
        self.conn = Conn::new(self.now, &self.limits);
        self.out.clear();
        self.handle()
    }

    fn of(client: &str, service: Box<dyn Service>) -> Box<Self> {
        let addr: IpAddr = client.parse().expect("an address");
        let limits = Limits::default();
        let mut scrape = Box::new(Self {
            service,
            client: Client::at(addr),
            conn: Conn::new(Time::ZERO, &limits),
            limits,
            date: Date::new(784_111_777),
            carry: Vec::new(),
            out: Out::with_capacity(16 * 1024),
            now: Time::from_nanos(1_000_000_000_000),
        });
        assert_eq!(scrape.handle(), Next::Read, "the connection stays open");
        scrape.out.clear();
        scrape
    }

    /// Handles the request and writes its reply.
    pub fn handle(&mut self) -> Next {
        let io = Io {
            now: self.now,
            date: &self.date,
            limits: &self.limits,
            carry: &mut self.carry,
            out: &mut self.out,
            closing: false,
            client: &self.client,
        };
        self.conn.handle_input(black_box(AUTHORIZED), io, &*self.service)
    }

    /// The output of the connection.
    pub fn output(&self) -> &[u8] {
        &self.out.head
    }
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

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrape")
            .field("client", &self.client)
            .field("conn", &self.conn)
            .finish_non_exhaustive()
    }
}
