//! What a listener speaks: a state machine for each connection that gets bytes and a time and says what it wants next.
//!
//! Does not know about: sockets, drivers, the connection table. It never does I/O.

mod awaited;
mod http1;
mod raw;
mod refusals;
mod room;
#[cfg(feature = "tls")]
mod tls;

use doorbell_http::parse::Seen;
use doorbell_http::{Client, Date, Later, Next, Out};

pub use awaited::{Awaited, Told};
pub use http1::Http1;
pub use raw::{Raw, RawHandler, RawNext};
pub use refusals::Refusals;
pub use room::Room;
#[cfg(feature = "tls")]
pub use tls::{HelloInfo, Tls, TlsConn};

use crate::error::CloseReason;
use crate::offload::Outcome;
use crate::time::Time;

/// What a protocol may touch while it handles an input: the connection's own buffers and the worker's clock.
#[derive(Debug)]
pub struct Io<'a> {
    /// The time of this turn.
    pub now: Time,
    /// The rendered `Date` of this second.
    pub date: &'a Date,
    /// Input kept for later, oldest first.
    pub input: &'a mut Vec<u8>,
    /// What is to be sent, in order.
    pub out: &'a mut Out,
    /// True while draining: every reply is the last one.
    pub draining: bool,
    /// What the worker remembers of the requests it saw, so that the next one like them costs less.
    pub seen: &'a mut Seen,
    /// Who is on the other side, as far as [`Protocol::wants_client`] asked for it.
    pub client: &'a Client<'a>,
}

impl Io<'_> {
    /// The same, for a shorter time.
    pub fn reborrow(&mut self) -> Io<'_> {
        let Self { now, date, draining, client, .. } = *self;
        Io { now, date, input: self.input, out: self.out, draining, seen: self.seen, client }
    }
}

/// What became of a request that waits, with what its reply has to know.
#[derive(Debug)]
pub struct Answer {
    pub(crate) later: Box<Later>,
    pub(crate) outcome: Outcome,
}

/// A protocol of a listener. One value serves all its connections; `Conn` is what one of them remembers.
pub trait Protocol {
    /// The state of one connection.
    type Conn;

    /// True when the server sends before it has received anything; such a listener must not defer accept.
    fn speaks_first(&self) -> bool;

    /// True when calls are to tell the address of the peer: a system call a connection.
    fn wants_client(&self) -> bool {
        false
    }

    /// The server has this much room for all its listeners together: caps that follow from that are set. Called once, at the start.
    fn size_for(&self, _room: &Room) {}

    /// The state of a new connection.
    fn open(&self, now: Time) -> Self::Conn;

    /// What is sent over TLS is written into this, one for each connection.
    fn out_over_tls(&self) -> Out {
        Out::new()
    }

