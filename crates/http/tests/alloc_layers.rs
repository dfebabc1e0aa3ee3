//! No layer allocates when it is called alone: parser, router, link map.
//!
//! Does not know about: a connection, which `alloc.rs` looks at as a whole.

use allocation_counter::measure;
use doorbell_http::linkmap::LinkMap;
use doorbell_http::parse::{Framing, Head};
use doorbell_http::router::{Lookup, MethodSet, Route, Router};
use doorbell_http::{Limits, Method};

const GET: &[u8] =
    b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\n\r\n";
const POST: &[u8] =
    b"POST /ring HTTP/1.1\r\nHost: door.example\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nring";

/// Ten times `work` costs no allocation.
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

#[test]
fn the_counter_counts() {
    assert_ne!(measure(|| drop(std::hint::black_box(vec![1_u8]))).count_total, 0);
}
