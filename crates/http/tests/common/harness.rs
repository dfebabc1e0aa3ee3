//! A connection driven manually, and a service whose replies describe the request.
//!
//! Also used by the fuzz targets.
#![allow(dead_code, reason = "each user needs only a part")]

use bytes::Bytes;
use doorbell_http::{
    Client, Conn, Date, Io, Limits, Next, Out, Phase, Replied, Request, RequestError, Responder, Service,
    StaticReply, Status, Time,
};

/// A service that replies by path; the default reply describes the request.
#[derive(Debug)]
pub(crate) struct Echo;

impl Service for Echo {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        assert!(head.body().is_empty());
        head.path().starts_with("/want")
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match request.path() {
            "/bad" => reply.status(Status::OK).header("X", "a\r\nSet-Cookie: b").content("never"),
            "/big" => reply.status(Status::OK).content_bytes(Bytes::from_static(&[b'.'; 20_000])),
            "/hang" => reply.close(),
            "/last" => reply.close_after().send(&StaticReply::text(Status::OK, "bye")),
            "/none" => reply.status(Status::NO_CONTENT).empty(),
            _ => reply.status(Status::OK).content(describe(request)),
        }
    }
}

/// Creates the resources of a call, with an unknown client.
pub(crate) const fn io_at<'a>(
    now: Time,
    limits: &'a Limits,
    date: &'a Date,
    carry: &'a mut Vec<u8>,
    out: &'a mut Out,
) -> Io<'a> {
    Io { now, date, limits, carry, out, closing: false, client: &Client::UNKNOWN }
}

/// Returns one line with all properties of a request.
pub(crate) fn describe(request: &Request<'_>) -> Vec<u8> {
    let mut text = format!(
        "{} {} {:?} {:?} {:?} {} [",
        request.method(),
        request.path(),
        request.query(),
        request.host(),
        request.version(),
        request.headers().iter().count(),
    )
    .into_bytes();
    text.extend_from_slice(request.body());
    text.push(b']');
    text
}

/// A connection with all the state that the engine would store for it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) conn: Conn,
    pub(crate) carry: Vec<u8>,
    pub(crate) now: Time,
    pub(crate) limits: Limits,
    pub(crate) closing: bool,
    /// All bytes sent so far.
    pub(crate) sent: Vec<u8>,
    pub(crate) next: Next,
    out: Out,
    date: Date,
}

/// The results that must not depend on how the input is split.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) sent: Vec<u8>,
    pub(crate) carry: Vec<u8>,
    pub(crate) phase: Phase,
    pub(crate) requests: u32,
    pub(crate) error: Option<RequestError>,
}

impl Peer {
    pub(crate) fn new(limits: Limits) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        Self {
            conn: Conn::new(now, &limits),
            carry: Vec::new(),
            now,
            limits,
            closing: false,
            sent: Vec::new(),
            next: Next::Read,
            out: Out::new(),
            date: Date::new(784_111_777),
        }
    }

    /// Passes all `pieces` in order to a new connection, until it closes.
    pub(crate) fn run<'a>(limits: &Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut peer = Self::new(limits.clone());
        for piece in pieces {
            if peer.input(piece) != Next::Read {
                break;
            }
        }
        peer
    }

    /// Passes `fresh` to the connection and flushes as often as requested.
    pub(crate) fn input(&mut self, fresh: &[u8]) -> Next {
        let message_max = self.limits.head_bytes_max + self.limits.body_bytes_max;
        let carry_max = message_max.max(self.carry.len() + fresh.len());
        let mut next = self.call(|conn, io| conn.handle_input(fresh, io, &Echo));
        assert!(self.carry.len() <= carry_max, "{} bytes carried", self.carry.len());
        while next == Next::Flush {
            next = self.call(|conn, io| conn.handle_input(b"", io, &Echo));
        }
        assert!(self.carry.len() <= message_max, "{} bytes carried", self.carry.len());
        match next {
            Next::Read => assert_eq!(self.carry.is_empty(), self.conn.phase() == Phase::Idle),
            _ => assert_eq!(self.conn.phase(), Phase::Closing),
        }
        next
    }

    pub(crate) fn eof(&mut self) -> Next {
        self.call(Conn::handle_eof)
    }

    /// Advances to the deadline and notifies the connection.
    pub(crate) fn timeout(&mut self) -> Next {
        self.now = self.now.max(self.conn.deadline());
        self.call(Conn::handle_timeout)
    }

    pub(crate) fn call(&mut self, call: impl FnOnce(&mut Conn, Io<'_>) -> Next) -> Next {
        let io = Io {
            now: self.now,
            date: &self.date,
            limits: &self.limits,
            carry: &mut self.carry,
            out: &mut self.out,
            closing: self.closing,
            client: &Client::UNKNOWN,
        };
        self.next = call(&mut self.conn, io);
        self.sent.extend_from_slice(&self.out.head);
        self.sent.extend_from_slice(&self.out.body);
        self.out.clear();
        self.next
    }

    pub(crate) fn misuse(&mut self) -> Option<doorbell_http::ApiMisuse> {
        self.out.take_misuses().kinds().next()
    }

    pub(crate) fn trace(&self) -> Trace {
        let closed = self.conn.phase() == Phase::Closing;
        Trace {
            sent: self.sent.clone(),
            carry: if closed { Vec::new() } else { self.carry.clone() },
            phase: self.conn.phase(),
            requests: self.conn.requests(),
            error: self.conn.error(),
        }
    }
}

/// Returns the status codes in a stream of replies, each of which must be complete.
pub(crate) fn statuses(sent: &[u8]) -> Vec<u16> {
    let mut codes = Vec::new();
    let mut rest = sent;
    while !rest.is_empty() {
        let text = rest.strip_prefix(b"HTTP/1.1 ").expect("a status line");
        let code: u16 =
            std::str::from_utf8(&text[..3]).ok().and_then(|code| code.parse().ok()).expect("a status code");
        let end = find(rest, b"\r\n\r\n").expect("a whole head") + 4;
        let (head, after) = rest.split_at(end);
        rest = after;
        // A reply to HEAD has a length but no content; the next reply or the end follows
        // immediately.
        if let Some(len) = content_length(head)
            && !rest.is_empty()
            && !rest.starts_with(b"HTTP/1.1 ")
        {
            rest = rest.get(len..).expect("whole content");
        }
        codes.push(code);
    }
    codes
}

fn content_length(head: &[u8]) -> Option<usize> {
    let at = find(head, b"\r\nContent-Length: ")? + 18;
    let len = find(&head[at..], b"\r\n")?;
    std::str::from_utf8(&head[at..at + len]).ok()?.parse().ok()
}

pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
