//! Promise: repeating a reply for equal requests that arrive together writes the same bytes, and
//! reaches the same limits, as calling the service for each request.
//!
//! Does not know about: correct results; see `rules.rs`.

use crate::common::harness::io_at;
use doorbell_http::parse::Seen;
use doorbell_http::{
    Conn, Date, Limits, Next, Out, Phase, Replied, Request, Responder, Service, StaticReply, Status, Time,
};
use proptest::prelude::*;
use std::cell::Cell;

/// Replies by path. Counts its calls, and all requests including those with a repeated reply.
struct Counting {
    short: StaticReply,
    long: StaticReply,
    may_repeat: bool,
    calls: Cell<u32>,
    all: Cell<u32>,
}

impl Counting {
    fn new(may_repeat: bool) -> Self {
        Self {
            short: StaticReply::text(Status::OK, "ok\n"),
            long: StaticReply::text(Status::OK, vec![b'x'; 20_000]),
            may_repeat,
            calls: Cell::new(0),
            all: Cell::new(0),
        }
    }
}

impl Service for Counting {
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        self.calls.set(self.calls.get() + 1);
        self.all.set(self.all.get() + 1);
        match request.path() {
            "/long" => reply.send(&self.long),
            "/last" => reply.close_after().send(&self.short),
            "/own" => reply.header("X-Own", "1").status(Status::ACCEPTED).text("own\n"),
            _ => reply.send(&self.short),
        }
    }

    fn repeats(&self, request: &Request<'_>, count: u32) -> bool {
        assert!(count > 0, "asked only for equal requests");
        let repeats = self.may_repeat && request.path() != "/last";
        self.all.set(self.all.get() + if repeats { count } else { 0 });
        repeats
    }
}

const REQUESTS: [&str; 7] = [
    "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /b HTTP/1.1\r\nHost: a\r\nUser-Agent: probe/1\r\n\r\n",
    "HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /own HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    "GET /long HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /last HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
];

/// The observable result of a connection.
#[derive(Debug, PartialEq)]
struct Observed {
    sent: Vec<u8>,
    next: Next,
    phase: Phase,
    requests: u32,
    counted: u32,
    deadline: Time,
}

/// A cache that contains every request of [`REQUESTS`] that one slot can hold.
fn taught(limits: &Limits) -> Seen {
    let (mut seen, service) = (Seen::new(), Counting::new(false));
    for request in REQUESTS.iter().cycle().take(10 * REQUESTS.len()) {
        serve(&service, limits, [request.as_bytes()], &mut seen);
    }
    seen
}

fn serve<'a>(
    service: &Counting,
    limits: &Limits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    seen: &mut Seen,
) -> Observed {
    let now = Time::from_nanos(1_000_000_000);
    let (date, mut carry, mut out) = (Date::new(784_111_777), Vec::new(), Out::new());
    let (mut conn, mut sent, mut next) = (Conn::new(now, limits), Vec::new(), Next::Read);
    for piece in pieces {
        let mut input = piece;
        loop {
            let io = io_at(now, limits, &date, &mut carry, &mut out);
            next = conn.handle_input_seen(input, io, service, seen);
            sent.extend_from_slice(&out.head);
            sent.extend_from_slice(&out.body);
            out.clear();
            input = b"";
            if next != Next::Flush {
                break;
            }
        }
        if next != Next::Read {
            break;
        }
    }
    let (phase, requests, deadline) = (conn.phase(), conn.requests(), conn.deadline());
    Observed { sent, next, phase, requests, counted: service.all.get(), deadline }
}

fn compare(limits: &Limits, pieces: &[&[u8]]) -> (u32, u32) {
    let (each, repeating) = (Counting::new(false), Counting::new(true));
    let expected = serve(&each, limits, pieces.iter().copied(), &mut taught(limits));
    let found = serve(&repeating, limits, pieces.iter().copied(), &mut taught(limits));
    assert_eq!(found, expected, "{limits:?}");
    (each.calls.get(), repeating.calls.get())
}

#[test]
fn equal_requests_cost_one_call() {
    let input = REQUESTS[0].repeat(16);
    assert_eq!(compare(&Limits::default(), &[input.as_bytes()]), (16, 1));
    let input = REQUESTS[0].repeat(8) + &REQUESTS[2].repeat(8);
    assert_eq!(compare(&Limits::default(), &[input.as_bytes()]), (16, 2));
}

#[test]
fn limits_are_reached_at_the_same_request() {
    for requests_per_conn_max in 1..20 {
        for output_bytes_max in [1, 100, 150, 500, 1 << 20] {
            let limits = Limits { requests_per_conn_max, output_bytes_max, ..Limits::default() };
            let input = REQUESTS[0].repeat(16);
            compare(&limits, &[input.as_bytes()]);
        }
    }
}

#[test]
fn a_pipeline_may_be_cut_anywhere() {
    let input = REQUESTS[0].repeat(4);
    for cut in 0..=input.len() {
        let (first, second) = input.as_bytes().split_at(cut);
        compare(&Limits::default(), &[first, second]);
    }
}

proptest! {
    #[test]
    fn any_pipeline_has_the_same_replies(
        runs in prop::collection::vec((0..REQUESTS.len(), 1..6_usize), 1..8),
        cut in 0..400_usize,
        requests_per_conn_max in 1..30_u32,
        output_bytes_max in prop::sample::select(vec![64_usize, 300, 1000, 64 << 10]),
    ) {
        let input: String = runs.iter().map(|(which, count)| REQUESTS[*which].repeat(*count)).collect();
        let (first, second) = input.as_bytes().split_at(cut.min(input.len()));
        let limits = Limits { requests_per_conn_max, output_bytes_max, ..Limits::default() };
        compare(&limits, &[first, second]);
    }
}
