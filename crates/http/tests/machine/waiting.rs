//! Deferred requests get the same replies, in the same order, as requests that are not deferred,
//! however the input is split.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell_http::layer::{AtMost, ServiceExt};
use doorbell_http::log::{Filter, Logger, Record, Sink};
use doorbell_http::parse::Seen;
use doorbell_http::{
    Client, Conn, Date, Io, Limits, Next, Out, Phase, Replied, Reply, Request, Responder, Service, Status,
    Time, service_fn,
};

/// Replies with the target and the body. The reply is deferred if `later` is set and the path
/// contains `later`. `/away` is handed over.
struct Echo {
    later: bool,
}

impl Service for Echo {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        head.path().contains("body")
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let made = Reply::text(Status::OK, format!("{} {}", request.target(), request.body().escape_ascii()));
        let reply = reply.header("X-Layer", "yes");
        if request.path().contains("away") {
            return reply.hand_over();
        }
        if self.later && request.path().contains("later") {
            return reply.later(request.now().after(Duration::from_secs(5)), Box::new(made));
        }
        reply.send_owned(made)
    }
}

/// A connection with its buffers.
struct Wire {
    conn: Conn,
    limits: Limits,
    date: Date,
    carry: Vec<u8>,
    out: Out,
    sent: Vec<u8>,
    seen: Seen,
    now: Time,
    draining: bool,
}

impl Wire {
    fn new() -> Self {
        let limits = Limits::default();
        let conn = Conn::new(Time::ZERO, &limits);
        let (carry, out, sent) = (Vec::new(), Out::new(), Vec::new());
        let date = Date::new(784_111_777);
        Self { conn, limits, date, carry, out, sent, seen: Seen::new(), now: Time::ZERO, draining: false }
    }

