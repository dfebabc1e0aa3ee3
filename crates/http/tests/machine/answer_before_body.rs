//! With `answer_before_body`, a service that does not want a body is called before the body
//! arrives. It can therefore hand over the whole request, even behind closures and guards.
//!
//! Does not know about: hand-over by `Service::hands_over` (see `hand_over.rs`).

use doorbell_http::layer::{AtMost, Guard, ServiceExt as _};
use doorbell_http::{
    Client, Conn, Date, Io, Limits, Next, Out, Replied, Request, Responder, Service, StaticReply, Status,
    Time, service_fn,
};

/// The result of passing input to a connection.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    next: Next,
    sent: String,
    /// The input from the handed-over request on, including bytes that have not arrived yet.
    left: Vec<u8>,
}

fn feed(service: &dyn Service, limits: &Limits, pieces: &[&[u8]]) -> Outcome {
    let (date, now) = (Date::new(784_111_777), Time::ZERO);
    let (mut carry, mut out) = (Vec::new(), Out::new());
    let mut conn = Conn::new(now, limits);
    let (mut sent, mut next) = (String::new(), Next::Read);
    for (at, piece) in pieces.iter().enumerate() {
        let client = &Client::UNKNOWN;
        let io = Io { now, date: &date, limits, carry: &mut carry, out: &mut out, closing: false, client };
        next = conn.handle_input(piece, io, service);
        sent.push_str(core::str::from_utf8(&out.head).expect("a reply is text"));
        out.clear();
        if next != Next::Read {
            pieces[at + 1..].iter().for_each(|later| carry.extend_from_slice(later));
            break;
        }
    }
    Outcome { next, sent, left: carry }
}

fn early() -> Limits {
    Limits { answer_before_body: true, ..Limits::default() }
}

/// Replies to `/here` and hands over other requests.
fn closure() -> impl Service {
    let here = StaticReply::text(Status::OK, "here\n");
    service_fn(
        move |request, reply| {
            if request.path() == "/here" { reply.send(&here) } else { reply.hand_over() }
        },
    )
}

/// A guard that passes requests with a token.
struct Token(StaticReply);

impl Guard for Token {
    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>> {
        if request.header("token").is_some() { Ok(reply) } else { Err(reply.send(&self.0)) }
    }
}

fn guarded() -> impl Service {
    closure().guarded(Token(StaticReply::text(Status::FORBIDDEN, "no\n")))
}

const BODIES: [&str; 4] = [
    "Content-Length: 5\r\n\r\nhello",
    "Content-Length: 99999999999\r\n\r\nhello",
    "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
];

/// All ways to split the input: unsplit, at each position, and byte by byte.
fn cuts(all: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut cuts: Vec<_> = (0..=all.len()).map(|at| vec![&all[..at], &all[at..]]).collect();
    cuts.extend([vec![all], all.chunks(1).collect()]);
    cuts
}

#[test]
fn requests_with_bodies_leave_whole_from_behind_closures_guards_and_layers() {
    let services: [(&str, Box<dyn Service>); 3] = [
        ("closure", Box::new(closure())),
        ("guard", Box::new(guarded())),
        ("layers", Box::new(guarded().with(AtMost::new(1)))),
    ];
    for (name, service) in services {
        for body in BODIES {
            let all = format!("POST /app HTTP/1.1\r\nHost: a\r\nToken: t\r\n{body}");
            let expected =
                Outcome { next: Next::HandOver, sent: String::new(), left: all.as_bytes().to_vec() };
            for pieces in cuts(all.as_bytes()) {
                assert_eq!(feed(&*service, &early(), &pieces), expected, "{name}, {} pieces", pieces.len());
            }
        }
    }
}

#[test]
fn a_guard_refuses_a_request_with_a_body_before_it_is_read() {
    for body in BODIES {
        let all = format!("POST /app HTTP/1.1\r\nHost: a\r\n{body}");
        for pieces in cuts(all.as_bytes()) {
            let Outcome { next, sent, .. } = feed(&guarded(), &early(), &pieces);
            assert!(sent.starts_with("HTTP/1.1 403 ") && sent.contains("Connection: close\r\n"), "{sent}");
            assert_eq!((next, sent.matches("HTTP/1.1 ").count()), (Next::CloseLinger, 1));
        }
    }
}

/// A service that wants the bodies of some requests.
struct Wants;

impl Service for Wants {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        head.path() == "/wanted"
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        reply.status(Status::OK).content(request.body())
    }
}

#[test]
fn a_wanted_body_is_collected_as_before_and_an_unwanted_one_ends_the_connection() {
    let ask = |path: &str, body: &str, limits: &Limits| {
        feed(&Wants, limits, &[format!("POST {path} HTTP/1.1\r\nHost: a\r\n{body}").as_bytes()])
    };
    for limits in [&early(), &Limits::default()] {
        let wanted = ask("/wanted", BODIES[0], limits);
        assert!(wanted.next == Next::Read && wanted.sent.ends_with("\r\n\r\nhello"), "{wanted:?}");
        let too_large = ask("/wanted", BODIES[1], limits);
        assert!(too_large.sent.starts_with("HTTP/1.1 413 "), "{too_large:?}");
    }
    assert_eq!(ask("/", BODIES[0], &Limits::default()).next, Next::Read, "the body is skipped");
    let unread = ask("/", BODIES[0], &early());
    assert!(unread.next == Next::CloseLinger && unread.sent.contains("Connection: close\r\n"), "{unread:?}");
}
