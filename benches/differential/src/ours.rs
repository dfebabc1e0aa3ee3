//! doorbell-http, called in this process.

use crate::framing::{End, Framing, Seen};
use doorbell_http::{
    Client, Conn, Date, Io, Limits, Next, Out, Replied, Request, RequestError, Responder, Service,
    StaticReply, Status, Time,
};
use std::cell::RefCell;

/// A server that records its requests.
#[derive(Debug)]
pub struct Ours {
    notes: Notes,
    limits: Limits,
    date: Date,
    carry: Vec<u8>,
    out: Out,
}

/// A framing with positions in the stream.
#[derive(Clone, Debug)]
pub struct PlacedFraming {
    /// The framing for byte-by-byte input.
    pub framing: Framing,
    /// The position after the last byte of each complete request.
    pub ends: Vec<usize>,
    /// Position of the byte at which the stream was refused.
    pub refused_at: Option<usize>,
    /// The error of the refusal.
    pub error: Option<RequestError>,
}

#[derive(Debug)]
struct Notes {
    requests: RefCell<Vec<Seen>>,
    reply: StaticReply,
}

impl Service for Notes {
    fn wants_body(&self, _: &Request<'_>) -> bool {
        true
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let mut target = request.path().as_bytes().to_vec();
        if let Some(query) = request.query() {
            target.push(b'?');
            target.extend_from_slice(query.as_bytes());
        }
        self.requests.borrow_mut().push(Seen {
            method: request.method().as_str().into(),
            target,
            host: request.host().unwrap_or_default().into(),
            body: request.body().into(),
        });
        reply.send(&self.reply)
    }
}

impl Ours {
    /// Creates a server with the default limits.
    pub fn new() -> Self {
        Self {
            notes: Notes { requests: RefCell::default(), reply: StaticReply::text(Status::OK, "") },
            limits: Limits::default(),
            date: Date::new(784_111_777),
            carry: Vec::new(),
            out: Out::new(),
        }
    }

    /// Frames `stream`, which arrives in two pieces split at `cut`.
    pub fn frame(&mut self, stream: &[u8], cut: usize) -> Framing {
        let mut conn = Conn::new(Time::ZERO, &self.limits);
        self.carry.clear();
        let (first, second) = stream.split_at(cut);
        let mut open = self.input(&mut conn, first);
        if open && !second.is_empty() {
            open = self.input(&mut conn, second);
        }
        self.finish(&mut conn, open)
    }

    /// Frames `stream` byte by byte, and records positions.
    pub fn places(&mut self, stream: &[u8]) -> PlacedFraming {
        let mut conn = Conn::new(Time::ZERO, &self.limits);
        self.carry.clear();
        let (mut ends, mut open, mut refused_at) = (Vec::new(), true, None);
        for at in 0..stream.len() {
            open = self.input(&mut conn, &stream[at..=at]);
            if self.notes.requests.borrow().len() > ends.len() {
                ends.push(at + 1);
            }
            if !open {
                refused_at = conn.error().map(|_| at);
                break;
            }
        }
        let error = conn.error();
        PlacedFraming { framing: self.finish(&mut conn, open), ends, refused_at, error }
    }

    fn input(&mut self, conn: &mut Conn, mut bytes: &[u8]) -> bool {
        loop {
            let (io, service) = self.parts();
            let next = conn.handle_input(bytes, io, service);
            self.out.clear();
            match next {
                Next::Flush => bytes = b"",
                Next::Read => return true,
                _ => return false,
            }
        }
    }

    fn finish(&mut self, conn: &mut Conn, open: bool) -> Framing {
        if open {
            let (io, _) = self.parts();
            let _ = conn.handle_eof(io);
            self.out.clear();
        }
        let end = match conn.error() {
            None => End::Between,
            Some(RequestError::Incomplete) => End::Inside,
            Some(error) => End::Refused(error.status().code()),
        };
        Framing { requests: self.notes.requests.take(), end }
    }

    fn parts(&mut self) -> (Io<'_>, &Notes) {
        let io = Io {
            now: Time::ZERO,
            date: &self.date,
            limits: &self.limits,
            carry: &mut self.carry,
            out: &mut self.out,
            closing: false,
            client: &Client::UNKNOWN,
        };
        (io, &self.notes)
    }
}

impl Default for Ours {
    fn default() -> Self {
        Self::new()
    }
}
