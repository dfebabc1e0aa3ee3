//! Layers, as seen by a connection.

mod guards;

use super::{Guard, Layer, ServiceExt};
use crate::layer::RateLimit;
use crate::limit::{Key, Limiter, Quota};
use crate::{
    ApiMisuse, Client, Conn, Date, Io, Limits, Next, Out, Peer, Replied, Request, Responder, Service,
    ServiceFn, StaticReply, Status, Time, service_fn,
};
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A guard that passes requests with this field, and copies the field to the reply to show that it
/// was called.
struct Needs(&'static str);

impl Guard for Needs {
    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>> {
        match request.header(self.0) {
            Some(value) => Ok(reply.header(self.0, value)),
            None => Err(reply.status(Status::FORBIDDEN).content(self.0)),
        }
    }
}

/// A layer that records the replies.
struct Watch<'a>(&'a RefCell<Vec<(u16, usize)>>);

struct Watched<'a, S>(&'a RefCell<Vec<(u16, usize)>>, S);

impl<'a, S: Service> Layer<S> for Watch<'a> {
    type Service = Watched<'a, S>;

    fn layer(self, inner: S) -> Watched<'a, S> {
        Watched(self.0, inner)
    }
}

impl<S: Service> Service for Watched<'_, S> {
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let answered = self.1.call(request, reply);
        let status = answered.status().map_or(0, Status::code);
        self.0.borrow_mut().push((status, answered.content_len()));
        answered
    }
}

fn talk(service: &impl Service, input: &[u8]) -> String {
    talk_from(service, input, &Client::UNKNOWN)
}

/// Returns the reply to `input` from this client.
fn talk_from(service: &impl Service, input: &[u8], client: &Client<'_>) -> String {
    let (limits, date, now) = (Limits::default(), Date::new(784_111_777), Time::ZERO);
    let (mut carry, mut out) = (Vec::new(), Out::new());
    let mut conn = Conn::new(now, &limits);
    let io =
        Io { now, date: &date, limits: &limits, carry: &mut carry, out: &mut out, closing: false, client };
    assert_ne!(conn.handle_input(input, io, service), Next::Flush, "small replies");
    String::from_utf8([&out.head[..], &out.body].concat()).unwrap()
}

fn alive() -> ServiceFn<impl for<'a> Fn(&Request<'_>, Responder<'a>) -> Replied<'a>> {
    let alive = StaticReply::text(Status::OK, "ok\n");
    service_fn(move |_, reply| reply.send(&alive))
}

