//! The fast path of a connection: consecutive complete requests without a body.
//!
//! `message` continues where the fast path ends.

use super::{Conn, Io, Next, Phase};
use crate::parse::{Head, Seen};
use crate::reply::Outcome;
use crate::{RequestError, Responder, Service};

/// The point at which the fast path ended.
pub(super) enum FastPathEnd {
    /// The next action of the caller: all input was handled or stored, or the connection ends.
    Next(Next),
    /// A request that the fast path does not handle, at this position.
    Rest(usize),
}

impl Conn {
    /// Handles complete requests. Must be called only between requests, without carried or
    /// held-back input.
    ///
    /// The first request is handled before the loop: usually it is the only one, and before the loop
    /// no value has to be preserved from one iteration to the next.
    #[inline(always)]
    pub(super) fn answer_whole<S: Service + ?Sized>(
        &mut self,
        fresh: &[u8],
        io: &mut Io<'_>,
        service: &S,
        mut seen: Option<&mut Seen>,
    ) -> FastPathEnd {
        let one = match seen.as_deref_mut() {
            Some(seen) => self.answer_seen(fresh, io, service, seen),
            None => {
                let parsed = self.head.parse_whole(fresh, io.limits);
                self.answer_one(parsed, fresh, io, service)
            }
        };
        match one {
            One::More(len) => self.answer_more(fresh, len, io, service, seen),
            One::Next(next) => FastPathEnd::Next(next),
            One::Not => FastPathEnd::Rest(0),
        }
    }

    /// Handles the requests after the first one, which was the first `len` bytes of `fresh`.
    #[inline(never)]
    fn answer_more<S: Service + ?Sized>(
        &mut self,
        fresh: &[u8],
        mut len: usize,
        io: &mut Io<'_>,
        service: &S,
        mut seen: Option<&mut Seen>,
    ) -> FastPathEnd {
        let (mut at, mut repeats) = (len, true);
        loop {
            if let (true, Some(seen)) = (repeats, seen.as_deref()) {
                match self.repeat(fresh, (at, len), io, service, seen) {
                    Ok(One::More(repeated)) => at += repeated,
                    Ok(One::Next(next)) => return FastPathEnd::Next(next),
                    Ok(One::Not) => {}
                    Err(Refused) => repeats = false,
                }
            }
            let rest = fresh.get(at..).unwrap_or_default();
            let one = match seen.as_deref_mut() {
                Some(seen) => self.answer_seen(rest, io, service, seen),
                None => {
                    let parsed = self.head.parse_whole_apart(rest, io.limits);
                    self.answer_one(parsed, rest, io, service)
                }
            };
            match one {
                One::More(one) => (at, len) = (at + one, one),
                One::Next(next) => return FastPathEnd::Next(next),
                One::Not => return FastPathEnd::Rest(at),
            }
        }
    }

    /// Repeats the last reply for the requests from `at` on that equal the previous request, which
    /// had `len` bytes, if the service allows it. The replies, the limits and the end of the
    /// connection are the same as if the service had been called for each request.
    #[inline(always)]
    fn repeat<S: Service + ?Sized>(
        &mut self,
        fresh: &[u8],
        (at, len): (usize, usize),
        io: &mut Io<'_>,
        service: &S,
        seen: &Seen,
    ) -> Result<One, Refused> {
        let (answered, after) = fresh.split_at_checked(at).unwrap_or_default();
        let head = answered.get(at - len..).unwrap_or_default();
        if len == 0 || !after.starts_with(head) {
            return Ok(One::Not);
        }
        let (Some(known), Some(reply_len)) = (seen.find_all(head, io.limits), io.out.reply_len()) else {
            return Ok(One::Not);
        };
        // Excludes the last request of the connection, whose reply differs, and the requests for
        // which the output has no room.
        let requests_max = io.limits.requests_per_conn_max.saturating_sub(self.requests + 1) as usize;
        let room = io.limits.output_bytes_max.saturating_sub(io.out.head.len());
        let count_max = requests_max.min(room.div_ceil(reply_len.max(1)));
        let count = after.chunks_exact(len).take(count_max).take_while(|next| *next == head).count();
        let Ok(more @ 1..) = u32::try_from(count) else {
            return Ok(One::Not);
        };
        if !service.repeats(&Self::request_of(head, known, b"", io), more) {
            return Err(Refused);
        }
        self.requests += more;
        io.out.repeat_reply(more);
        let after = after.get(len * count..).unwrap_or_default();
        if self.must_flush(!after.is_empty(), io) {
            return Ok(One::Next(self.hold_back(after, io)));
        }
        Ok(if after.is_empty() { One::Next(Next::Read) } else { One::More(len * count) })
    }

