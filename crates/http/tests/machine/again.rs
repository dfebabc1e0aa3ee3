//! A reply that stays in memory after a connection has no observable effect on the next connection.

use crate::common::harness::describe;
use doorbell_http::parse::Seen;
use doorbell_http::{
    Client, Conn, Date, Io, Limits, Next, Out, Replied, Request, Responder, Service, StaticReply, Status,
    Time,
};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A service that sends shared, built and layered replies, or no reply.
struct Mixed {
    ok: StaticReply,
    down: StaticReply,
    large: StaticReply,
}

impl Service for Mixed {
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match request.path() {
            "/ok" => reply.send(&self.ok),
            "/down" => reply.send(&self.down),
            "/large" => reply.send(&self.large),
            "/line" => reply.header("X-Id", "7").send(&self.ok),
            "/bad" => reply.header("Connection", "x").send(&self.ok),
            "/last" => reply.close_after().send(&self.ok),
            "/changed" => reply.send(&self.ok.clone().header("X", "y").expect("a valid field")),
            "/hang" => reply.close(),
            "/panic" => panic!("asked for"),
            _ => reply.status(Status::OK).content(describe(request)),
        }
    }
}

const PATHS: [&str; 10] =
    ["/ok", "/down", "/large", "/line", "/bad", "/last", "/changed", "/hang", "/panic", "/made"];

/// A connection: its input, the position at which the input is split, and the time of arrival in
/// seconds.
fn connection() -> impl Strategy<Value = (Vec<u8>, usize, i64)> {
    let request =
        (prop_oneof![3 => Just(0_usize), 2 => 0..PATHS.len()], 0..4_usize).prop_map(|(path, shape)| {
            let path = PATHS[path];
            match shape {
                0 => format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"),
                1 => format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
                2 => format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"),
                _ => format!("GET {path} HTTP/1.0\r\n\r\nrest"),
            }
        });
    let input = prop::collection::vec(request, 1..4).prop_map(|requests| requests.concat().into_bytes());
    (input, 0..200_usize, 0..3_i64)
}

fn io<'a>(date: &'a Date, limits: &'a Limits, carry: &'a mut Vec<u8>, out: &'a mut Out) -> Io<'a> {
    let now = Time::from_nanos(1_000_000_000);
    Io { now, date, limits, carry, out, closing: false, client: &Client::UNKNOWN }
}

/// Returns the output and the next action of one connection. `out` may have been used before.
fn serve(
    service: &Mixed,
    input: &[u8],
    cut: usize,
    date: &Date,
    out: &mut Out,
    seen: &mut Seen,
) -> (Vec<u8>, Next) {
    let (limits, now) = (Limits::default(), Time::from_nanos(1_000_000_000));
    let (mut conn, mut carry, mut sent, mut next) =
        (Conn::new(now, &limits), Vec::new(), Vec::new(), Next::Read);
    let (first, second) = input.split_at(cut.min(input.len()));
    for piece in [first, second] {
        let mut fresh = piece;
        loop {
            let called = catch_unwind(AssertUnwindSafe(|| {
                conn.handle_input_seen(fresh, io(date, &limits, &mut carry, out), service, seen)
            }));
            next = match called {
                Ok(next) => next,
                Err(_) => conn.handle_panic(io(date, &limits, &mut carry, out)),
            };
            sent.extend_from_slice(out.unsent());
            sent.extend_from_slice(&out.body);
            // As in a worker, output sent in one piece stays in memory.
            if out.body.is_empty() && !out.unsent().is_empty() {
                out.head_is_sent()
            } else if !out.is_empty() {
                out.clear()
            }
            assert!(out.is_empty());
            fresh = b"";
            if next != Next::Flush {
                break;
            }
        }
        if next != Next::Read {
            break;
        }
    }
    (sent, next)
}

proptest! {
    #[test]
    fn every_connection_gets_its_own_reply(connections in prop::collection::vec(connection(), 1..12)) {
        let service = Mixed {
            ok: StaticReply::text(Status::OK, "ok\n"),
            down: StaticReply::text(Status::SERVICE_UNAVAILABLE, "down\n"),
            large: StaticReply::text(Status::OK, "x".repeat(20_000)),
        };
        let (mut out, mut seen) = (Out::new(), Seen::new());
        for (input, cut, second) in connections {
            let date = Date::new(784_111_777 + second);
            let expect = serve(&service, &input, cut, &date, &mut Out::new(), &mut Seen::new());
            prop_assert_eq!(serve(&service, &input, cut, &date, &mut out, &mut seen), expect);
        }
    }
}

/// The bytes of another writer, for example TLS records, are not sent as a reply. The test takes
/// the bytes of an unsent reply, fills the output with other bytes, and serves the same request
/// again.
#[test]
fn bytes_of_another_writer_are_not_taken_for_the_reply_before() {
    let service = Mixed {
        ok: StaticReply::text(Status::OK, "ok\n"),
        down: StaticReply::text(Status::SERVICE_UNAVAILABLE, "down\n"),
        large: StaticReply::text(Status::OK, "x".repeat(20_000)),
    };
    let (mut out, mut seen, date) = (Out::new(), Seen::new(), Date::new(784_111_777));
    let request = b"GET /ok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let expect = serve(&service, request, 0, &date, &mut Out::new(), &mut Seen::new());

    let limits = Limits::default();
    let mut conn = Conn::new(Time::from_nanos(1_000_000_000), &limits);
    let _unsent =
        conn.handle_input_seen(request, io(&date, &limits, &mut Vec::new(), &mut out), &service, &mut seen);
    drop(std::mem::take(&mut out.head));
    out.forget_sent();
    out.head.extend_from_slice(b"of another connection");
    out.head_is_sent();

    assert_eq!(serve(&service, request, 0, &date, &mut out, &mut seen), expect);
}

#[test]
fn no_bytes_are_no_request() {
    let (date, limits, mut carry, mut out) = (Date::new(0), Limits::default(), Vec::new(), Out::new());
    let ok = StaticReply::text(Status::OK, "ok\n");
    let service = doorbell_http::service_fn(move |_, reply| reply.send(&ok));
    let next = Conn::answer_once(b"", io(&date, &limits, &mut carry, &mut out), &service, &Seen::new());
    assert_eq!(next, None, "{}", out.head.escape_ascii());
}
