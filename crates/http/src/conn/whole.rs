//! The short way through a connection: requests without a body that are in the input as a whole, one after the other.
//!
//! Does not know about: `carry`, bodies, what is left at the end; `message` goes on from wherever this stops.

use super::{Conn, Io, Next, Phase};
use crate::parse::Seen;
use crate::reply::Outcome;
use crate::{RequestError, Service};

/// How far the short way led.
pub(super) enum Whole {
    /// To the end of the input, or of the connection.
    Next(Next),
    /// To this place: what begins there is not for it.
    Rest(usize),
}

impl Conn {
    /// Answers what can be answered at once. Only between requests, with nothing carried or held back.
    ///
    /// The first request has no loop around it: mostly it is the only one, and then nothing is worth keeping at hand.
    #[inline(always)]
    pub(super) fn answer_whole<S: Service + ?Sized>(
        &mut self,
        fresh: &[u8],
        io: &mut Io<'_>,
        service: &S,
        mut seen: Option<&mut Seen>,
    ) -> Whole {
        let parsed = match seen.as_deref_mut() {
            Some(seen) => self.head.parse_seen(fresh, io.limits, seen),
            None => self.head.parse_whole(fresh, io.limits),
        };
        match self.answer_one(parsed, fresh, io, service) {
            One::More(at) => self.answer_more(fresh, at, io, service, seen),
            One::Next(next) => Whole::Next(next),
            One::Not => Whole::Rest(0),
        }
    }

    #[inline(never)]
    fn answer_more<S: Service + ?Sized>(
        &mut self,
        fresh: &[u8],
        mut at: usize,
        io: &mut Io<'_>,
        service: &S,
        mut seen: Option<&mut Seen>,
    ) -> Whole {
        loop {
            let rest = fresh.get(at..).unwrap_or_default();
            let parsed = match seen.as_deref_mut() {
                Some(seen) => self.head.parse_seen(rest, io.limits, seen),
                None => self.head.parse_whole_apart(rest, io.limits),
            };
            match self.answer_one(parsed, rest, io, service) {
                One::More(len) => at += len,
                One::Next(next) => return Whole::Next(next),
                One::Not => return Whole::Rest(at),
            }
        }
    }

    #[inline(always)]
    fn answer_one<S: Service + ?Sized>(
        &mut self,
        parsed: Result<bool, RequestError>,
        rest: &[u8],
        io: &mut Io<'_>,
        service: &S,
    ) -> One {
        match parsed {
            Ok(true) => {}
            Ok(false) => return One::Not,
            Err(error) => return One::Next(self.fail(error, io)),
        }
        let Some((head, after)) = rest.split_at_checked(self.head.len()) else {
            return One::Not;
        };
        if self.head.has_body() {
            return One::Not;
        }
        match self.call(head, b"", false, io, service) {
            Outcome::Replied => self.begin_idle(io.now, io.limits),
            Outcome::Last => {
                self.phase = Phase::Closing;
                return One::Next(if after.is_empty() { Next::CloseClean } else { Next::CloseLinger });
            }
            Outcome::HangUp => return One::Next(self.hang_up()),
        }
        if self.must_flush(!after.is_empty(), io) {
            return One::Next(self.hold_back(after, io));
        }
        if after.is_empty() { One::Next(Next::Read) } else { One::More(head.len()) }
    }

    #[cold]
    fn hold_back(&mut self, after: &[u8], io: &mut Io<'_>) -> Next {
        io.carry.extend_from_slice(after);
        self.held_back = true;
        Next::Flush
    }
}

/// What came of one request.
enum One {
    /// It was answered, and this many bytes of it are followed by more.
    More(usize),
    Next(Next),
    /// It is not for the short way.
    Not,
}
