//! Cost of one message on an open connection: a link frame with its share of receipts, compared
//! with JSON in a request and its response over HTTP/1.1 and HTTP/2, without system calls and TLS.
//! Decision 0065 contains figures.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench may panic, and prints sizes")]

mod http2;

use std::hint::black_box;
use std::io::Write as _;

use criterion::{Criterion, criterion_group, criterion_main};
use doorbell_link::{Event, Link, LinkOptions, Measured, Outcome, State, Subject, Time};
use http2::Http2;
use serde::{Deserialize, Serialize};

const NAME: &str = "orders-db";
const REASON: &str = "connection refused";

/// Two sides with an open connection.
struct Pair {
    now_us: u64,
    sides: [Link; 2],
    bytes: Vec<u8>,
    sent: usize,
}

impl Pair {
    fn new() -> Self {
        let sides = [1, 2].map(|incarnation| Link::new(LinkOptions::default(), incarnation));
        let mut pair = Self { now_us: 1_800_000_000_000_000, sides, bytes: Vec::new(), sent: 0 };
        let now = pair.now();
        pair.sides.iter_mut().for_each(|side| side.connected(now));
        (0..3).for_each(|_| pair.exchange());
        pair.sent = 0;
        pair
    }

    const fn now(&self) -> Time {
        Time::from_micros(self.now_us)
    }

    fn exchange(&mut self) {
        let now = self.now();
        for from in [0, 1] {
            self.bytes.clear();
            self.sides[from].transmit(now, &mut self.bytes);
            self.sent += self.bytes.len();
            self.sides[1 - from].receive(now, &self.bytes).unwrap();
        }
    }

    /// Sends a transition or a result one millisecond after the last one, and delivers it.
    fn message(&mut self, is_transition: bool) -> bool {
        self.now_us += 1_000;
        let (now, subject) = (self.now(), Subject::check(NAME));
        if is_transition {
            self.sides[0].transition(now, subject, State::Down, REASON);
        } else {
            let measured = Measured { outcome: Outcome::Failure, latency_us: 1_250 };
            self.sides[0].result(now, subject, State::Down, REASON, Some(measured));
        }
        self.exchange();
        while self.sides[0].next_event().is_some() {}
        let mut has_arrived = false;
        while let Some(event) = self.sides[1].next_event() {
            has_arrived |= matches!(event, Event::Result(..) | Event::Transition(_));
        }
        has_arrived
    }
}

#[derive(Serialize, Deserialize)]
struct Message<'a> {
    kind: &'a str,
    name: &'a str,
    state: &'a str,
    reason: &'a str,
    outcome: &'a str,
    latency_us: u64,
    at_us: u64,
    sequence: u64,
}

const RESPONSE: &[u8] = b"HTTP/1.1 204 No Content\r\ndate: Fri, 27 Nov 2026 07:00:00 GMT\r\n\r\n";

/// Encodes the message with this number.
fn json(sequence: u64) -> Vec<u8> {
    let message = Message {
        kind: "check",
        name: NAME,
        state: "down",
        reason: REASON,
        outcome: "failure",
        latency_us: 1_250,
        at_us: 1_800_000_000_000_000 + sequence,
        sequence,
    };
    serde_json::to_vec(&message).unwrap()
}

fn parse(json: &[u8]) {
    let message: Message<'_> = serde_json::from_slice(json).unwrap();
    assert_eq!(message.at_us, 1_800_000_000_000_000 + message.sequence);
}

/// Encodes and parses a request of HTTP/1.1 with a message, and its response. Returns the size of
/// both.
fn http(bytes: &mut Vec<u8>, sequence: u64) -> usize {
    let body = json(sequence);
    bytes.clear();
    write!(
        bytes,
        "POST /links/eu HTTP/1.1\r\nhost: central.example.com\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .unwrap();
    bytes.extend_from_slice(&body);
    let mut fields = [httparse::EMPTY_HEADER; 16];
    let mut request = httparse::Request::new(&mut fields);
    let head = request.parse(black_box(bytes)).unwrap().unwrap();
    let len = request.headers.iter().find(|field| field.name == "content-length").unwrap().value;
    let len: usize = str::from_utf8(len).unwrap().parse().unwrap();
    parse(&bytes[head..head + len]);
    let mut fields = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut fields);
    assert!(response.parse(black_box(RESPONSE)).unwrap().is_complete());
    bytes.len() + RESPONSE.len()
}

fn message(c: &mut Criterion) {
    for (name, is_transition) in [("frame, result", false), ("frame, transition", true)] {
        let mut pair = Pair::new();
        (0..10_000).for_each(|_| assert!(pair.message(is_transition)));
        println!("{name}: {} bytes for 1,000 messages with their receipts", pair.sent / 10);
        c.bench_function(name, |b| b.iter(|| assert!(pair.message(is_transition))));
    }
    let (mut bytes, mut sequence) = (Vec::new(), 1);
    println!("JSON over HTTP/1.1: {} bytes for 1,000 messages", 1_000 * http(&mut bytes, sequence));
    c.bench_function("JSON over HTTP/1.1", |b| {
        b.iter(|| {
            sequence += 1;
            http(&mut bytes, sequence)
        });
    });
    let len = http2::size((1..=10_000).map(json), parse) / 10;
    println!("JSON over HTTP/2: {len} bytes for 1,000 messages");
    let (mut conn, mut sequence) = (Http2::open(parse), 1);
    c.bench_function("JSON over HTTP/2", |b| {
        b.iter(|| {
            sequence += 1;
            conn.message(json(sequence));
        });
    });
}

criterion_group!(benches, message);
criterion_main!(benches);
