//! The layers, the parser, the router and the link map make no allocation, neither individually nor
//! as a chain.
//!
//! Does not know about: the other paths through a connection (`alloc.rs`).

use allocation_counter::measure;
use doorbell_http::auth::{Policy, Tokens};
use doorbell_http::layer::{AtMost, RateLimit, RequireAuth, ServiceExt as _};
use doorbell_http::limit::{Credit, Grant, Key, LIFETIME_MIN, Leases, Limiter, OnError, Quota};
use doorbell_http::linkmap::LinkMap;
use doorbell_http::log::{Filter, Logger, Record, Sink};
use doorbell_http::parse::{Framing, Head};
use doorbell_http::router::{Lookup, MethodSet, Route, Router};
use doorbell_http::{
    Client, Conn, Date, Io, Limits, Method, Next, Out, Service, StaticReply, Status, Time, service_fn,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const GET: &[u8] =
    b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\n\r\n";
const POST: &[u8] =
    b"POST /ring HTTP/1.1\r\nHost: door.example\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nring";

/// Asserts that ten calls of `work` make no allocation.
fn assert_free(name: &str, mut work: impl FnMut()) {
    let info = measure(|| (0..10).for_each(|_| work()));
    assert_eq!(info.count_total, 0, "{name}: {info:?}");
}

#[test]
fn parser() {
    let limits = Limits::default();
    let parse = |request: &[u8]| {
        let mut head = Head::new();
        let len = head.parse(request, &limits).unwrap().unwrap();
        assert!(head.fields(&request[..len]).find("host").is_some());
        (len, head.framing())
    };
    assert_free("parse GET", || assert_eq!(parse(GET), (GET.len(), Framing::None)));
    assert_free("parse POST with body", || assert_eq!(parse(POST), (POST.len() - 4, Framing::Length(4))));
    assert_free("parse byte by byte", || {
        let mut head = Head::new();
        let ends = (1..=GET.len()).filter_map(|end| head.parse(&GET[..end], &limits).unwrap());
        assert_eq!(ends.last(), Some(GET.len()));
    });
}

#[test]
fn router() {
    let route = |path: &str, hosts: &[&str], value| Route {
        name: path.to_owned(),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        path: path.to_owned(),
        methods: MethodSet::of(&[Method::Get]),
        value,
    };
    let router = Router::builder()
        .route(route("/readyz", &[], 1))
        .route(route("/users/{id}/posts/{post}", &[], 2))
        .route(route("/docs/{*rest}", &["*.example.com"], 3))
        .build()
        .unwrap();
    let find = |method, path: &'static [u8]| router.find(Some(b"a.b.example.com:80"), method, path);
    assert_free("static route", || {
        assert!(matches!(find(Method::Get, b"/readyz"), Lookup::Found(found) if *found.value == 1));
    });
    assert_free("dynamic route", || {
        let Lookup::Found(found) = find(Method::Get, b"/users/17/posts/4") else { panic!("it is there") };
        assert_eq!(found.params.value("post"), Some(b"4".as_slice()));
        assert_eq!(found.params.iter().count(), 2);
    });
    assert_free("rest of a wildcard host", || {
        assert!(matches!(find(Method::Head, b"/docs/a/b"), Lookup::Found(found) if *found.value == 3));
    });
    assert_free("not found", || assert!(matches!(find(Method::Get, b"/favicon.ico"), Lookup::NotFound)));
    assert_free("not allowed", || {
        let Lookup::MethodNotAllowed { allow } = find(Method::Post, b"/readyz") else { panic!("405") };
        assert_eq!(allow, "GET, HEAD, OPTIONS");
    });
    assert_free("misdirected", || {
        assert!(matches!(router.find(Some(b"c"), Method::Get, b"/docs/a"), Lookup::Misdirected));
    });
}

#[test]
fn link_map() {
    let map = LinkMap::parse("/a https://h/\n/b /c 302\n").unwrap();
    assert_free("found", || assert_eq!(map.find(b"/b").unwrap().location, b"/c"));
    assert_free("not found", || assert_eq!(map.find(b"/z"), None));
}

/// Discards log records.
struct Nowhere;

impl Sink for Nowhere {
    fn log(&self, record: &Record) {
        std::hint::black_box(record);
    }
}

const TOKEN: &str = "XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK";

/// A service with access log, concurrency limit, rate limit, token, router and reply.
fn chain(burst: u32) -> impl Service {
    let router = Router::builder()
        .route(Route {
            name: "post".to_owned(),
            hosts: Vec::new(),
            path: "/users/{id}/posts/{post}".to_owned(),
            methods: MethodSet::of(&[Method::Get]),
            value: StaticReply::text(Status::OK, "ok\n"),
        })
        .build()
        .expect("one route");
    let missing = StaticReply::text(Status::NOT_FOUND, "not found\n");
    let routed = service_fn(move |request, reply| match router.find_for(request) {
        Lookup::Found(found) => reply.send(found.value),
        _ => reply.send(&missing),
    });
    let mut tokens = Tokens::new();
    tokens.add("prometheus", TOKEN.as_bytes()).expect("a token");
    let auth = RequireAuth::new(Policy::bearer("bench", tokens).expect("a policy"));
    let quota = Quota::new(burst, 1, Duration::from_secs(3600)).expect("a quota");
    let limit = RateLimit::new(Arc::new(Limiter::new(quota, 1024, [1, 2])), Key::Ip).send_fields(true);
    let service = routed.guarded(auth).guarded(limit).with(AtMost::new(1));
    service.with(Logger::new(Filter::ALL, Nowhere))
}

#[test]
fn leases() {
    let now = Time::from_nanos(1 << 40);
    let credit = Credit { requests: 1, debt_max: Duration::ZERO };
    let leases = Arc::new(Leases::new(1024, LIFETIME_MIN, credit, OnError::Local));
    let quota = Quota::per_second(1_000_000).unwrap();
    let limiter = Limiter::leased(quota, 1024, [1, 2], Arc::clone(&leases));
    let ask = |key: &[u8]| limiter.check(key, now).is_allowed();
    assert_free("without the store", || assert!(ask(b"a")));
    leases.set_valid_until(Time::MAX);
    let mut new = 0u8;
    assert_free("credit of a new key", || {
        new += 1;
        assert!(ask(&[new]));
    });
    let mut slots = Vec::with_capacity(1024);
    leases.take_active(|slot| slots.push(slot));
    let grant = Grant { tokens: 20, asked: now, full_at: Time::MAX, charged: 1 };
    slots.iter().for_each(|&slot| leases.grant(slot, grant));
    assert_free("tokens", || assert!(ask(b"a")));
    slots.iter().for_each(|&slot| leases.free(slot));
    ask(b"b");
    assert_free("refused", || assert!(!ask(b"b")));
}

#[test]
fn whole_chain() {
    let client = Client::at(IpAddr::from([192, 0, 2, 1]));
    let (limits, date, now) =
        (Limits::default(), Date::new(784_111_777), Time::from_nanos(1_000_000_000_000));
    let (mut carry, mut out) = (Vec::new(), Out::with_capacity(4096));
    let mut ask = |service: &dyn Service, path: &str, token: &str, expect: &str| {
        let input = format!(
            "GET {path} HTTP/1.1\r\nHost: door.example\r\nUser-Agent: Prometheus/3.1.0\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        );
        let mut answer = || {
            out.clear();
            let mut conn = Conn::new(now, &limits);
            let (carry, out) = (&mut carry, &mut out);
            let io = Io { now, date: &date, limits: &limits, carry, out, closing: false, client: &client };
            assert_eq!(conn.handle_input(input.as_bytes(), io, service), Next::Read);
            assert!(out.head.starts_with(expect.as_bytes()), "{}", out.head.escape_ascii());
        };
        // The first calls let the buffers grow to the size of these replies, which depends on the
        // number of digits of the quota.
        (0..3).for_each(|_| answer());
        assert_free(&format!("the whole chain: {expect}"), answer);
    };
    let chain_of_100 = chain(100);
    ask(&chain_of_100, "/users/17/posts/4", TOKEN, "HTTP/1.1 200 OK\r\n");
    ask(&chain_of_100, "/favicon.ico", TOKEN, "HTTP/1.1 404 Not Found\r\n");
    let other = TOKEN.replace('X', "Y");
    ask(&chain_of_100, "/users/17/posts/4", &other, "HTTP/1.1 401 Unauthorized\r\n");
    let chain_of_13 = chain(13);
    ask(&chain_of_13, "/users/17/posts/4", TOKEN, "HTTP/1.1 200 OK\r\n");
    ask(&chain_of_13, "/users/17/posts/4", TOKEN, "HTTP/1.1 429 Too Many Requests\r\n");
}

#[test]
fn the_counter_counts() {
    assert_ne!(measure(|| drop(std::hint::black_box(vec![1_u8]))).count_total, 0);
}