    fn call(&mut self, f: impl FnOnce(&mut Conn, Io<'_>, &mut Seen) -> Next) -> Next {
        let io = Io {
            now: self.now,
            date: &self.date,
            limits: &self.limits,
            carry: &mut self.carry,
            out: &mut self.out,
            closing: self.draining,
            client: &Client::UNKNOWN,
        };
        let next = f(&mut self.conn, io, &mut self.seen);
        if next != Next::Wait {
            assert!(self.out.take_later().is_none(), "only a deferred request leaves work");
        }
        next
    }

    fn send(&mut self) {
        self.sent.extend_from_slice(&self.out.head);
        self.sent.extend_from_slice(&self.out.body);
        let later = self.out.take_later();
        self.out.clear();
        later.into_iter().for_each(|later| self.out.put_later(later));
    }

    fn answer(&mut self) -> Next {
        let mut later = self.out.take_later().unwrap();
        let work: Box<dyn Any + Send> = later.take_work().unwrap();
        assert!(later.take_work().is_none());
        let reply = *work.downcast::<Reply>().unwrap();
        self.call(|conn, io, _| conn.handle_answer(*later, io, |responder| responder.send_owned(reply)))
    }

    /// Passes these pieces to the connection. A deferred reply is written after `patience` further
    /// pieces.
    fn play(&mut self, pieces: &[&[u8]], patience: usize, service: &Echo) -> Next {
        let mut next = Next::Read;
        let mut waited = 0;
        for piece in pieces {
            if next == Next::Wait {
                self.carry.extend_from_slice(piece);
                waited += 1;
            } else {
                next = self.call(|conn, io, seen| conn.handle_input_seen(piece, io, service, seen));
            }
            if next == Next::Wait && waited < patience {
                self.send();
                continue;
            }
            waited = 0;
            next = self.settle(next, service);
            if !matches!(next, Next::Read | Next::Wait) {
                return next;
            }
        }
        self.settle(next, service)
    }

    fn settle(&mut self, mut next: Next, service: &Echo) -> Next {
        loop {
            self.send();
            next = match next {
                Next::Flush => self.call(|conn, io, seen| conn.handle_input_seen(b"", io, service, seen)),
                Next::Wait => self.answer(),
                other => return other,
            };
        }
    }
}

const CLOSE: &str = "GET /later/4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

const SCRIPTS: &[&str] = &[
    "GET /later/1 HTTP/1.1\r\nHost: a\r\n\r\n",
    CLOSE,
    "GET /later HTTP/1.0\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /later/2 HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /later/2 HTTP/1.1\r\nHost: a\r\n\r\nGET /later/2 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /later/3 HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /later/body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /c HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /later/body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /later/d HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /later/skipped HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /c HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /later/skipped HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
    "POST /later/body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
    "GET /later/5 HTTP/1.1\r\nHost: a\r\n\r\nBAD\r\n\r\n",
    "GET /later/6 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nmore than was asked for",
];

/// Returns the output for the same input without deferral.
fn at_once(pieces: &[&[u8]]) -> (Vec<u8>, Next) {
    let mut wire = Wire::new();
    let next = wire.play(pieces, 0, &Echo { later: false });
    (wire.sent, next)
}

#[test]
fn later_is_the_same_as_at_once_for_every_cut() {
    let mut waits = 0;
    for script in SCRIPTS {
        let bytes = script.as_bytes();
        for first in 0..bytes.len() {
            for second in [first, first + 1, first + 7, bytes.len()] {
                let second = second.min(bytes.len());
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let expected = at_once(&pieces);
                for patience in 0..3 {
                    let mut wire = Wire::new();
                    let next = wire.play(&pieces, patience, &Echo { later: true });
                    let cut = format!("{script:?} cut at {first} and {second}, patience {patience}");
                    assert_eq!(
                        wire.sent.escape_ascii().to_string(),
                        expected.0.escape_ascii().to_string(),
                        "{cut}"
                    );
                    let closes = |next| matches!(next, Next::CloseClean | Next::CloseLinger);
                    assert_eq!(closes(next), closes(expected.1), "{cut}");
                    if next == Next::CloseClean {
                        assert!(wire.carry.is_empty(), "{cut}: a clean close leaves no input");
                    }
                    waits += 1;
                }
            }
        }
    }
    assert!(waits > 5_000);
}

#[test]
fn a_known_head_that_closes_waits_without_a_state_before() {
    let mut wire = Wire::new();
    let service = Echo { later: true };
    let (expected, _) = at_once(&[CLOSE.as_bytes()]);
    assert_eq!(wire.play(&[CLOSE.as_bytes()], 0, &service), Next::CloseClean);
    let seen = std::mem::replace(&mut wire.seen, Seen::new());
    let mut wire = Wire { seen, ..Wire::new() };
    let next = wire.call(|_, io, seen| Conn::answer_once(CLOSE.as_bytes(), io, &service, seen).unwrap());
    assert_eq!(next, Next::Wait);
    let _wait = wire.call(|conn, io, _| {
        conn.wait_once(&io);
        Next::Wait
    });
    assert_eq!((wire.conn.phase(), wire.conn.requests()), (Phase::Waiting, 1));
    assert_eq!(wire.settle(next, &service), Next::CloseClean);
    assert_eq!(wire.sent, expected);
}

#[test]
fn time_out_is_a_503_and_the_end_and_not_before() {
    let mut wire = Wire::new();
    let service = Echo { later: true };
    let next = wire.call(|conn, io, seen| conn.handle_input_seen(SCRIPTS[4].as_bytes(), io, &service, seen));
    assert_eq!((next, wire.conn.deadline()), (Next::Wait, Time::ZERO.after(Duration::from_secs(5))));
    let _later = wire.out.take_later();
    wire.now = Time::from_nanos(4_999_999_999);
    assert_eq!(wire.call(|conn, io, _| conn.handle_timeout(io)), Next::Wait);
    assert_eq!(wire.call(|conn, io, _| conn.handle_eof(io)), Next::Wait, "the reply is still awaited");
    wire.now = Time::from_nanos(5_000_000_000);
    assert_eq!(wire.call(|conn, io, _| conn.handle_timeout(io)), Next::CloseLinger);
    wire.send();
    let said = String::from_utf8(wire.sent).unwrap();
    assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("Retry-After: 1\r\n"), "{said}");
    assert!(said.contains("Connection: close\r\n") && wire.carry.is_empty(), "{said}");
}

