//! One HTTP/1.1 connection. Input: bytes and the time. Output: replies, the next action and a
//! deadline.
//!
//! Entry point: [`Conn::handle_input`].
//!
//! ```text
//!         first byte            head complete, body follows
//!  Idle ─────────────► Head ─────────────────────────────► Body
//!   ▲                   │ head complete, no body             │ body complete
//!   ├──── replied ◄─────┼────────────────────────────────────┤
//!   └── handle_answer ──┤ Waiting ◄── deferred reply ────────┘
//!                       any error, last reply, EOF, deadline ──► Closing
//! ```
//!
//! Input is parsed in place. `carry` contains only input that cannot be handled yet: the beginning
//! of one message (its head, then the decoded body if it is wanted) or, after [`Next::Flush`] and
//! [`Next::Wait`], the pending input. The beginning has at most `head_bytes_max + body_bytes_max`
//! bytes; the pending input is at most the input of one call and what the caller appends during a
//! wait. `whole` handles complete requests without a body; `message` handles all other cases.

mod deadline;
mod hand_over;
mod local;
mod message;
mod once;
mod waiting;
mod whole;

use crate::chunked::Chunked;
use crate::parse::{Head, Seen};
use crate::reply::{Persist, put_failure};
use crate::{Client, Date, Limits, Out, RequestError, Service, Time};
pub use local::HTTP2_NO_ROOM;
use whole::FastPathEnd;

/// Resources of a call.
///
/// `carry` and `out` belong to the connection and must be kept between calls.
#[derive(Debug)]
pub struct Io<'a> {
    /// The current time.
    pub now: Time,
    /// The value of `Date`.
    pub date: &'a Date,
    /// The limits, which must be the same at every call.
    pub limits: &'a Limits,
    /// Unfinished or held-back input.
    pub carry: &'a mut Vec<u8>,
    /// Output for replies. Its bytes should be sent before the next call, and must be sent at
    /// [`Next::Flush`].
    pub out: &'a mut Out,
    /// Whether the connection must end: the next reply then closes it.
    pub closing: bool,
    /// The sender of the requests.
    pub client: &'a Client<'a>,
}

/// The next action for the connection.
///
/// `out` may contain bytes that must be sent before any of these actions.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Close now, without a further reply.
    Close,
    /// Send `out` and the FIN in one segment: no input is left unread.
    CloseClean,
    /// Send `out`, shut down writing, read and drop a bounded amount of input, then close.
    CloseLinger,
    /// Send all of `out`, then call [`Conn::handle_input`] again, without bytes if none have
    /// arrived. Do not read more input before that call, because `carry` may contain pending input.
    Flush,
    /// Send `out`, then hand the connection over. `carry` contains all input from the first byte of
    /// the handed-over request on. If there is no receiver, call [`Conn::handle_overload`].
    HandOver,
    /// Read more input.
    Read,
    /// The reply is deferred. Send `out`, execute the work of [`Out::take_later`], and call
    /// [`Conn::handle_answer`]. Do not pass in input that arrives in the meantime: append a bounded
    /// amount to `carry`, or leave the input in the kernel.
    Wait,
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Inside the body of a request.
    Body,
    /// The last reply is written, or there will be none.
    Closing,
    /// Inside the head of a request.
    Head,
    /// Between requests.
    Idle,
    /// The reply to a request is deferred.
    Waiting,
}

/// The state of one connection.
///
/// It is small and has no heap memory of its own.
#[derive(Debug)]
pub struct Conn {
    head: Head,
    chunked: Chunked,
    /// Received bytes of the body, before decoding.
    body_taken: u64,
    body_began: Time,
    /// The time from which on every reply closes the connection.
    aged_at: Time,
    deadline: Time,
    requests: u32,
    phase: Phase,
    /// Whether the service wants the body that is being read.
    wanted: bool,
    /// Whether `carry` contains unread input rather than a partial message.
    held_back: bool,
    verdict: Verdict,
}

/// The reason why the state machine stopped reading a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The last reply closed the connection because of [`Limits::conn_age_max`].
    AgedOut,
    /// The connection is to be handed over as HTTP/2. If the hand-over fails, the client gets
    /// GOAWAY, because it cannot understand an HTTP/1.1 reply.
    Http2,
    /// The connection is still being read, or it was stopped without a particular reason.
    None,
    /// The request was refused.
    Refused(RequestError),
    /// The last reply closed the connection because of [`Limits::requests_per_conn_max`].
    UsedUp,
}

/// A limit that, when reached, makes a reply the last one of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnLimit {
    /// The limit [`Limits::conn_age_max`].
    Age,
    /// The limit [`Limits::requests_per_conn_max`].
    Requests,
}

impl Conn {
    /// Creates a connection that was accepted at `now`. The first head is due within
    /// `header_timeout`.
    #[inline]
    pub fn new(now: Time, limits: &Limits) -> Self {
        Self {
            head: Head::new(),
            chunked: Chunked::new(),
            body_taken: 0,
            body_began: Time::ZERO,
            aged_at: now.after(limits.conn_age_max),
            deadline: now.after(limits.header_timeout),
            requests: 0,
            phase: Phase::Idle,
            wanted: false,
            held_back: false,
            verdict: Verdict::None,
        }
    }

    /// Handles received bytes and every request completed by them, and stores unfinished input in
    /// `carry`.
    #[inline]
    pub fn handle_input<S: Service + ?Sized>(&mut self, fresh: &[u8], io: Io<'_>, service: &S) -> Next {
        self.take(fresh, io, service, None)
    }

