//! What a listener speaks: a state machine for each connection that gets bytes and a time and says what it wants next.
//!
//! Does not know about: sockets, drivers, the connection table. It never does I/O.

mod awaited;
mod http1;
mod listener;
mod raw;
mod refusals;
mod room;
#[cfg(feature = "tls")]
mod tls;

use doorbell_http::parse::Seen;
use doorbell_http::{Client, Date, Later, Next, Out};

pub use awaited::{Awaited, Told};
pub use http1::Http1;
pub(crate) use listener::Heard;
pub use listener::{ListenerProtocol, ProtocolConn};
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
