//! Behaviour across several calls: bodies passed to a service, held-back input, output limits,
//! misuse.

use crate::common::harness::{Echo, Peer, describe, io_at, statuses};
use doorbell_http::layer::{AtMost, RequireClientCert, ServiceExt as _};
use doorbell_http::log::{Filter, Logger, Record, Sink};
use doorbell_http::{
    ApiMisuse, Conn, ConnLimit, Date, Limits, Next, Out, Phase, Replied, Request, RequestError, Responder,
    Service, Status, Time,
};
use std::cell::RefCell;
use std::time::Duration;

/// A service that records its calls.
#[derive(Default)]
struct Diary(RefCell<Vec<String>>);

impl Service for Diary {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        self.0.borrow_mut().push(format!("wants {}?", head.path()));
        Echo.wants_body(head)
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        self.0.borrow_mut().push(String::from_utf8(describe(request)).expect("text"));
        reply.status(Status::OK).empty()
    }
}

fn diary(pieces: &[&[u8]]) -> (Vec<String>, Next) {
    let (diary, limits, date) = (Diary::default(), Limits::default(), Date::new(0));
    let (mut conn, mut carry, mut out) = (Conn::new(Time::ZERO, &limits), Vec::new(), Out::new());
    let mut next = Next::Read;
    for piece in pieces {
        let io = io_at(Time::ZERO, &limits, &date, &mut carry, &mut out);
        next = conn.handle_input(piece, io, &diary);
    }
    (diary.0.into_inner(), next)
}

#[test]
fn a_service_is_called_once_the_body_is_there_and_never_for_half_of_it() {
    let length = b"POST /want HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n".as_slice();
    let chunked = b"POST /want HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice();
    let skipped = b"POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n".as_slice();
    let wants = "wants /want?".to_owned();
    let called = "POST /want None Some(\"a\") Http11 2 [hello]".to_owned();
    for (pieces, expect) in [
        (vec![length, b"hel", b"lo"], vec![wants.clone(), called.clone()]),
        (vec![length, b"hell"], vec![wants.clone()]),
        (vec![chunked, b"2\r\nhe\r\n3\r", b"\nllo\r\n0\r\n\r\n"], vec![wants.clone(), called]),
        (vec![chunked, b"5\r\nhello\r\n0\r\n"], vec![wants.clone()]),
        (vec![chunked, b"5\r\nhello!"], vec![wants]),
        (vec![skipped, b"hello"], vec!["wants /no?".into(), "POST /no None Some(\"a\") Http11 2 []".into()]),
        (vec![skipped, b"hell"], vec!["wants /no?".into()]),
        (vec![b"GET /want HTTP/1.0\r\n\r\n"], vec!["GET /want None None Http10 0 []".into()]),
        (vec![b"TRACE /want HTTP/1.0\r\n\r\n"], vec![]),
        (vec![b"TRACE /want HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", b"x"], vec![]),
        (vec![b"POST /want HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n"], vec![]),
    ] {
        let name = pieces.concat();
        assert_eq!(diary(&pieces).0, expect, "{}", name.escape_ascii());
    }
}

#[test]
fn a_skipped_body_is_not_kept() {
    let mut peer = Peer::new(Limits::default());
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n";
    for piece in [[head.as_slice(), b"xx"].concat(), vec![b'x'; 30_000], vec![b'x'; 29_997]] {
        assert_eq!(peer.input(&piece), Next::Read);
        assert_eq!(peer.carry, head);
    }
    assert_eq!(peer.input(b"xGET / HTTP/1.1\r\n"), Next::Read);
    assert_eq!(peer.carry, b"GET / HTTP/1.1\r\n");
    assert_eq!((statuses(&peer.sent), peer.conn.phase()), (vec![200], Phase::Head));
}

#[test]
fn input_that_arrives_whole_is_not_copied() {
    let mut peer = Peer::new(Limits::default());
    let requests =
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST /want HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"
            .repeat(3);
    assert_eq!(peer.input(&requests), Next::Read);
    assert_eq!((peer.conn.requests(), peer.carry.capacity()), (6, 0));
}

#[test]
fn output_is_bounded_and_held_back_input_is_not_lost() {
    let request = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let limits = Limits { output_bytes_max: 1000, ..Limits::default() };
    let (date, mut conn, mut carry, mut out) =
        (Date::new(0), Conn::new(Time::ZERO, &limits), Vec::new(), Out::new());
    let input = [request.repeat(100).as_slice(), &request[..10]].concat();
    let (mut fresh, mut flushes, mut replies) = (input.as_slice(), 0, 0);
    loop {
        let io = io_at(Time::ZERO, &limits, &date, &mut carry, &mut out);
        let next = conn.handle_input(fresh, io, &Echo);
        fresh = b"";
        assert!(out.len() < 1000 + 300, "at most one reply beyond the limit");
        replies += statuses(&out.head).len();
        out.clear();
        match next {
            Next::Flush => flushes += 1,
            next => {
                assert_eq!(next, Next::Read);
                break;
            }
        }
        let io = io_at(Time::MAX, &limits, &date, &mut carry, &mut out);
        assert_eq!(conn.handle_timeout(io), Next::Flush, "only the engine's write deadline applies");
    }
    assert_eq!(replies, 100);
    assert!(flushes > 5, "{flushes}");
    assert_eq!(carry, &request[..10]);
}

