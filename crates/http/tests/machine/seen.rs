//! A cache of heads has no observable effect.
//!
//! Does not know about: correct results; see `rules.rs`.

use crate::common::all_vectors;
use crate::common::harness::{Echo, Peer, Trace, io_at};
use doorbell_http::parse::Seen;
use doorbell_http::{Conn, Date, Limits, Next, Out, Time};

/// Like `Peer::run`, with the cache.
fn run<'a>(limits: &Limits, pieces: impl IntoIterator<Item = &'a [u8]>, seen: &mut Seen) -> Trace {
    let mut peer = Peer::new(limits.clone());
    for piece in pieces {
        let mut next = peer.call(|conn, io| conn.handle_input_seen(piece, io, &Echo, seen));
        while next == Next::Flush {
            next = peer.call(|conn, io| conn.handle_input_seen(b"", io, &Echo, seen));
        }
        if next != Next::Read {
            break;
        }
    }
    peer.trace()
}

fn check(limits: &Limits, input: &[u8], seen: &mut Seen, name: &str) {
    let expect = Peer::run(limits, [input]).trace();
    assert_eq!(run(limits, [input], seen), expect, "{name}");
}

/// One cache for all connections, as in a worker, does not change any result. Each vector is
/// repeated until its head is cached and found.
#[test]
fn every_vector_with_one_memory() {
    let (limits, mut seen) = (Limits::default(), Seen::new());
    for vector in all_vectors() {
        for _ in 0..10 {
            check(&limits, &vector.input, &mut seen, &vector.name);
        }
    }
}

const PLAIN: &[u8] =
    b"GET /x HTTP/1.1\r\nHost: a.example:8080\r\nUser-Agent: probe/1\r\nAccept: */*\r\nConnection: close\r\n\r\n";

/// Returns a cache that contains the head [`PLAIN`].
fn taught() -> Seen {
    let mut seen = Seen::new();
    check(&Limits::default(), PLAIN, &mut seen, "first");
    assert!(knows_something(&seen), "{seen:?}");
    seen
}

fn knows_something(seen: &Seen) -> bool {
    !format!("{seen:?}").contains("[0, 0, 0, 0]")
}

/// A TRACE request is not cached, because the cached path leads to the service, which does not get
/// TRACE.
#[test]
fn a_trace_is_not_remembered() {
    let mut seen = Seen::new();
    for _ in 0..10 {
        let input = b"TRACE /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        check(&Limits::default(), input, &mut seen, "trace");
    }
    assert!(!knows_something(&seen), "{seen:?}");
}

/// A head that differs from the cached one in one byte is parsed again, for every position and
/// value.
#[test]
fn one_changed_byte_is_parsed_again() {
    let limits = Limits::default();
    for place in 0..PLAIN.len() {
        let mut seen = taught();
        for byte in 0..=255 {
            let mut input = PLAIN.to_vec();
            input[place] = byte;
            check(&limits, &input, &mut seen, &format!("{byte:#x} at {place}"));
        }
    }
}

#[test]
fn a_remembered_head_at_every_split_point_and_in_a_pipeline() {
    let limits = Limits::default();
    let stay = std::str::from_utf8(PLAIN).unwrap().replace("Connection: close\r\n", "");
    let pipeline = stay.repeat(5) + "GET /half";
    let mut seen = Seen::new();
    for input in [PLAIN, stay.as_bytes(), pipeline.as_bytes()] {
        let expect = Peer::run(&limits, [input]).trace();
        for cut in 0..=input.len() {
            let (first, second) = input.split_at(cut);
            assert_eq!(run(&limits, [first, second], &mut seen), expect, "cut at {cut}");
        }
    }
}

/// The limits of the current listener apply to a cached head, which another listener may have
/// accepted.
#[test]
fn limits_hold_for_a_remembered_head() {
    for limits in [
        Limits { fields_max: 3, ..Limits::default() },
        Limits { fields_max: 4, ..Limits::default() },
        Limits { head_bytes_max: PLAIN.len() - 1, ..Limits::default() },
        Limits { head_bytes_max: PLAIN.len(), ..Limits::default() },
        Limits { request_line_bytes_max: 16, ..Limits::default() },
        Limits { request_line_bytes_max: 17, ..Limits::default() },
    ] {
        check(&limits, PLAIN, &mut taught(), &format!("{limits:?}"));
    }
}

/// A head with the same field lines but another path, query, method or version is parsed again.
#[test]
fn the_request_line_is_its_own() {
    let lines = &PLAIN[17..];
    let mut seen = taught();
    for start in [
        "GET / HTTP/1.1",
        "HEAD /y?q HTTP/1.0",
        "POST /want HTTP/1.1",
        "GET http://b/ HTTP/1.1",
        "NOPE /x HTTP/1.1",
    ] {
        let input = [start.as_bytes(), b"\r\n", lines].concat();
        check(&Limits::default(), &input, &mut seen, start);
    }
}

/// Heads with fields that may contain secrets are not cached.
#[test]
fn other_lines_are_not_remembered() {
    for line in [
        "Authorization: x",
        "authorization:x",
        "Proxy-Authorization: x",
        "Cookie: a=b",
        "Content-Length: 0",
        "X-Token: y",
        "Transfer-Encoding: chunked",
    ] {
        let mut seen = Seen::new();
        let input = format!("GET /x HTTP/1.1\r\nHost: a\r\n{line}\r\nAccept: */*\r\n\r\n");
        for _ in 0..20 {
            run(&Limits::default(), [input.as_bytes()], &mut seen);
        }
        assert!(!knows_something(&seen), "{line}: {seen:?}");
    }
}