    /// Handles received bytes as [`Self::handle_input`] does, with a cache of repeated heads, which
    /// only affects the cost.
    #[inline]
    pub fn handle_input_seen<S: Service + ?Sized>(
        &mut self,
        fresh: &[u8],
        io: Io<'_>,
        service: &S,
        seen: &mut Seen,
    ) -> Next {
        self.take(fresh, io, service, Some(seen))
    }

    #[inline(always)]
    fn take<S: Service + ?Sized>(
        &mut self,
        fresh: &[u8],
        mut io: Io<'_>,
        service: &S,
        seen: Option<&mut Seen>,
    ) -> Next {
        let at = if self.phase == Phase::Idle && !self.held_back && io.carry.is_empty() {
            match self.answer_whole(fresh, &mut io, service, seen) {
                FastPathEnd::Next(next) => return next,
                FastPathEnd::Rest(at) => at,
            }
        } else {
            0
        };
        self.handle_rest(fresh, at, io, service)
    }

    /// Like [`Self::handle_input`] from `at` on, for all input that the fast path does not handle.
    #[inline(never)]
    fn handle_rest<S: Service + ?Sized>(
        &mut self,
        fresh: &[u8],
        at: usize,
        mut io: Io<'_>,
        service: &S,
    ) -> Next {
        match self.phase {
            Phase::Closing => return Next::Close,
            Phase::Waiting => {
                io.carry.extend_from_slice(fresh);
                return Next::Wait;
            }
            Phase::Body | Phase::Head | Phase::Idle => {}
        }
        if !self.held_back {
            let (next, rest) = self.run(fresh, at, &mut io, service);
            io.carry.extend_from_slice(fresh.get(rest).unwrap_or_default());
            return next;
        }
        if fresh.is_empty() && io.carry.is_empty() {
            // A deferred reply was sent, and no input has arrived since.
            self.held_back = false;
            return Next::Read;
        }
        // Held-back input is parsed in place, and its unfinished part stays in the same buffer.
        self.held_back = false;
        let mut held = std::mem::take(io.carry);
        held.extend_from_slice(fresh);
        let (next, rest) = self.run(&held, 0, &mut io, service);
        if io.carry.is_empty() {
            held.truncate(rest.end);
            held.drain(..rest.start);
            *io.carry = held;
        } else {
            debug_assert!(rest.is_empty(), "a message is stored in one buffer only");
        }
        next
    }

    /// Handles the peer's FIN, after all earlier input has been passed in.
    pub fn handle_eof(&mut self, mut io: Io<'_>) -> Next {
        if self.phase == Phase::Waiting {
            return Next::Wait;
        }
        if self.phase == Phase::Closing || !self.is_inside_request() {
            self.phase = Phase::Closing;
            return Next::Close;
        }
        self.fail(RequestError::Incomplete, &mut io)
    }

    /// Handles the passing of [`Conn::deadline`]. Calls before the deadline have no effect.
    pub fn handle_timeout(&mut self, mut io: Io<'_>) -> Next {
        match self.phase {
            Phase::Closing => Next::Close,
            Phase::Waiting if io.now < self.deadline => Next::Wait,
            Phase::Waiting => self.handle_overload(io),
            _ if self.held_back => Next::Flush,
            _ if io.now < self.deadline => Next::Read,
            _ if self.is_inside_request() => self.fail(RequestError::Timeout, &mut io),
            _ => {
                self.phase = Phase::Closing;
                Next::Close
            }
        }
    }

    /// The time at which to call [`Conn::handle_timeout`]: the deadline of the current phase. Each
    /// `handle_*` call may change it.
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Number of requests handled by the service, not counting refused and handed-over ones.
    pub const fn requests(&self) -> u32 {
        self.requests
    }

    /// The current phase.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The error for which the state machine itself refused a request, if it did.
    pub const fn error(&self) -> Option<RequestError> {
        match self.verdict {
            Verdict::Refused(error) => Some(error),
            Verdict::AgedOut | Verdict::Http2 | Verdict::None | Verdict::UsedUp => None,
        }
    }

    /// The limit that made the last reply close the connection, if any.
    pub const fn limit(&self) -> Option<ConnLimit> {
        match self.verdict {
            Verdict::AgedOut => Some(ConnLimit::Age),
            Verdict::UsedUp => Some(ConnLimit::Requests),
            Verdict::Http2 | Verdict::None | Verdict::Refused(_) => None,
        }
    }

    /// Whether at least one byte of a pending request has been read; preceding empty lines do not
    /// count.
    const fn is_inside_request(&self) -> bool {
        matches!(self.phase, Phase::Body) || self.head.is_begun()
    }

    /// Writes the reply for `error`; it is the last reply of the connection.
    #[cold]
    fn fail(&mut self, error: RequestError, io: &mut Io<'_>) -> Next {
        debug_assert!(self.phase != Phase::Closing, "one last reply");
        io.carry.clear();
        io.out.begin_reply();
        put_failure(error.status(), io.out, io.date, Persist::Close);
        self.phase = Phase::Closing;
        self.verdict = Verdict::Refused(error);
        self.deadline = Time::MAX;
        Next::CloseLinger
    }
}

/// A connection table consists mostly of these states, so their size is bounded here.
const _: () = assert!(size_of::<Conn>() <= 160);