#[test]
fn a_drain_that_began_meanwhile_is_said() {
    let mut wire = Wire::new();
    let service = Echo { later: true };
    let next = wire.call(|conn, io, seen| conn.handle_input_seen(SCRIPTS[0].as_bytes(), io, &service, seen));
    assert_eq!(next, Next::Wait);
    wire.draining = true;
    assert_eq!(wire.answer(), Next::CloseClean);
    wire.send();
    let said = String::from_utf8(wire.sent).unwrap();
    assert!(said.contains("Connection: close\r\n") && said.contains("X-Layer: yes\r\n"), "{said}");
}

#[test]
fn a_panic_while_the_answer_is_written_is_a_500() {
    let mut wire = Wire::new();
    let service = Echo { later: true };
    let _wait = wire.call(|conn, io, seen| conn.handle_input_seen(SCRIPTS[0].as_bytes(), io, &service, seen));
    let _later = wire.out.take_later();
    assert_eq!(wire.call(|conn, io, _| conn.handle_panic(io)), Next::CloseLinger);
    wire.send();
    assert!(wire.sent.starts_with(b"HTTP/1.1 500 "));
}

#[test]
fn an_overload_right_after_a_request_was_left_takes_it_back() {
    let mut wire = Wire::new();
    let service = Echo { later: true };
    let _wait = wire.call(|conn, io, seen| conn.handle_input_seen(SCRIPTS[0].as_bytes(), io, &service, seen));
    let next = wire.call(|conn, io, _| conn.handle_overload(io));
    assert_eq!((next, wire.conn.phase()), (Next::CloseLinger, Phase::Closing));
    assert!(wire.out.take_later().is_none());
}

#[test]
fn an_owned_reply_with_a_field_that_must_not_be_sent_is_a_500() {
    for reply in [
        Reply::text(Status::OK, "x").header("Content-Length", "9"),
        Reply::new(Status::OK).header("A\r\nB", "c"),
        Reply::new(Status::OK).header("A", "c\r\nd: e"),
        Reply::new(Status::new(101).unwrap()),
    ] {
        let mut wire = Wire::new();
        let service = service_fn(|_, responder| responder.send_owned(reply.clone()));
        let _next = wire.call(|conn, io, seen| conn.handle_input_seen(CLOSE.as_bytes(), io, &service, seen));
        wire.send();
        assert!(wire.sent.starts_with(b"HTTP/1.1 500 "), "{reply:?}");
    }
}

#[test]
fn a_detached_request_is_the_same_request() {
    let service = service_fn(|request, responder| {
        let owned = request.detach();
        let text = owned.with(|again| {
            assert_eq!(format!("{again:?}"), format!("{request:?}"));
            assert_eq!(
                (again.now(), again.unix_secs(), again.client()),
                (request.now(), request.unix_secs(), request.client())
            );
            format!("{} {:?}", again.path(), again.header("x-a").map(<[u8]>::to_vec))
        });
        responder.send_owned(Reply::text(Status::OK, text))
    });
    let mut wire = Wire::new();
    let request = b"GET /p?q HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n\r\nGET /next HTTP/1.1\r\n";
    let _next = wire.call(|conn, io, seen| conn.handle_input_seen(request, io, &service, seen));
    wire.send();
    assert!(wire.sent.ends_with(b"/p Some([49])"), "{}", wire.sent.escape_ascii());
}

