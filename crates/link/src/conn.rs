//! One connection of a link: greeting, opening, numbered frames.

use crate::ended::Ended;
use crate::receipts::{Arrivals, Sent};
use crate::time::Time;
use crate::wire::{self, Frame, GREETING_LEN, Payload, VERSIONS};

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) number: u64,
    pub(crate) began: Time,
    pub(crate) last_sent: Time,
    pub(crate) last_received: Time,
    /// Negotiated protocol version; `None` before the peer's greeting has arrived.
    pub(crate) version: Option<u16>,
    pub(crate) sent: Sent,
    pub(crate) arrivals: Arrivals,
    /// Lowest sequence number not yet sent on this connection.
    pub(crate) next_transition: u64,
    /// Whether an acknowledgement must be sent.
    pub(crate) ack_due: bool,
    /// Received bytes that do not form a complete frame yet: at most those of one read and one
    /// frame.
    pub(crate) input: Vec<u8>,
    has_greeted: bool,
    has_opened: bool,
    /// Whether the peer's first frame has arrived.
    pub(crate) has_peer: bool,
}

impl Conn {
    pub(crate) fn new(number: u64, now: Time) -> Self {
        Self {
            number,
            began: now,
            last_sent: now,
            last_received: now,
            version: None,
            sent: Sent::default(),
            arrivals: Arrivals::default(),
            next_transition: 0,
            ack_due: false,
            input: Vec::new(),
            has_greeted: false,
            has_opened: false,
            has_peer: false,
        }
    }

    /// Whether frames other than the first one may be sent.
    pub(crate) const fn is_open(&self) -> bool {
        self.has_peer && self.has_opened
    }

    /// Whether the first frame can be sent and has not been sent yet.
    pub(crate) const fn may_open(&self) -> bool {
        self.version.is_some() && !self.has_opened
    }

    /// Appends the greeting, on the first call only.
    pub(crate) fn greet(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_greeted, true) {
            out.extend_from_slice(&wire::greeting(&VERSIONS));
        }
    }

    /// Sends the first frame.
    pub(crate) fn open(&mut self, now: Time, opening: Payload, out: &mut Vec<u8>) {
        self.has_opened = true;
        self.send(now, opening, out);
    }

    pub(crate) fn send(&mut self, now: Time, payload: Payload, out: &mut Vec<u8>) {
        let frame = Frame { number: self.sent.last + 1, sent_us: now.as_micros(), payload };
        let size = wire::write(&frame, out);
        self.sent.add(now, size);
        self.last_sent = now;
    }

    /// Decodes the next frame from the received bytes, and returns its payload and the time at which
    /// the peer sent it. The first payload is [`Payload::Open`], all others are not.
    pub(crate) fn next(&mut self, now: Time) -> Result<Option<(Time, Payload)>, Ended> {
        if self.version.is_none() {
            let Some(greeting) = self.input.first_chunk::<GREETING_LEN>() else { return Ok(None) };
            self.version = Some(wire::version_of(*greeting, &VERSIONS)?);
            self.input.drain(..GREETING_LEN);
        }
        let Some((frame, len)) = wire::read(&self.input)? else { return Ok(None) };
        self.input.drain(..len);
        let Frame { number, sent_us, payload } = frame;
        if number != self.arrivals.last + 1 {
            return Err(Ended::Order("frame number missing or repeated"));
        }
        self.arrivals.add(now, !matches!(payload, Payload::Receipts { .. }));
        self.last_received = now;
        match (self.has_peer, matches!(payload, Payload::Open(_))) {
            (false, false) => return Err(Ended::Order("the first frame does not open the connection")),
            (true, true) => return Err(Ended::Order("second opening")),
            _ => self.has_peer = true,
        }
        Ok(Some((Time::from_micros(sent_us), payload)))
    }
}
