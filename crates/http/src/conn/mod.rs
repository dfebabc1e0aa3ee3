//! One HTTP/1.1 connection: bytes and a time in; replies, a wish and one deadline out.
//!
//! Does not know about: sockets, clocks, threads, what a request means. Entry point: [`Conn::handle_input`].
//!
//! ```text
//!         first byte            head complete, body follows
//!  Idle ─────────────► Head ─────────────────────────────► Body
//!   ▲                   │ head complete, no body             │ body complete
//!   ├──── answered ◄────┼────────────────────────────────────┤
//!   └── handle_answer ──┤ Waiting ◄── the answer comes later ┘
//!                       any error, last reply, EOF, deadline ──► Closing
//! ```
//!
//! Input is read where it lies. `carry` is used only for what cannot be finished yet: the beginning of one message
//! (its head, then as much of its decoded body as is wanted), or, after [`Next::Flush`], the input that waits. It
//! never holds more than `head_bytes_max + body_bytes_max` bytes of a message, or one rest of input.
//! Requests without a body that are there as a whole are answered by `whole`; `message` knows all other cases.

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
use whole::Whole;

/// What a call may use. `carry` and `out` belong to the connection; keep them for it between calls.
#[derive(Debug)]
pub struct Io<'a> {
    /// Now.
    pub now: Time,
    /// The value of `Date`.
    pub date: &'a Date,
    /// The same limits at every call.
    pub limits: &'a Limits,
    /// What the connection could not finish yet. Empty between requests.
    pub carry: &'a mut Vec<u8>,
    /// Where replies go. Take the bytes away before the next call, or at the latest at [`Next::Flush`].
    pub out: &'a mut Out,
    /// Draining: the next reply closes.
    pub closing: bool,
    /// Who is on the other side.
    pub client: &'a Client<'a>,
}

/// What the connection wants. Whatever it is, `out` may hold bytes to send first.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Close now; there is nothing (more) to say.
    Close,
    /// Send `out` and the FIN in one segment: the input was read completely and nothing is left of it.
    CloseClean,
    /// Send `out`, shut down writing, read and drop a bounded rest, then close.
    CloseLinger,
    /// Send all of `out`, then call [`Conn::handle_input`] again, without bytes if there are none. Input may wait in
    /// `carry`, so do not read more before.
    Flush,
    /// Send `out`, then give the connection away. `carry` holds every byte from the request on that is not for this machine. If
    /// nobody takes it, [`Conn::handle_overload`].
    HandOver,
    /// More input.
    Read,
    /// An answer comes later. Send `out`, have done what [`Out::take_later`] brings, and call [`Conn::handle_answer`]. What is received
    /// before that is not handed in: it is appended to `carry`, a bounded part of it, or left with the kernel.
    Wait,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// In the body of a request.
    Body,
    /// The last reply is written, or there will be none.
    Closing,
    /// In the head of a request.
    Head,
    /// Between requests.
    Idle,
    /// The answer to a request comes later.
    Waiting,
}

/// The state of one connection. Small, and without a heap of its own.
#[derive(Debug)]
pub struct Conn {
    head: Head,
    chunked: Chunked,
    /// Bytes of the body on the wire so far.
    body_taken: u64,
    body_began: Time,
    /// From then on a reply says that it is the last.
    aged_at: Time,
    deadline: Time,
    requests: u32,
    phase: Phase,
    /// The service wants the body that is being read.
    wanted: bool,
    /// `carry` holds input that was not looked at, not a message that was begun.
    held_back: bool,
    verdict: Verdict,
}

/// What the machine found out about a connection that it reads no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Its last reply was said to be the last because of [`Limits::conn_age_max`].
    AgedOut,
    /// It is to be handed over as HTTP/2: should nobody take it, a reply of HTTP/1.1 would say nothing to its client.
    Http2,
    /// Nothing; also before the end.
    None,
    /// It was refused.
    Refused(RequestError),
    /// Its last reply was said to be the last because of [`Limits::requests_per_conn_max`].
    UsedUp,
}

/// A limit of connections that makes a reply the last one, although the client would have stayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnLimit {
    /// [`Limits::conn_age_max`].
    Age,
    /// [`Limits::requests_per_conn_max`].
    Requests,
}

impl Conn {
    /// A connection that was accepted now. The first head is due within `header_timeout`.
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

    /// Takes in bytes that were just received, answers every request they complete, and keeps the rest in `carry`.
    #[inline]
    pub fn handle_input<S: Service + ?Sized>(&mut self, fresh: &[u8], io: Io<'_>, service: &S) -> Next {
        self.take(fresh, io, service, None)
    }

    /// The same with a memory for heads that come again and again. It changes the cost and nothing else.
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
                Whole::Next(next) => return next,
                Whole::Rest(at) => at,
            }
        } else {
            0
        };
        self.handle_rest(fresh, at, io, service)
    }

    /// As [`Self::handle_input`] from `at` on, for what is not a row of requests without a body that are there as a whole.
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
            // After an answer that came later, and nothing beside it.
            self.held_back = false;
            return Next::Read;
        }
        // The held back input is read where it lies, and what remains of it stays there.
        self.held_back = false;
        let mut held = std::mem::take(io.carry);
        held.extend_from_slice(fresh);
        let (next, rest) = self.run(&held, 0, &mut io, service);
        if io.carry.is_empty() {
            held.truncate(rest.end);
            held.drain(..rest.start);
            *io.carry = held;
        } else {
            debug_assert!(rest.is_empty(), "a message is kept in one place");
        }
        next
    }

    /// The peer has sent its FIN and all input before it was handed in.
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

    /// The time has come to compare with [`Conn::deadline`]. Early calls change nothing.
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

    /// When to call [`Conn::handle_timeout`]: the one deadline of the current phase. Changes with every call.
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Requests answered, errors aside.
    pub const fn requests(&self) -> u32 {
        self.requests
    }

    /// Where the connection stands.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Why the machine itself closed the connection, if it did.
    pub const fn error(&self) -> Option<RequestError> {
        match self.verdict {
            Verdict::Refused(error) => Some(error),
            Verdict::AgedOut | Verdict::Http2 | Verdict::None | Verdict::UsedUp => None,
        }
    }

    /// The limit that made the last reply the last, if one did.
    pub const fn limit(&self) -> Option<ConnLimit> {
        match self.verdict {
            Verdict::AgedOut => Some(ConnLimit::Age),
            Verdict::UsedUp => Some(ConnLimit::Requests),
            Verdict::Http2 | Verdict::None | Verdict::Refused(_) => None,
        }
    }

    /// Whether at least one byte of an unanswered request was seen; empty lines before it do not count.
    const fn is_inside_request(&self) -> bool {
        matches!(self.phase, Phase::Body) || self.head.is_begun()
    }

    /// Writes the reply for `error`, the last one.
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

/// A table of connections is mostly this.
const _: () = assert!(size_of::<Conn>() <= 160);