#[test]
fn the_guard_added_last_decides_first() {
    let service = alive().guarded(Needs("x-inner")).guarded(Needs("x-outer"));
    let neither = talk(&service, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(neither.starts_with("HTTP/1.1 403 ") && neither.ends_with("x-outer"), "{neither}");
    let outer = talk(&service, b"GET / HTTP/1.1\r\nHost: a\r\nX-Outer: 1\r\n\r\n");
    assert!(
        outer.starts_with("HTTP/1.1 403 Forbidden\r\nx-outer: 1\r\n") && outer.ends_with("x-inner"),
        "{outer}"
    );
    let both = talk(&service, b"GET / HTTP/1.1\r\nHost: a\r\nX-Outer: 1\r\nX-Inner: 2\r\n\r\n");
    assert!(
        both.starts_with("HTTP/1.1 200 OK\r\nx-outer: 1\r\nx-inner: 2\r\n") && both.ends_with("ok\n"),
        "{both}"
    );
}

#[test]
fn a_pair_decides_from_left_to_right() {
    let service = alive().guarded((Needs("x-left"), Some(Needs("x-right"))));
    let reply = talk(&service, b"GET / HTTP/1.1\r\nHost: a\r\nX-Left: 1\r\nX-Right: 2\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\nx-left: 1\r\nx-right: 2\r\n"), "{reply}");
    let neither = talk(&service, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(neither.ends_with("x-left"), "{neither}");
}

#[test]
fn an_added_line_belongs_to_one_reply_of_a_pipeline() {
    let service = alive().guarded(Needs("x-id"));
    let replies = talk(
        &service,
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Id: 1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nX-Id: 3\r\n\r\n",
    );
    let starts: Vec<&str> =
        replies.split("HTTP/1.1 ").skip(1).map(|reply| &reply[..reply.len().min(17)]).collect();
    assert_eq!(
        starts,
        ["200 OK\r\nx-id: 1\r\n", "403 Forbidden\r\nCo", "200 OK\r\nx-id: 3\r\n"],
        "{replies}"
    );
}

#[test]
fn a_field_that_is_not_a_layers_to_set_is_a_500() {
    struct Rude;
    impl Guard for Rude {
        fn admit<'a>(&self, _: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>> {
            Ok(reply.header("Content-Length", "7"))
        }
    }
    let service = alive().guarded(Rude);
    let reply = talk(&service, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 500 ") && !reply.contains("Content-Length: 7"), "{reply}");
}

#[test]
fn a_layer_sees_the_reply() {
    let heard = RefCell::new(Vec::new());
    let service = alive().guarded(Needs("x-id")).with(Watch(&heard));
    let _reply = talk(&service, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let _reply = talk(&service, b"GET / HTTP/1.1\r\nHost: a\r\nX-Id: 1\r\n\r\n");
    let _reply = talk(&service, b"HEAD / HTTP/1.1\r\nHost: a\r\nX-Id: 1\r\n\r\n");
    assert_eq!(*heard.borrow(), [(403, 4), (200, 3), (200, 0)]);
}

#[test]
fn a_service_behind_a_function_gets_what_it_wants() {
    let echo = service_fn(|request, reply| {
        let addr = request.client().addr().unwrap();
        reply.status(Status::OK).header("X-Client", addr.to_string()).content(request.body())
    });
    let service = echo.with_body().with_client().behind(|inner, request, reply| match request.path() {
        "/away" => reply.status(Status::GONE).empty(),
        _ => inner.call(request, reply.header("X-Seen", "1")),
    });
    assert!(service.wants_client());
    let client = Client::at(IpAddr::from([192, 0, 2, 1]));
    let reply = talk_from(&service, POST, &client);
    assert!(reply.contains("X-Seen: 1\r\n") && reply.contains("X-Client: 192.0.2.1\r\n"), "{reply}");
    assert!(reply.ends_with("\r\n\r\nbody"), "{reply}");
    assert!(talk(&service, b"GET /away HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 410 "));
}

const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";

/// A plain closure does not forward the needs of the service that it calls, so the reply becomes a
/// 500 and the reason is recorded.
#[test]
fn a_service_that_does_not_get_what_it_wants_says_so() {
    let get: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let cut: &[&[u8]] = &[POST.split_at(49).0, POST.split_at(49).1];
    let body = || alive().with_body();
    let client = || alive().with_client();
    let closure = service_fn(|request, reply| body().call(request, reply));
    for input in [&[POST][..], cut] {
        assert_eq!(misuse(&closure, input), ("500".to_owned(), Some(ApiMisuse::BodySkipped)));
        assert_eq!(misuse(&body(), input), ("200".to_owned(), None));
    }
    let empty: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    for without in [get, empty] {
        assert_eq!(misuse(&closure, &[without]), ("200".to_owned(), None), "there is no body");
    }
    let closure = service_fn(|request, reply| client().call(request, reply));
    assert_eq!(misuse(&closure, &[get]), ("500".to_owned(), Some(ApiMisuse::ClientUnknown)));
    let quota = Quota::new(1, 1, Duration::from_secs(60)).unwrap();
    let limiter = Arc::new(Limiter::new(quota, 16, [1, 2]));
    let limited = alive().guarded(RateLimit::new(Arc::clone(&limiter), Key::Ip));
    let closure = service_fn(|request, reply| limited.call(request, reply));
    for _ in 0..2 {
        assert_eq!(misuse(&closure, &[get]), ("500".to_owned(), Some(ApiMisuse::ClientUnknown)));
    }
    assert_eq!(limiter.counts().allowed, 0, "no shared key is counted");
    let unix = Client::new(Peer::Unix);
    assert!(talk_from(&limited, get, &unix).starts_with("HTTP/1.1 200 "));
    assert!(
        talk_from(&limited, get, &unix).starts_with("HTTP/1.1 429 "),
        "clients on Unix sockets share one key"
    );
}

/// Returns the status of the reply to `input` from an unknown client, and the misuse that caused a
/// 500.
fn misuse(service: &impl Service, input: &[&[u8]]) -> (String, Option<ApiMisuse>) {
    let (limits, date, now) = (Limits::default(), Date::new(784_111_777), Time::ZERO);
    let (mut carry, mut out) = (Vec::new(), Out::new());
    let mut conn = Conn::new(now, &limits);
    for part in input {
        let (carry, out, client) = (&mut carry, &mut out, &Client::UNKNOWN);
        let io = Io { now, date: &date, limits: &limits, carry, out, closing: false, client };
        assert_ne!(conn.handle_input(part, io, service), Next::Flush);
    }
    let status = String::from_utf8_lossy(&out.head[9..12]).into_owned();
    (status, out.take_misuses().kinds().next())
}
