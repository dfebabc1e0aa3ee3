//! One connection of a link: greeting, opening, numbered frames.
//!
//! Does not know about: state that outlives the connection.

use crate::ended::Ended;
use crate::receipts::{Arrivals, Sent};
use crate::time::Time;
use crate::wire::{self, Frame, GREETING_LEN, Payload};
use std::ops::RangeInclusive;

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
    input: Vec<u8>,
    has_greeted: bool,
    has_opened: bool,
    has_peer: bool,
}

/// Decoded input from the peer.
#[derive(Debug)]
pub(crate) enum Input {
    Content { sent: Time, payload: Payload },
    Opening(Opening),
}

/// Content of the peer's first frame.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) incarnation: u64,
    pub(crate) peer_incarnation: u64,
    pub(crate) peer_frames: u64,
    pub(crate) peer_sequence: u64,
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

    /// Whether the peer's first frame has arrived.
    pub(crate) const fn has_peer(&self) -> bool {
        self.has_peer
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
    pub(crate) fn greet(&mut self, versions: &RangeInclusive<u16>, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_greeted, true) {
            out.extend_from_slice(&wire::greeting(versions));
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

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Decodes the next frame from the received bytes.
    pub(crate) fn next(&mut self, now: Time, versions: &RangeInclusive<u16>) -> Result<Option<Input>, Ended> {
        if self.version.is_none() {
            let Some(greeting) = self.input.first_chunk::<GREETING_LEN>() else { return Ok(None) };
            self.version = Some(wire::version_of(*greeting, versions)?);
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
        if self.has_peer {
            return Ok(Some(Input::Content { sent: Time::from_micros(sent_us), payload }));
        }
        let Payload::Open { incarnation, peer_incarnation, peer_frames, peer_sequence } = payload else {
            return Err(Ended::Order("the first frame does not open the connection"));
        };
        self.has_peer = true;
        let opening = Opening { incarnation, peer_incarnation, peer_frames, peer_sequence };
        Ok(Some(Input::Opening(opening)))
    }
}
