//! `doorbell::testing`: a handler gets and sends the same bytes as on a server.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::sync::atomic::{AtomicUsize, Ordering};

use doorbell::http::layer::{AtMost, ServiceExt as _};
use doorbell::http::{ApiMisuse, TlsInfo};
use doorbell::offload::{Executor, JobReply, Pump};
use doorbell::testing::{After, TestConn, ask};
use doorbell::{
    Handler, HttpLimits, MessageStart, Offload, Peer, Replied, Reply, Request, Responder, StaticReply,
    Status, service_fn,
};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// An executor that drops its jobs. `doorbell::testing` runs jobs without their executor.
struct Idle;

impl Executor for Idle {
    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, pump: Pump) {
        drop(pump);
    }
}

fn statuses(got: &doorbell::testing::Exchange) -> Vec<u16> {
    got.replies().iter().map(|reply| reply.status().code()).collect()
}

#[test]
fn a_connection_is_kept_as_on_a_server() {
    let alive = StaticReply::text(Status::OK, "ok\n");
    let service = service_fn(move |_, reply| reply.send(&alive));
    let mut conn = TestConn::open(&service);
    for _ in 0..3 {
        let got = conn.send(GET);
        assert_eq!((got.reply().status(), got.reply().text()), (Status::OK, "ok\n"));
        assert_eq!(got.reply().header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(got.reply().header("date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(got.reply().header("connection"), None);
        assert!(got.is_open());
    }
    assert_eq!(conn.finish().after(), &After::Closed);
    let last = ask(&service, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!((last.reply().header("connection"), last.after()), (Some("close"), &After::Closed));
    assert_eq!(ask(&service, "GET / HTTP/1.0\r\n\r\n").after(), &After::Closed);
    let mut drained = TestConn::open(&service);
    assert!(drained.send(GET).is_open());
    drained.drain();
    assert_eq!(drained.send(GET).after(), &After::Closed);
}

#[test]
fn pipelined_requests_get_their_replies_in_order() {
    let large = "x".repeat(20_000);
    let service = service_fn(|request, reply| match request.path() {
        "/large" => reply.send_owned(Reply::text(Status::OK, large.clone())),
        path => reply.status(Status::OK).content(path),
    });
    let head = "HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n";
    let got =
        ask(&service, [GET, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n", head, GET, "broken\r\n\r\n"].concat());
    let texts: Vec<&str> = got.replies().iter().map(|reply| reply.text()).collect();
    assert_eq!(texts, ["/a", &large, "", "/a", ""]);
    assert_eq!(statuses(&got), [200, 200, 200, 200, 400]);
    assert_eq!(got.replies()[2].header("content-length"), Some("20000"));
    assert_eq!(got.after(), &After::Closed, "a protocol error ends the connection");
}

#[test]
fn bodies_arrive_in_any_pieces() {
    let echo = service_fn(|request, reply| reply.status(Status::OK).content(request.body())).with_body();
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(ask(&echo, post).reply().text(), "hello");
    let mut conn = TestConn::open(&echo);
    let (last, first) = post.as_bytes().split_last().unwrap();
    for byte in first {
        assert!(conn.send([*byte]).bytes().is_empty());
    }
    assert_eq!(conn.send([*last]).reply().text(), "hello");
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(ask(&echo, chunked).reply().text(), "abc");
    let expects = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let mut conn = TestConn::open(&echo);
    let got = conn.send(expects);
    assert_eq!((got.bytes(), got.replies().len()), (&b"HTTP/1.1 100 Continue\r\n\r\n"[..], 0));
    assert_eq!(conn.send("hello").reply().text(), "hello");
    // Without `with_body` the handler does not get the body.
    let blind = service_fn(|request, reply| reply.status(Status::OK).content(request.body()));
    assert_eq!(ask(&blind, post).reply().text(), "");
}

#[test]
fn jobs_run_at_once_on_the_calling_thread() {
    let jobs = Offload::builder().build_on(Idle);
    let own = std::thread::current().id();
    let service = service_fn(|request, reply| match request.path() {
        "/panic" => jobs.run(request, reply, || -> Reply { panic!("a job that panics") }),
        "/then" => {
            jobs.run(request, reply, || JobReply::then(|reply| reply.status(Status::ACCEPTED).empty()))
        }
        _ => jobs.run(request, reply, move || {
            assert_eq!(std::thread::current().id(), own);
            Reply::text(Status::OK, "done\n").header("X-Job", "1")
        }),
    });
    let limit = AtMost::new(1);
    let service = service.with(limit.clone());
    let then = "GET /then HTTP/1.1\r\nHost: a\r\n\r\n";
    let got = ask(&service, [GET, then, GET].concat());
    assert_eq!(statuses(&got), [200, 202, 200]);
    assert_eq!((got.replies()[0].text(), got.replies()[2].header("x-job")), ("done\n", Some("1")));
    assert!(got.is_open());
    let got = ask(&service, ["GET /panic HTTP/1.1\r\nHost: a\r\n\r\n", GET].concat());
    assert_eq!((statuses(&got), got.after()), (vec![500], &After::Closed));
    assert_eq!(limit.live(), 0, "each deferred request has ended");
}

#[test]
fn a_foreign_deferred_reply_is_an_error_as_on_a_server() {
    let service = service_fn(|request, reply| reply.later(request.now(), Box::new(())));
    assert_eq!(ask(&service, GET).reply().status(), Status::INTERNAL_SERVER_ERROR);
}

/// A handler that replies to one path and hands over all other requests.
struct Front;

impl Handler for Front {
    fn hands_over(&self, _: MessageStart<'_>) -> bool {
        true
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if request.path() == "/a" { reply.status(Status::OK).empty() } else { reply.hand_over() }
    }
}

#[test]
fn a_connection_is_handed_over_with_every_byte_from_its_request_on() {
    let other = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    let got = ask(&Front, [GET, other, "more"].concat());
    assert_eq!(statuses(&got), [200]);
    assert_eq!(got.after(), &After::HandedOver([other, "more"].concat().into_bytes()));
    for start in
        ["POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let got = ask(&Front, start);
        assert_eq!(got.after(), &After::HandedOver(start.into()));
        assert!(got.bytes().is_empty());
    }
}

#[test]
fn protocol_errors_and_limits_are_those_of_the_server() {
    let calls = AtomicUsize::new(0);
    let service = service_fn(|_, reply| {
        calls.fetch_add(1, Ordering::Relaxed);
        reply.status(Status::OK).empty()
    });
    for (input, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n", 400),
        ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    ] {
        assert_eq!(statuses(&ask(&service, input)), [status], "{input:?}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    let limits = HttpLimits { request_line_bytes_max: 16, ..HttpLimits::default() };
    let mut conn = TestConn::open(&service).limits(limits);
    assert_eq!(conn.send("GET /a/longer/path HTTP/1.1\r\n").reply().status(), Status::URI_TOO_LONG);
}

#[test]
fn timeouts_follow_the_time_of_the_test() {
    let service = service_fn(|_, reply| reply.status(Status::OK).empty());
    let mut conn = TestConn::open(&service);
    assert!(conn.send(GET).is_open());
    assert!(conn.wait(Duration::from_secs(29)).is_open());
    assert_eq!(conn.wait(Duration::from_secs(1)).after(), &After::Closed);
    let mut slow = TestConn::open(&service);
    assert!(slow.send("GET / HT").is_open());
    let got = slow.wait(Duration::from_secs(10));
    assert_eq!((got.reply().status(), got.after()), (Status::REQUEST_TIMEOUT, &After::Closed));
}

#[test]
fn a_handler_sees_the_client_that_it_wants() {
    let service = service_fn(|request, reply| {
        let name = request.client().tls.and_then(|tls| tls.server_name.clone()).unwrap_or_default();
        reply.status(Status::OK).content(format!("{:?} {name}", request.client().peer))
    });
    assert_eq!(ask(&service, GET).reply().text(), "Unknown ");
    let service = service.with_client();
    assert_eq!(ask(&service, GET).reply().text(), "Addr(127.0.0.1) ");
    let tls = TlsInfo { server_name: Some("a.test".to_owned()), ..TlsInfo::default() };
    let at = |peer| TestConn::open(&service).peer(peer).tls(tls.clone()).send(GET);
    let addr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    assert_eq!(at(Peer::Addr(addr)).reply().text(), "Addr(192.0.2.7) a.test");
    assert_eq!(at(Peer::Unix).reply().text(), "Unix a.test");
}

#[test]
fn an_invalid_reply_names_its_fault() {
    let service = service_fn(|_, reply| reply.status(Status::OK).header("Content-Length", "3").empty());
    let got = ask(&service, GET);
    assert_eq!(got.reply().status(), Status::INTERNAL_SERVER_ERROR);
    assert_eq!(got.misuse(), Some(ApiMisuse::HeaderReserved));
    // The outer function does not forward that the inner service wants the client's address.
    let inner = service_fn(|_, reply| reply.status(Status::OK).empty()).with_client();
    let outer = service_fn(|request, reply| inner.call(request, reply));
    assert_eq!(ask(&outer, GET).misuse(), Some(ApiMisuse::ClientUnknown));
}

#[test]
#[should_panic(expected = "the handler sent 2")]
fn the_only_reply_must_be_the_only_one() {
    let service = service_fn(|_, reply| reply.status(Status::OK).empty());
    let _two = ask(&service, [GET, GET].concat()).reply();
}
