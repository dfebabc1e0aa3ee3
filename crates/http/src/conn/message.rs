//! The loop over the messages of the input.
//!
//! Unfinished input is returned to the caller, which stores it.

use super::{Conn, Io, Next, Phase, Verdict};
use crate::chunked::Chunked;
use crate::parse::{Framing, Head};
use crate::reply::{Outcome, Persist};
use crate::{MessageStart, Method, Request, RequestError, Responder, Service, Time};
use std::ops::Range;

impl Conn {
    /// Handles complete requests from `at` on. The caller must append the returned range of `input`
    /// to `carry`.
    pub(super) fn run<S: Service + ?Sized>(
        &mut self,
        input: &[u8],
        mut at: usize,
        io: &mut Io<'_>,
        service: &S,
    ) -> (Next, Range<usize>) {
        loop {
            let carried = io.carry.len();
            let step = if self.phase == Phase::Body {
                self.read_body(input, at, io, service)
            } else if io.carry.is_empty() {
                self.read_message(input, at, io, service)
            } else {
                self.finish_head(input, at, io, service)
            };
            match step {
                Ok(Step::Replied(end)) => {
                    at = end;
                    if self.must_flush(at < input.len(), io) {
                        self.held_back = true;
                        return (Next::Flush, at..input.len());
                    }
                }
                Ok(Step::Began(end)) => at = end,
                Ok(Step::Starved(rest)) => return (Next::Read, rest),
                Ok(Step::Ended(next)) => return (next, 0..0),
                Ok(Step::Waits(rest)) => return (self.begin_wait(io), rest),
                Err(error) => {
                    io.carry.truncate(carried);
                    let unread = input.get(at..).unwrap_or_default();
                    return (self.fail_or_leave(error, unread, io, service), 0..0);
                }
            }
        }
    }

