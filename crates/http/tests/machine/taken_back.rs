//! Replies that are withdrawn after they were started: no part of them is sent, and earlier replies
//! are complete.

use doorbell_http::{
    Client, Conn, Date, Io, Limits, MessageStart, Next, Out, Replied, Reply, Request, Responder, Service,
    StaticReply, Status, Time,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

const LARGE: usize = 20_000;

/// A service behind a layer that adds a valid or invalid line and may panic after the reply was
/// written.
struct Layered(StaticReply);

impl Service for Layered {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        assert!(head.path() != "/panic/wants", "the path requests a panic");
        true
    }

    fn hands_over(&self, begun: MessageStart<'_>) -> bool {
        assert!(
            !matches!(begun, MessageStart::Body(head) if head.path() == "/panic/hands"),
            "the path requests a panic"
        );
        false
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let reply = if request.path().starts_with("/bad") { reply.header("Connection", "x") } else { reply };
        let answered = match request.path().rsplit('/').next() {
            Some("shared") => reply.send(&self.0),
            Some("owned") => reply.send_owned(Reply::text(Status::OK, vec![b'.'; LARGE])),
            Some("made") => reply.status(Status::OK).content_bytes(vec![b'.'; LARGE].into()),
            _ => reply.status(Status::OK).content("small"),
        };
        assert!(!request.path().starts_with("/panic"), "the path requests a panic");
        answered
    }
}

/// Returns all output of one connection for `input`.
fn sent(input: &str) -> String {
    let (limits, date, now) = (Limits::default(), Date::new(0), Time::from_nanos(1_000_000_000));
    let service = Layered(StaticReply::text(Status::OK, vec![b'.'; LARGE]));
    let (mut conn, mut carry, mut out) = (Conn::new(now, &limits), Vec::new(), Out::new());
    let (mut sent, mut fresh) = (Vec::new(), input.as_bytes());
    loop {
        let mut with = |tell: &mut dyn FnMut(&mut Conn, Io<'_>) -> Next| {
            let client = &Client::UNKNOWN;
            let (carry, out) = (&mut carry, &mut out);
            tell(&mut conn, Io { now, date: &date, limits: &limits, carry, out, closing: false, client })
        };
        let next = catch_unwind(AssertUnwindSafe(|| {
            with(&mut |conn, io| conn.handle_input(std::mem::take(&mut fresh), io, &service))
        }));
        let next = next.unwrap_or_else(|_| with(&mut |conn, io| conn.handle_panic(io)));
        sent.extend_from_slice(out.unsent());
        sent.extend_from_slice(&out.body);
        out.clear();
        if next != Next::Flush {
            return String::from_utf8(sent).expect("text");
        }
    }
}

/// Returns the statuses of consecutive replies, each of which must have the announced content
/// length.
fn statuses(mut sent: &str) -> Vec<u16> {
    let mut statuses = Vec::new();
    while !sent.is_empty() {
        let (head, rest) = sent.split_once("\r\n\r\n").expect("a whole head");
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|line| line.get(..3));
        statuses.push(status.and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}")));
        let len = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        sent = &rest[len.map_or(0, |len| len.parse::<usize>().expect("a length"))..];
    }
    statuses
}

#[test]
fn a_bad_line_of_a_layer_takes_the_content_along() {
    for path in ["/bad/shared", "/bad/owned", "/bad/made", "/bad/small"] {
        let input = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\nGET /small HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(statuses(&sent(&input)), [500, 200], "{path}");
    }
}

#[test]
fn a_layer_that_panics_behind_the_answer_takes_it_back() {
    for path in ["/panic/shared", "/panic/owned", "/panic/made", "/panic/small"] {
        let input = format!("GET /small HTTP/1.1\r\nHost: a\r\n\r\nGET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(statuses(&sent(&input)), [200, 500], "{path}");
    }
}

#[test]
fn a_panic_before_a_reply_is_begun_leaves_the_earlier_ones() {
    for path in ["/panic/wants", "/panic/hands"] {
        for (earlier, expected) in [("/small", 200), ("/large/made", 200), ("/bad/made", 500)] {
            let input = format!(
                "GET {earlier} HTTP/1.1\r\nHost: a\r\n\r\nPOST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
            );
            assert_eq!(statuses(&sent(&input)), [expected, 500], "{earlier} {path}");
        }
    }
}
