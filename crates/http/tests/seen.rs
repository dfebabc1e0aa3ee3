//! A memory for field lines changes nothing that anybody can see.
//!
//! Does not know about: what the right result is; see `rules.rs`.

mod common;

use common::all_vectors;
use common::harness::{Echo, Peer, Trace};
use doorbell_http::parse::Seen;
use doorbell_http::{Limits, Next};

/// As `Peer::run`, with the memory.
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

/// One memory for all connections, as in a worker; each vector often enough to be remembered and found again.
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

/// A memory that knows the lines of [`PLAIN`].
fn taught() -> Seen {
    let mut seen = Seen::new();
    check(&Limits::default(), PLAIN, &mut seen, "first");
    assert!(format!("{seen:?}").contains("fields: 4"), "{seen:?}");
    seen
}

/// The remembered lines with one byte changed, at every place and to every value.
#[test]
fn one_changed_byte_is_judged_anew() {
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
fn remembered_lines_at_every_split_point_and_in_a_pipeline() {
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

/// What was fine under the limits of one listener is not under those of another.
#[test]
fn limits_hold_for_remembered_lines() {
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

/// Another path, query, method and version before the same lines.
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

/// Only lines without secrets are kept.
#[test]
fn other_lines_are_not_remembered() {
    for line in
        ["Authorization: x", "Cookie: a=b", "Content-Length: 0", "X-Token: y", "Transfer-Encoding: chunked"]
    {
        let mut seen = Seen::new();
        let input = format!("GET /x HTTP/1.1\r\nHost: a\r\n{line}\r\nAccept: */*\r\n\r\n");
        for _ in 0..20 {
            run(&Limits::default(), [input.as_bytes()], &mut seen);
        }
        assert!(format!("{seen:?}").contains("len: 0"), "{line}: {seen:?}");
    }
}