    /// Reads a message from its first byte: the common case, without copying.
    #[inline]
    fn read_message<S: Service + ?Sized>(
        &mut self,
        input: &[u8],
        at: usize,
        io: &mut Io<'_>,
        service: &S,
    ) -> Result<Step, RequestError> {
        let rest = input.get(at..).unwrap_or_default();
        let Some(len) = self.head.parse(rest, io.limits)? else {
            self.rest_before_body(io.now, io.limits);
            return Ok(Step::Starved(at..input.len()));
        };
        let (head, rest) = rest.split_at_checked(len).unwrap_or_default();
        let body_at = at + len;
        match self.begin_body(head, io, service)? {
            Plan::AnswerNow { last } => self.answer(head, b"", body_at, input, last, io, service),
            Plan::HandOver => Ok(Step::Ended(self.leave(head, rest, io))),
            Plan::Length(len) => match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
                Some(body) => {
                    let end = body_at + body.len();
                    let body = if self.wanted { body } else { b"" };
                    self.answer(head, body, end, input, false, io, service)
                }
                None => {
                    self.body_taken = rest.len() as u64;
                    self.rest_in_body(io.now, io.limits);
                    let keep = if self.wanted { input.len() } else { body_at };
                    Ok(Step::Starved(at..keep))
                }
            },
            Plan::Chunked if self.wanted => {
                io.carry.extend_from_slice(head);
                Ok(Step::Began(body_at))
            }
            Plan::Chunked => {
                let (taken, done) = self.chunked.decode(rest, io.limits, None)?;
                if done {
                    return self.answer(head, b"", body_at + taken, input, false, io, service);
                }
                self.body_taken = taken as u64;
                self.rest_in_body(io.now, io.limits);
                Ok(Step::Starved(at..body_at))
            }
        }
    }

    /// Reads the remainder of a head that began in `carry`. Bytes copied beyond the end of the head
    /// are removed.
    fn finish_head<S: Service + ?Sized>(
        &mut self,
        input: &[u8],
        at: usize,
        io: &mut Io<'_>,
        service: &S,
    ) -> Result<Step, RequestError> {
        let seen = io.carry.len();
        let room = io.limits.head_bytes_max.saturating_sub(seen);
        let rest = input.get(at..).unwrap_or_default();
        io.carry.extend_from_slice(rest.get(..room).unwrap_or(rest));
        let Some(len) = self.head.parse(io.carry, io.limits)? else {
            self.rest_before_body(io.now, io.limits);
            return Ok(Step::Starved(0..0));
        };
        io.carry.truncate(len);
        let body_at = at + len - seen;
        let carry = std::mem::take(io.carry);
        let step = match self.begin_body(&carry, io, service) {
            Ok(Plan::AnswerNow { last }) => self.answer(&carry, b"", body_at, input, last, io, service),
            Ok(Plan::HandOver) => {
                Ok(Step::Ended(self.leave(&carry, input.get(body_at..).unwrap_or_default(), io)))
            }
            Ok(Plan::Chunked | Plan::Length(_)) => Ok(Step::Began(body_at)),
            Err(error) => Err(error),
        };
        if matches!(step, Ok(Step::Ended(Next::HandOver))) {
            return step;
        }
        *io.carry = carry;
        if matches!(step, Ok(Step::Replied(_) | Step::Ended(_) | Step::Waits(_))) {
            io.carry.clear();
        }
        step
    }

    /// Reads more of a body whose head is in `carry`.
    fn read_body<S: Service + ?Sized>(
        &mut self,
        input: &[u8],
        at: usize,
        io: &mut Io<'_>,
        service: &S,
    ) -> Result<Step, RequestError> {
        let rest = input.get(at..).unwrap_or_default();
        let (taken, done) = if let Framing::Length(len) = self.head.framing() {
            let left = usize::try_from(len - self.body_taken).unwrap_or(usize::MAX);
            let piece = rest.get(..left).unwrap_or(rest);
            if self.wanted {
                io.carry.extend_from_slice(piece);
            }
            (piece.len(), piece.len() == left)
        } else {
            self.chunked.decode(rest, io.limits, self.wanted.then_some(&mut *io.carry))?
        };
        if !done {
            self.body_taken += taken as u64;
            if taken > 0 || self.body_taken == 0 {
                self.rest_in_body(io.now, io.limits);
            }
            return Ok(Step::Starved(0..0));
        }
        let mut carry = std::mem::take(io.carry);
        let (head, body) = carry.split_at_checked(self.head.len()).unwrap_or_default();
        let step = self.answer(head, body, at + taken, input, false, io, service);
        carry.clear();
        *io.carry = carry;
        step
    }

    /// Decides how to treat the body of a request whose head is complete.
    #[inline]
    fn begin_body<S: Service + ?Sized>(
        &mut self,
        head: &[u8],
        io: &mut Io<'_>,
        service: &S,
    ) -> Result<Plan, RequestError> {
        let framing = self.head.framing();
        if framing == Framing::None {
            return Ok(Plan::AnswerNow { last: false });
        }
        // Marks the start of a new reply, so that a panic of the service does not remove output of
        // the previous reply.
        io.out.begin_any_reply();
        if service.hands_over(MessageStart::Body(&self.request(head, b"", io))) {
            return Ok(Plan::HandOver);
        }
        let plan = match framing {
            Framing::None => return Ok(Plan::AnswerNow { last: false }),
            Framing::Length(len) => Plan::Length(len),
            Framing::Chunked => Plan::Chunked,
        };
        let too_large = matches!(plan, Plan::Length(len) if len > io.limits.body_bytes_max as u64);
        // The limit applies only to bodies that are read here.
        if too_large && !io.limits.answer_before_body {
            return Err(RequestError::BodyTooLarge);
        }
        // A TRACE request has no body (RFC 9110 9.3.8), so the service is not consulted.
        self.wanted =
            self.head.method() != Some(Method::Trace) && service.wants_body(&self.request(head, b"", io));
        if !self.wanted && (io.limits.answer_before_body || self.head.expects_continue()) {
            return Ok(Plan::AnswerNow { last: true });
        }
        if too_large {
            return Err(RequestError::BodyTooLarge);
        }
        if self.head.expects_continue() {
            // The interim reply is sent even if the body has already arrived, because replies must
            // not depend on how the input was split.
            io.out.begin_reply();
            io.out.head.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.chunked = Chunked::new();
        self.body_taken = 0;
        self.body_began = io.now;
        self.phase = Phase::Body;
        Ok(plan)
    }

    /// Handles a complete request that ends at `end`. `last` means that the input after it is not
    /// read.
    #[expect(clippy::too_many_arguments, reason = "the call sites have different sources of head and body")]
    #[inline]
    fn answer<S: Service + ?Sized>(
        &mut self,
        head: &[u8],
        body: &[u8],
        end: usize,
        input: &[u8],
        last: bool,
        io: &mut Io<'_>,
        service: &S,
    ) -> Result<Step, RequestError> {
        match self.call(head, body, last, io, service) {
            Outcome::Replied => {
                self.begin_idle(io.now, io.limits);
                return Ok(Step::Replied(end));
            }
            Outcome::Last => self.phase = Phase::Closing,
            Outcome::HangUp => return Ok(Step::Ended(self.hang_up())),
            Outcome::HandOver if self.phase == Phase::Body => self.refuse_late(io),
            Outcome::HandOver => {
                return Ok(Step::Ended(self.leave(head, input.get(end..).unwrap_or_default(), io)));
            }
            Outcome::Deferred => {
                io.out.mark_unread(last);
                return Ok(Step::Waits(if last { 0..0 } else { end..input.len() }));
            }
        }
        let clean = !last && end >= input.len();
        Ok(Step::Ended(if clean { Next::CloseClean } else { Next::CloseLinger }))
    }

    /// Calls the service for a complete request.
    #[inline(always)]
    pub(super) fn call<S: Service + ?Sized>(
        &mut self,
        head: &[u8],
        body: &[u8],
        last: bool,
        io: &mut Io<'_>,
        service: &S,
    ) -> Outcome {
        // Cannot overflow: the connection ends at `requests_per_conn_max`.
        self.requests = self.requests.wrapping_add(1);
        let persist = if last {
            Persist::Close
        } else {
            Self::persist(&mut self.verdict, (self.requests, self.aged_at), &self.head, io)
        };
        let request = self.request(head, body, io);
        let responder = Responder::new(io.out, io.date, persist, request.is_head());
        let answered = if request.method() == Method::Trace && !service.takes_trace() {
            responder.method_not_allowed(ALLOW_WITHOUT_TRACE)
        } else {
            service.call(&request, responder)
        };
        self.head.clear();
        answered.outcome
    }

    #[inline(always)]
    const fn request<'a>(&'a self, head: &'a [u8], body: &'a [u8], io: &Io<'a>) -> Request<'a> {
        Self::request_of(head, &self.head, body, io)
    }

    #[inline(always)]
    pub(super) const fn request_of<'a>(
        head: &'a [u8],
        parsed: &'a Head,
        body: &'a [u8],
        io: &Io<'a>,
    ) -> Request<'a> {
        Request::new(head, parsed, body).from_client(io.client, io.now, io.date.unix_secs())
    }

    /// Closes without a reply, as the service requested.
    #[cold]
    pub(super) fn hang_up(&mut self) -> Next {
        self.phase = Phase::Closing;
        // Replies to earlier requests may not have been sent yet, so the close lingers.
        if self.requests == 1 { Next::Close } else { Next::CloseLinger }
    }

    /// The connection option of the reply (RFC 9112 9.3 and 9.6). `requests` is the number of
    /// requests so far, and from `aged_at` on the connection is too old for another request.
    #[inline(always)]
    pub(super) fn persist(
        verdict: &mut Verdict,
        (requests, aged_at): (u32, Time),
        head: &Head,
        io: &Io<'_>,
    ) -> Persist {
        if !head.keeps_alive() || io.closing || !io.limits.keep_alive {
            return Persist::Close;
        }
        if requests >= io.limits.requests_per_conn_max || io.now >= aged_at {
            return Self::end_at_limit(verdict, requests, io);
        }
        if head.minor() == 0 { Persist::Stated } else { Persist::Implied }
    }

    #[cold]
    #[inline(never)]
    const fn end_at_limit(verdict: &mut Verdict, requests: u32, io: &Io<'_>) -> Persist {
        let by_requests = requests >= io.limits.requests_per_conn_max;
        *verdict = if by_requests { Verdict::UsedUp } else { Verdict::AgedOut };
        Persist::Close
    }

    /// Whether output must be sent before the next request is handled: after a large body, or if
    /// more input follows and the output has reached its limit.
    #[inline]
    pub(super) fn must_flush(&self, more: bool, io: &Io<'_>) -> bool {
        !io.out.body.is_empty() || (more && io.out.head.len() >= io.limits.output_bytes_max)
    }
}

/// Result of one step of the loop.
enum Step {
    /// A reply was written; the request ended at this position.
    Replied(usize),
    /// The head is in `carry`; its body begins at this position.
    Began(usize),
    /// The connection ends.
    Ended(Next),
    /// All input was used except this range, which must be stored.
    Starved(Range<usize>),
    /// The reply is deferred; this range must be stored.
    Waits(Range<usize>),
}

/// The treatment of the body of a request whose head is complete.
enum Plan {
    /// Handle the request now. There is no body or, with `last`, the body will not be read, and the
    /// reply is the last one.
    AnswerNow {
        last: bool,
    },
    Chunked,
    HandOver,
    Length(u64),
}

/// `Allow` in a reply that refuses `TRACE` when the routes are unknown.
const ALLOW_WITHOUT_TRACE: &[u8] = b"GET, HEAD, OPTIONS";