#[test]
fn what_is_handed_over_behind_an_answer_goes_whole_for_every_cut() {
    let away = "GET /away HTTP/1.1\r\nHost: a\r\n\r\nGET /later HT";
    let bytes = format!("GET /later HTTP/1.1\r\nHost: a\r\n\r\n{away}").into_bytes();
    for at in 0..=bytes.len() {
        for patience in 0..3 {
            let (first, second) = bytes.split_at(at);
            let mut wire = Wire::new();
            let next = wire.play(&[first, second], patience, &Echo { later: true });
            let cut = format!("cut at {at}, patience {patience}");
            assert_eq!((next, wire.conn.requests()), (Next::HandOver, 1), "{cut}");
            assert_eq!(wire.sent.windows(5).filter(|window| window == b"HTTP/").count(), 1, "{cut}");
            let with_second = [wire.carry.as_slice(), second].concat();
            let whole = [wire.carry, with_second].into_iter().any(|bytes| bytes == away.as_bytes());
            assert!(whole, "{cut}: every byte is handed over or still in the socket");
        }
    }
}

#[test]
fn an_answer_cannot_hand_over_what_was_read() {
    let mut wire = Wire::new();
    let service = Echo { later: true };
    let input = b"GET /later HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(wire.call(|conn, io, _| conn.handle_input(input, io, &service)), Next::Wait);
    let later = wire.out.take_later().unwrap();
    let next = wire.call(|conn, io, _| conn.handle_answer(*later, io, |reply| reply.hand_over()));
    wire.send();
    assert_eq!((next, wire.conn.phase()), (Next::CloseLinger, Phase::Closing));
    assert!(wire.sent.starts_with(b"HTTP/1.1 500 ") && wire.carry.is_empty());
}

/// A way to end a deferred request.
type End<'a> = &'a dyn Fn(&mut Wire);

/// A sink that records statuses in the order of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Option<u16>>>>);

impl Sink for Log {
    fn log(&self, record: &Record) {
        self.0.lock().unwrap().push(record.status().map(Status::code));
    }

    fn later(&self) -> Option<Box<dyn Sink + Send>> {
        Some(Box::new(self.clone()))
    }
}

#[test]
fn a_place_is_held_and_a_line_is_not_written_until_the_request_ends() {
    let answer = |wire: &mut Wire| assert_eq!(wire.answer(), Next::Flush);
    let late = |wire: &mut Wire| wire.out.take_later().unwrap().timed_out();
    let gone = |wire: &mut Wire| drop(wire.out.take_later());
    let again = |wire: &mut Wire| {
        let later = wire.out.take_later().unwrap();
        let next = wire.call(|conn, io, _| {
            conn.handle_answer(*later, io, |reply| reply.later(Time::ZERO, Box::new(Reply::new(Status::OK))))
        });
        assert_eq!(next, Next::Wait);
    };
    let ends: [(End<'_>, Option<u16>); 3] = [(&answer, Some(200)), (&late, Some(503)), (&gone, None)];
    for twice in [false, true] {
        for (end, status) in &ends {
            let (log, at_most) = (Log::default(), AtMost::new(1));
            let service =
                Echo { later: true }.with(at_most.clone()).with(Logger::new(Filter::ALL, log.clone()));
            let mut wire = Wire::new();
            let input = b"GET /later HTTP/1.1\r\nHost: a\r\n\r\n";
            let next = wire.call(|conn, io, _| conn.handle_input(input, io, &service));
            assert_eq!(next, Next::Wait);
            if twice {
                again(&mut wire);
            }
            assert_eq!((at_most.live(), log.0.lock().unwrap().len()), (1, 0), "{status:?}");
            end(&mut wire);
            assert_eq!((at_most.live(), log.0.lock().unwrap().as_slice()), (0, &[*status][..]));
        }
    }
}

#[test]
fn a_request_that_is_handed_over_is_no_error_of_ours() {
    for (filter, lines) in [(Filter::ERRORS, 0), (Filter::ALL, 1)] {
        let log = Log::default();
        let service = Echo { later: true }.with(Logger::new(filter, log.clone()));
        let input = b"GET /away HTTP/1.1\r\nHost: a\r\n\r\n";
        let next = Wire::new().call(|conn, io, _| conn.handle_input(input, io, &service));
        assert_eq!((next, log.0.lock().unwrap().len()), (Next::HandOver, lines));
    }
}