    /// Writes what is sent before anything is received. Called once, where [`Protocol::speaks_first`] says so.
    fn greet(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next;

    /// Bytes came, or (`fresh` empty) everything in `io` was sent and input may wait in it.
    fn handle_input(&self, conn: &mut Self::Conn, fresh: &[u8], io: Io<'_>) -> Next;

    /// Answers the first bytes of a connection that has no state yet, if that ends it: one request, no error, reason
    /// [`CloseReason::Done`]. `None`: nothing was done, and [`Protocol::handle_input`] is to be called. `Io::input` is not used.
    fn answer_once(&self, _fresh: &[u8], _io: Io<'_>) -> Option<Next> {
        None
    }

    /// A new connection of which [`Protocol::answer_once`] said [`Next::Wait`] gets its state.
    fn wait_once(&self, _conn: &mut Self::Conn, _io: Io<'_>) {}

    /// The answer that [`Next::Wait`] was about. A protocol that never says so is not called.
    fn handle_answer(&self, _conn: &mut Self::Conn, _answer: Answer, _io: Io<'_>) -> Next {
        Next::Close
    }

    /// The peer sent FIN.
    fn handle_eof(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next;

    /// The deadline passed.
    fn handle_timeout(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next;

    /// A handler panicked in the last call: replace its unfinished reply by an error, if the protocol has one.
    fn handle_panic(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next;

    /// The connection is one too many, or needs memory that is used up: answer that, if the protocol has a way to. What was
    /// received is dropped.
    fn handle_overload(&self, conn: &mut Self::Conn, reason: CloseReason, io: Io<'_>) -> Next;

    /// The server drains and the connection is idle: say goodbye, if the protocol has a way to.
    fn handle_drain(&self, _conn: &mut Self::Conn, _io: Io<'_>) -> Next {
        Next::CloseLinger
    }

    /// After [`Protocol::handle_timeout`] said [`Next::Close`]: whether nobody waits for what the peer may still send, because no request of its
    /// can be under way. Such a connection is closed at once and keeps no slot for a linger.
    fn is_given_up(&self, _conn: &Self::Conn) -> bool {
        false
    }

    /// When the current wait for input is over.
    fn deadline(&self, conn: &Self::Conn) -> Time;

    /// Requests answered so far.
    fn requests(&self, conn: &Self::Conn) -> u32;

    /// True between requests, with nothing of the next one received: a drain may close it.
    fn is_idle(&self, conn: &Self::Conn) -> bool;

    /// Why the connection closes, when the protocol itself decided it.
    fn close_reason(&self, conn: &Self::Conn) -> CloseReason;
}

/// Any of the built-in protocols; chosen once a listener.
#[derive(Debug)]
pub enum ListenerProtocol {
    /// HTTP/1.1 and 1.0.
    Http1(Http1),
    /// Bytes in, bytes out.
    Raw(Raw),
    /// HTTP behind TLS.
    #[cfg(feature = "tls")]
    TlsHttp1(Tls<Http1>),
    /// Bytes behind TLS.
    #[cfg(feature = "tls")]
    TlsRaw(Tls<Raw>),
}

/// The connection state of any built-in protocol.
#[derive(Debug)]
pub enum ProtocolConn {
    /// Of [`Http1`].
    Http1(http1::Http1Conn),
    /// Of [`Raw`].
    Raw(raw::RawConn),
    /// Of [`Tls`] before [`Http1`]. Boxed, so that a connection without TLS is none the larger.
    #[cfg(feature = "tls")]
    TlsHttp1(Box<TlsConn<http1::Http1Conn>>),
    /// Of [`Tls`] before [`Raw`].
    #[cfg(feature = "tls")]
    TlsRaw(Box<TlsConn<raw::RawConn>>),
}

impl From<Http1> for ListenerProtocol {
    fn from(http1: Http1) -> Self {
        Self::Http1(http1)
    }
}

impl From<Raw> for ListenerProtocol {
    fn from(raw: Raw) -> Self {
        Self::Raw(raw)
    }
}

#[cfg(feature = "tls")]
impl From<Tls<Http1>> for ListenerProtocol {
    fn from(tls: Tls<Http1>) -> Self {
        Self::TlsHttp1(tls)
    }
}

#[cfg(feature = "tls")]
impl From<Tls<Raw>> for ListenerProtocol {
    fn from(tls: Tls<Raw>) -> Self {
        Self::TlsRaw(tls)
    }
}

/// What came of an input.
pub(crate) struct Heard {
    pub(crate) next: Next,
    /// Requests answered by it.
    pub(crate) requests: u32,
    /// [`Protocol::deadline`] from now on.
    pub(crate) deadline: Time,
}

/// Calls the same method on whichever protocol a listener speaks, with the connection state that belongs to it.
macro_rules! each {
    ($self:expr, $conn:expr, $protocol:ident, $state:ident => $call:expr) => {
        match ($self, $conn) {
            (ListenerProtocol::Http1($protocol), ProtocolConn::Http1($state)) => $call,
            (ListenerProtocol::Raw($protocol), ProtocolConn::Raw($state)) => $call,
            #[cfg(feature = "tls")]
            (ListenerProtocol::TlsHttp1($protocol), ProtocolConn::TlsHttp1($state)) => $call,
            #[cfg(feature = "tls")]
            (ListenerProtocol::TlsRaw($protocol), ProtocolConn::TlsRaw($state)) => $call,
            _ => unreachable!("a connection keeps the protocol of the listener it came from"),
        }
    };
}

impl ListenerProtocol {
    /// See [`HandOver::answer_before_body`](crate::HandOver::answer_before_body). Inside TLS nothing can be handed over.
    pub(crate) const fn answer_before_body(&mut self) {
        match self {
            Self::Http1(http1) => http1.answer_before_body(),
            Self::Raw(_) => {}
            #[cfg(feature = "tls")]
            Self::TlsHttp1(_) | Self::TlsRaw(_) => {}
        }
    }

    /// [`Protocol::handle_input`], and what the worker wants to know after it. `before` becomes [`Protocol::requests`] as it was, for
    /// whoever has to clear up after a panic.
    ///
    /// What is left in [`Io::out`] of a reply before is looked after by the machine when whatever is written begins with a reply of it;
    /// before the others speak it is forgotten.
    #[inline(always)]
    pub(crate) fn hear<'a>(
        &self,
        conn: &mut ProtocolConn,
        fresh: &[u8],
        io: impl FnOnce() -> Io<'a>,
        before: &mut u32,
    ) -> Heard {
        match (self, conn) {
            // `io` is made in each arm: passed on to another function it has to lie in memory, and here it need not.
            (Self::Http1(protocol), ProtocolConn::Http1(state)) => {
                heard(protocol, state, fresh, io(), before)
            }
            (_, conn) => {
                let io = io();
                io.out.forget_sent();
                self.hear_other(conn, fresh, io, before)
            }
        }
    }

    #[inline(never)]
    fn hear_other(&self, conn: &mut ProtocolConn, fresh: &[u8], io: Io<'_>, before: &mut u32) -> Heard {
        each!(self, conn, protocol, state => heard(protocol, state, fresh, io, before))
    }
}

#[inline(always)]
fn heard<P: Protocol>(protocol: &P, conn: &mut P::Conn, fresh: &[u8], io: Io<'_>, before: &mut u32) -> Heard {
    let requests = protocol.requests(conn);
    *before = requests;
    let next = protocol.handle_input(conn, fresh, io);
    Heard { next, requests: protocol.requests(conn) - requests, deadline: protocol.deadline(conn) }
}

impl Protocol for ListenerProtocol {
    type Conn = ProtocolConn;

    fn speaks_first(&self) -> bool {
        match self {
            Self::Http1(http1) => http1.speaks_first(),
            Self::Raw(raw) => raw.speaks_first(),
            #[cfg(feature = "tls")]
            Self::TlsHttp1(tls) => tls.speaks_first(),
            #[cfg(feature = "tls")]
            Self::TlsRaw(tls) => tls.speaks_first(),
        }
    }

    fn wants_client(&self) -> bool {
        match self {
            Self::Http1(http1) => http1.wants_client(),
            Self::Raw(raw) => raw.wants_client(),
            #[cfg(feature = "tls")]
            Self::TlsHttp1(tls) => tls.wants_client(),
            #[cfg(feature = "tls")]
            Self::TlsRaw(tls) => tls.wants_client(),
        }
    }

    fn size_for(&self, room: &Room) {
        match self {
            Self::Http1(http1) => http1.size_for(room),
            Self::Raw(raw) => raw.size_for(room),
            #[cfg(feature = "tls")]
            Self::TlsHttp1(tls) => tls.size_for(room),
            #[cfg(feature = "tls")]
            Self::TlsRaw(tls) => tls.size_for(room),
        }
    }

    fn open(&self, now: Time) -> Self::Conn {
        match self {
            Self::Http1(http1) => ProtocolConn::Http1(http1.open(now)),
            Self::Raw(raw) => ProtocolConn::Raw(raw.open(now)),
            #[cfg(feature = "tls")]
            Self::TlsHttp1(tls) => ProtocolConn::TlsHttp1(tls.open(now)),
            #[cfg(feature = "tls")]
            Self::TlsRaw(tls) => ProtocolConn::TlsRaw(tls.open(now)),
        }
    }

    fn greet(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.greet(state, io))
    }

    fn handle_input(&self, conn: &mut Self::Conn, fresh: &[u8], io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.handle_input(state, fresh, io))
    }

    #[inline(always)]
    fn answer_once(&self, fresh: &[u8], io: Io<'_>) -> Option<Next> {
        match self {
            Self::Http1(http1) => http1.answer_once(fresh, io),
            Self::Raw(_) => None,
            #[cfg(feature = "tls")]
            Self::TlsHttp1(_) | Self::TlsRaw(_) => None,
        }
    }

    fn wait_once(&self, conn: &mut Self::Conn, io: Io<'_>) {
        each!(self, conn, protocol, state => protocol.wait_once(state, io));
    }

    fn handle_answer(&self, conn: &mut Self::Conn, answer: Answer, io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.handle_answer(state, answer, io))
    }

    fn handle_eof(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.handle_eof(state, io))
    }

    fn handle_timeout(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.handle_timeout(state, io))
    }

    fn handle_panic(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.handle_panic(state, io))
    }

    fn handle_overload(&self, conn: &mut Self::Conn, reason: CloseReason, io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.handle_overload(state, reason, io))
    }

    fn handle_drain(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.handle_drain(state, io))
    }

    fn deadline(&self, conn: &Self::Conn) -> Time {
        each!(self, conn, protocol, state => protocol.deadline(state))
    }

    fn requests(&self, conn: &Self::Conn) -> u32 {
        each!(self, conn, protocol, state => protocol.requests(state))
    }

    fn is_idle(&self, conn: &Self::Conn) -> bool {
        each!(self, conn, protocol, state => protocol.is_idle(state))
    }

    fn is_given_up(&self, conn: &Self::Conn) -> bool {
        each!(self, conn, protocol, state => protocol.is_given_up(state))
    }

    fn close_reason(&self, conn: &Self::Conn) -> CloseReason {
        each!(self, conn, protocol, state => protocol.close_reason(state))
    }
}
