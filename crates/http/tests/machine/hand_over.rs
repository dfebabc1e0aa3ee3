//! A hand-over contains every byte from the first handed-over request on, however the input is
//! split.

use doorbell_http::parse::Seen;
use doorbell_http::{
    Client, Conn, Date, Io, Limits, MessageStart, Next, Out, Phase, Replied, Request, Responder, Service,
    StaticReply, Status, Time,
};

/// Replies to `/livez` and hands over other requests.
struct Own {
    livez: StaticReply,
    /// Whether requests with bodies and other protocols are handed over as well.
    all: bool,
}

impl Own {
    fn new(all: bool) -> Self {
        Self { livez: StaticReply::text(Status::OK, "ok\n"), all }
    }
}

impl Service for Own {
    fn hands_over(&self, begun: MessageStart<'_>) -> bool {
        match begun {
            MessageStart::Body(head) => self.all && head.path() != "/livez",
            _ => self.all,
        }
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if request.path() == "/livez" { reply.send(&self.livez) } else { reply.hand_over() }
    }
}

/// The result of passing input to a connection.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    next: Next,
    requests: u32,
    replies: usize,
    sent: Vec<u8>,
    carry: Vec<u8>,
}

fn feed(own: &Own, pieces: &[&[u8]], seen: &mut Seen) -> Came {
    let (limits, date, now) = (Limits::default(), Date::new(784_111_777), Time::ZERO);
    let (mut carry, mut out) = (Vec::new(), Out::new());
    let mut conn = Conn::new(now, &limits);
    let mut sent = Vec::new();
    let mut next = Next::Read;
    for (at, piece) in pieces.iter().enumerate() {
        let mut fresh = *piece;
        loop {
            let client = &Client::UNKNOWN;
            let io = Io {
                now,
                date: &date,
                limits: &limits,
                carry: &mut carry,
                out: &mut out,
                closing: false,
                client,
            };
            next = conn.handle_input_seen(fresh, io, own, seen);
            sent.extend_from_slice(&out.head);
            out.clear();
            fresh = b"";
            if next != Next::Flush {
                break;
            }
        }
        if next != Next::Read {
            // Bytes that have not arrived yet remain in the socket.
            pieces[at + 1..].iter().for_each(|later| carry.extend_from_slice(later));
            break;
        }
    }
    if next == Next::HandOver {
        assert_eq!(conn.phase(), Phase::Closing);
    }
    let replies = sent.windows(9).filter(|window| window == b"HTTP/1.1 ").count();
    Came { next, requests: conn.requests(), replies, sent, carry }
}

const PROBE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";

const FOREIGN: &[&[u8]] = &[
    b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /app HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"GET /app HTTP/1.1\r\nHost: a\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /half",
    b"POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello and more",
    b"POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\nhello",
    b"POST /app HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"POST /app HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    b"PROPFIND /app HTTP/1.1\r\nHost: a\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\nbytes",
    b"POST /app HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n\x1f\x8b",
    b"\r\n\r\nGET /after/empty/lines HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// Input that is handed over only at the start of a connection.
const OTHER_PROTOCOLS: &[&[u8]] = &[
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 9, 9, 9],
    b"PRI * HTTP/2.0 \r\n",
    b"PRI * HTTP/2.7\r\n",
    b"PRI /x HTTP/2.0\r\n",
    b"PRO * HTTP/2.0\r\n",
    b"INVALID CONNECTION PREFACE\r\n\r\n",
];

/// Input that is refused: malformed HTTP/1, or an unknown protocol that does not begin like HTTP/2.
const NOBODYS: &[&[u8]] = &[
    b"GET * HTTP/2.0\r\n",
    b"GET /a b HTTP/1.1\r\n",
    b"PRI *\r\n",
    b"PRI\r\n",
    b"PRI * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\0PRI",
    &[22, 2, 0],
];

/// Asserts that the hand-over contains all input after the requests that got a reply.
fn check(own: &Own, all: &[u8], probes: usize, pieces: &[&[u8]], seen: &mut Seen) {
    let came = feed(own, pieces, seen);
    let shown = || format!("{:?} in {} pieces: {came:?}", all.escape_ascii().to_string(), pieces.len());
    assert_eq!(came.next, Next::HandOver, "{}", shown());
    assert_eq!((came.replies, came.requests as usize), (probes, probes), "{}", shown());
    let foreign = &all[probes * PROBE.len()..];
    // Empty lines before the request may be missing from the hand-over.
    let foreign = if came.carry.len() < foreign.len() { trim(foreign) } else { foreign };
    assert_eq!(came.carry, foreign, "{}", shown());
}

fn trim(bytes: &[u8]) -> &[u8] {
    let empty = bytes.iter().take_while(|byte| b"\r\n".contains(byte)).count();
    &bytes[empty..]
}