    /// Handles one request, using the cache of heads.
    #[inline(always)]
    fn answer_seen<S: Service + ?Sized>(
        &mut self,
        rest: &[u8],
        io: &mut Io<'_>,
        service: &S,
        seen: &mut Seen,
    ) -> One {
        if !self.head.is_empty() {
            return One::Not;
        }
        match seen.find(rest, io.limits) {
            Some(head) => self.answer_known(head, rest, io, service),
            None => self.answer_unseen(rest, io, service, seen),
        }
    }

    /// Handles a request whose head is cached. The head stays in the cache, and the connection's
    /// own head is not modified.
    #[inline(always)]
    fn answer_known<S: Service + ?Sized>(
        &mut self,
        known: &Head,
        rest: &[u8],
        io: &mut Io<'_>,
        service: &S,
    ) -> One {
        let Some((head, after)) = rest.split_at_checked(known.len()) else {
            return One::Not;
        };
        // Cannot overflow: the connection ends at `requests_per_conn_max`.
        self.requests = self.requests.wrapping_add(1);
        let persist = Self::persist(&mut self.verdict, (self.requests, self.aged_at), known, io);
        let request = Self::request_of(head, known, b"", io);
        let responder = Responder::new(io.out, io.date, persist, request.is_head());
        let outcome = service.call(&request, responder).outcome;
        self.follow(outcome, head, after, io)
    }

    #[inline(never)]
    fn answer_unseen<S: Service + ?Sized>(
        &mut self,
        rest: &[u8],
        io: &mut Io<'_>,
        service: &S,
        seen: &mut Seen,
    ) -> One {
        let parsed = self.head.parse_unseen(rest, io.limits, seen);
        self.answer_one(parsed, rest, io, service)
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
            Err(error) => return One::Next(self.fail_or_leave(error, rest, io, service)),
        }
        let Some((head, after)) = rest.split_at_checked(self.head.len()) else {
            return One::Not;
        };
        if self.head.has_body() {
            return One::Not;
        }
        let outcome = self.call(head, b"", false, io, service);
        self.follow(outcome, head, after, io)
    }

    /// Continues after a request was handled.
    #[inline(always)]
    fn follow(&mut self, outcome: Outcome, head: &[u8], after: &[u8], io: &mut Io<'_>) -> One {
        if outcome != Outcome::Replied {
            return One::Next(self.end_after(outcome, head, after, io));
        }
        self.begin_idle(io.now, io.limits);
        if self.must_flush(!after.is_empty(), io) {
            return One::Next(self.hold_back(after, io));
        }
        if after.is_empty() { One::Next(Next::Read) } else { One::More(head.len()) }
    }

    /// Continues after a request that was deferred, or was the last one of its connection.
    #[inline(always)]
    fn end_after(&mut self, outcome: Outcome, head: &[u8], after: &[u8], io: &mut Io<'_>) -> Next {
        match outcome {
            Outcome::Deferred => {
                io.carry.extend_from_slice(after);
                self.begin_wait(io)
            }
            Outcome::HandOver => self.leave(head, after, io),
            Outcome::HangUp => self.hang_up(),
            Outcome::Last | Outcome::Replied => {
                self.phase = Phase::Closing;
                if after.is_empty() { Next::CloseClean } else { Next::CloseLinger }
            }
        }
    }

    #[cold]
    fn hold_back(&mut self, after: &[u8], io: &mut Io<'_>) -> Next {
        io.carry.extend_from_slice(after);
        self.held_back = true;
        Next::Flush
    }
}

/// The service does not allow repeats, so it must be called for each request.
struct Refused;

/// Result of handling one request, or several equal ones.
enum One {
    /// The requests got replies and had this total length; more input follows.
    More(usize),
    Next(Next),
    /// The fast path does not handle the request.
    Not,
}