#[test]
fn a_large_body_is_flushed_before_the_next_reply() {
    let limits = Limits::default();
    let (date, mut conn, mut carry, mut out) =
        (Date::new(0), Conn::new(Time::ZERO, &limits), Vec::new(), Out::new());
    let input = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
    for (fresh, held) in [(input.as_slice(), input.len() / 2), (b"".as_slice(), 0)] {
        let io = io_at(Time::ZERO, &limits, &date, &mut carry, &mut out);
        assert_eq!(conn.handle_input(fresh, io, &Echo), Next::Flush);
        assert_eq!((out.body.len(), carry.len()), (20_000, held));
        out.clear();
    }
}

#[test]
fn replies_stay_in_order_even_if_a_large_body_was_not_flushed() {
    let limits = Limits::default();
    let (date, mut conn, mut carry, mut out) =
        (Date::new(0), Conn::new(Time::ZERO, &limits), Vec::new(), Out::new());
    for (path, next) in
        [("/big", Next::Flush), ("/1", Next::Read), ("/big", Next::Flush), ("/last", Next::CloseClean)]
    {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let io = io_at(Time::ZERO, &limits, &date, &mut carry, &mut out);
        assert_eq!(conn.handle_input(request.as_bytes(), io, &Echo), next);
    }
    assert!(out.body.is_empty());
    assert_eq!(statuses(&out.head), [200; 4]);
}

#[test]
fn misuse_is_reported() {
    let mut peer = Peer::run(&Limits::default(), [b"GET /bad HTTP/1.1\r\nHost: a\r\n\r\n".as_slice()]);
    assert_eq!(statuses(&peer.sent), [500]);
    assert!(!peer.sent.windows(10).any(|window| window == b"Set-Cookie"));
    assert_eq!(peer.misuse(), Some(ApiMisuse::HeaderValue));
}

#[test]
fn the_limit_that_makes_a_reply_the_last_is_reported() {
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".as_slice();
    let close = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".as_slice();
    let limits =
        || Limits { requests_per_conn_max: 2, conn_age_max: Duration::from_secs(9), ..Limits::default() };
    for (pieces, age, expect) in [
        (vec![get], 0, None),
        (vec![get, close], 0, None),
        (vec![get, get], 0, Some(ConnLimit::Requests)),
        (vec![get], 9, Some(ConnLimit::Age)),
        (vec![close], 9, None),
        (vec![b"nonsense\r\n"], 9, None),
    ] {
        let mut peer = Peer::new(limits());
        peer.now = peer.now.after(Duration::from_secs(age));
        for &piece in &pieces {
            let _last = peer.input(piece);
        }
        assert_eq!(peer.conn.limit(), expect, "{age} s, {}", pieces.concat().escape_ascii());
    }
}

/// A service that replies 404 to all requests and optionally accepts TRACE.
struct Nothing(bool);

impl Service for Nothing {
    fn takes_trace(&self) -> bool {
        self.0
    }

    fn call<'a>(&self, _: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        reply.status(Status::NOT_FOUND).empty()
    }
}

#[test]
fn a_trace_reaches_only_a_service_that_takes_it_through_every_layer() {
    let trace = b"TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    let ask = |service: &dyn Service| {
        let (limits, date, mut carry, mut out) =
            (Limits::default(), Date::new(784_111_777), Vec::new(), Out::new());
        let io = io_at(Time::ZERO, &limits, &date, &mut carry, &mut out);
        let _next = Conn::new(Time::ZERO, &limits).handle_input(trace, io, service);
        statuses(&out.head)
    };
    for (takes, expect) in [(true, [404]), (false, [405])] {
        let layered = Nothing(takes).guarded(None::<RequireClientCert>).with(AtMost::new(1));
        assert_eq!(ask(&Nothing(takes)), expect);
        assert_eq!(ask(&layered.with(Logger::new(Filter::ALL, Dropped))), expect);
    }
}

/// Discards log records.
struct Dropped;

impl Sink for Dropped {
    fn log(&self, _: &Record) {}
}

/// An unexpected PROXY header gets the status of any malformed request; the error names the header.
#[test]
fn an_unexpected_proxy_header_is_named_however_it_is_split() {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for header in [
        &b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 80\r\n"[..],
        b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 80\r\n",
        b"PROXY UNKNOWN\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    ] {
        let input = [header, request].concat();
        for at in 0..header.len() {
            let (first, second) = input.split_at(at);
            let trace = Peer::run(&Limits::default(), [first, second]).trace();
            let refused = (statuses(&trace.sent), trace.error);
            assert_eq!(refused, (vec![400], Some(RequestError::ProxyHeader)), "{header:?} at {at}");
        }
        let later = Peer::run(&Limits::default(), [&[request, &input[..]].concat()[..]]).trace();
        assert_ne!(later.error, Some(RequestError::ProxyHeader), "only at the start of a connection");
    }
    let unknown = b"PROXY / HTTP/1.1\r\nHost: a\r\n\r\n";
    let trace = Peer::run(&Limits::default(), [&unknown[..]]).trace();
    assert_eq!(trace.error, Some(RequestError::MethodUnknown));
}