#[test]
fn every_byte_is_kept_at_every_split_point_and_behind_any_number_of_probes() {
    let own = Own::new(true);
    let mut seen = Seen::new();
    for foreign in FOREIGN {
        for probes in 0..3 {
            let all = [PROBE.repeat(probes), foreign.to_vec()].concat();
            check(&own, &all, probes, &[&all], &mut seen);
            for at in 0..=all.len() {
                check(&own, &all, probes, &[&all[..at], &all[at..]], &mut seen);
            }
            check(&own, &all, probes, &all.chunks(1).collect::<Vec<_>>(), &mut seen);
        }
    }
}

#[test]
fn another_protocol_is_left_at_every_split_point_and_only_as_the_first_thing() {
    let own = Own::new(true);
    let mut seen = Seen::new();
    for foreign in OTHER_PROTOCOLS {
        for at in 0..=foreign.len() {
            check(&own, foreign, 0, &[&foreign[..at], &foreign[at..]], &mut seen);
        }
        check(&own, foreign, 0, &foreign.chunks(1).collect::<Vec<_>>(), &mut seen);
        let all = [PROBE, foreign].concat();
        let came = feed(&own, &[&all], &mut seen);
        assert_eq!(
            (came.next, came.replies),
            (Next::CloseLinger, 2),
            "another protocol after a request is an error"
        );
    }
    for bytes in NOBODYS {
        let came = feed(&own, &[bytes], &mut seen);
        assert_eq!(
            (came.next, came.replies),
            (Next::CloseLinger, 1),
            "{:?}",
            bytes.escape_ascii().to_string()
        );
    }
}

#[test]
fn a_service_that_takes_everything_itself_answers_as_before() {
    let own = Own::new(false);
    for foreign in OTHER_PROTOCOLS.iter().chain(&FOREIGN[7..10]) {
        let came = feed(&own, &[foreign], &mut Seen::new());
        assert_eq!((came.next, came.replies, came.carry.len()), (Next::CloseLinger, 1, 0));
    }
}

#[test]
fn a_body_that_was_read_cannot_be_handed_over() {
    let own = Own::new(false);
    for (body, next) in [
        ("Content-Length: 5\r\n\r\nhello", Next::CloseClean),
        ("Content-Length: 5\r\n\r\nhello+", Next::CloseLinger),
    ] {
        let all = format!("POST /app HTTP/1.1\r\nHost: a\r\n{body}");
        let came = feed(&own, &[all.as_bytes()], &mut Seen::new());
        assert_eq!((came.next, came.carry.len()), (next, 0));
        assert!(came.sent.starts_with(b"HTTP/1.1 500 "), "{}", came.sent.escape_ascii());
    }
}

#[test]
fn a_remembered_head_is_left_in_one_call_too() {
    let own = Own::new(true);
    let mut seen = Seen::new();
    let request = b"GET /app HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut lefts = 0;
    for _ in 0..100 {
        check(&own, request, 0, &[request], &mut seen);
        let (limits, date, mut carry, mut out) = (Limits::default(), Date::new(0), Vec::new(), Out::new());
        let io = Io {
            now: Time::ZERO,
            date: &date,
            limits: &limits,
            carry: &mut carry,
            out: &mut out,
            closing: false,
            client: &Client::UNKNOWN,
        };
        if let Some(next) = Conn::answer_once(request, io, &own, &seen) {
            assert_eq!((next, carry.as_slice(), out.is_empty()), (Next::HandOver, request.as_slice(), true));
            lefts += 1;
        }
    }
    assert!(lefts > 50, "the head is cached: {lefts}");
}

#[test]
fn a_failed_hand_over_is_a_503_or_goaway() {
    let said = untaken(FOREIGN[0]);
    assert!(said.starts_with(b"HTTP/1.1 503 "), "{}", said.escape_ascii());
    let (settings, goaway) = (&[0, 0, 0, 4, 0, 0, 0, 0, 0], &[0, 0, 8, 7, 0, 0, 0, 0, 0]);
    for (at, foreign) in OTHER_PROTOCOLS.iter().enumerate() {
        let said = untaken(foreign);
        if at == 1 {
            assert!(said.starts_with(b"HTTP/1.1 503 "), "{}", said.escape_ascii());
        } else {
            assert_eq!(said, [&settings[..], goaway, &[0; 8]].concat());
        }
    }
}

/// Returns the reply to a client whose connection could not be handed over after these bytes.
fn untaken(foreign: &[u8]) -> Vec<u8> {
    let (limits, date, now) = (Limits::default(), Date::new(784_111_777), Time::ZERO);
    let (mut carry, mut out) = (Vec::new(), Out::new());
    let mut conn = Conn::new(now, &limits);
    for step in 0..2 {
        let io = Io {
            now,
            date: &date,
            limits: &limits,
            carry: &mut carry,
            out: &mut out,
            closing: false,
            client: &Client::UNKNOWN,
        };
        if step == 0 {
            assert_eq!(conn.handle_input(foreign, io, &Own::new(true)), Next::HandOver);
        } else {
            assert_eq!(conn.handle_overload(io), Next::CloseLinger);
        }
    }
    assert!(carry.is_empty());
    out.head
}