/// The fields of cached heads are recognised whatever the case of their names and the white space;
/// similar names are not.
#[test]
fn open_lines_are_remembered() {
    let open = [
        "accept:a",
        "ACCEPT: a",
        "ACCEPT-encoding: gzip",
        "accept-encoding:br",
        "USER-AGENT: a",
        "user-agent:a",
    ];
    let others =
        ["accept-language: a", "accept-encodinG2: a", "accepT2: a", "user-agenT2: a", "x-user-agent: a"];
    for (lines, expect) in [(&open[..], true), (&others, false)] {
        for line in lines {
            let mut seen = Seen::new();
            for host in ["Host: a", "host:a", "HOST:\ta"] {
                let input = format!("GET /x HTTP/1.1\r\n{host}\r\n{line}\r\nCONNECTION:keep-alive\r\n\r\n");
                for _ in 0..20 {
                    run(&Limits::default(), [input.as_bytes()], &mut seen);
                }
                assert_eq!(knows_something(&seen), expect, "{line}: {seen:?}");
            }
        }
    }
}

#[test]
fn a_query_is_not_remembered() {
    let mut seen = Seen::new();
    for _ in 0..20 {
        run(&Limits::default(), [b"GET /x?token=y HTTP/1.1\r\nHost: a\r\n\r\n".as_slice()], &mut seen);
    }
    assert!(!knows_something(&seen), "{seen:?}");
}

/// The path without connection state writes the same reply as a connection, or has no effect.
#[test]
fn an_answer_without_a_connection_is_the_same() {
    let (limits, mut seen, mut short) = (Limits::default(), taught(), 0);
    let extra = [PLAIN.to_vec(), b"OPTIONS / HTTP/1.0\r\n\r\n".to_vec(), [PLAIN, PLAIN].concat()];
    let hang = "GET /hang HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".into();
    let vectors = all_vectors().into_iter().map(|vector| vector.input);
    for input in vectors.chain(extra).chain([hang]) {
        for _ in 0..20 {
            let (mut out, mut carry, date) = (Out::new(), Vec::new(), Date::new(784_111_777));
            let io = io_at(Time::from_nanos(1_000_000_000), &limits, &date, &mut carry, &mut out);
            let next = Conn::answer_once(&input, io, &Echo, &seen);
            assert!(carry.is_empty());
            let expect = Peer::run(&limits, [&*input]);
            if let Some(next) = next {
                short += 1;
                let trace = expect.trace();
                assert_eq!(
                    (next, &out.head, trace.requests, trace.error),
                    (expect.next, &trace.sent, 1, None)
                );
            } else {
                assert!(out.is_empty());
            }
            run(&limits, [&*input], &mut seen);
        }
    }
    assert!(short > 20, "{short} inputs used the path without a connection");
}

/// The cached sender of a head is correct, and only cached heads have one.
#[test]
fn the_sender_of_a_head_is_cached() {
    use doorbell_http::prober::{Prober, Requester, prober_of};
    let rows: [(&str, Option<Prober>, bool); 7] = [
        (
            "Host: a\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\nConnection: close\r\n",
            Some(Prober::Kubelet),
            true,
        ),
        ("Host: a\r\nConnection: close\r\nUser-Agent: ELB-HealthChecker/2.0\r\n", Some(Prober::Elb), true),
        ("Host: a\r\nUser-Agent: Envoy/HC\r\n", Some(Prober::Envoy), true),
        ("Host: a\r\nAccept: application/json\r\n", None, false),
        ("Host: a\r\nUser-Agent: curl/8.9.1\r\nAccept: */*\r\n", None, true),
        // Heads that are never cached.
        ("Host: a\r\nX-Haproxy-Server-State: UP\r\n", Some(Prober::Haproxy), true),
        ("Host: a\r\nAccept: text/plain\r\nX-Haproxy-Server-State: UP\r\n", Some(Prober::Haproxy), false),
    ];
    for (fields, prober, takes_anything) in rows {
        let input = format!("GET /x HTTP/1.1\r\n{fields}\r\n");
        let askers = std::cell::RefCell::new(Vec::new());
        let service = doorbell_http::service_fn(|request, reply| {
            assert_eq!(prober_of(request), prober);
            askers.borrow_mut().push((Requester::of(request), Requester::remembered(request)));
            reply.status(doorbell_http::Status::OK).empty()
        });
        let (limits, mut seen) = (Limits::default(), Seen::new());
        for _ in 0..3 {
            let mut conn = Conn::new(Time::ZERO, &limits);
            let (date, mut carry, mut out) = (Date::new(0), Vec::new(), Out::new());
            let io = io_at(Time::ZERO, &limits, &date, &mut carry, &mut out);
            let _next = conn.handle_input_seen(input.as_bytes(), io, &service, &mut seen);
        }
        let asker = Requester { prober, takes_anything };
        let again = (!fields.contains("Haproxy")).then_some(asker);
        assert_eq!(*askers.borrow(), [(asker, None), (asker, again), (asker, again)], "{fields}");
    }
}
