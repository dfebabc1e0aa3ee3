//! Protocols of listeners: state machines that get bytes and a time and return the next step.
//!
//! A protocol never does I/O.

mod awaited;
mod http1;
mod listener;
mod local;
mod raw;
mod refusals;
mod server_size;
pub mod stream;
#[cfg(feature = "tls")]
mod tls;

use doorbell_http::{Client, Date, Later, Next, Out};

pub use awaited::{Awaited, JobOutcome};
pub use http1::Http1;
pub(crate) use http1::handle_answer;
pub(crate) use listener::InputResult;
pub use listener::{ListenerProtocol, ProtocolConn};
pub use local::{Local, Notify, StreamMemory};
pub use raw::{Raw, RawHandler, RawNext};
pub use refusals::Refusals;
pub use server_size::ServerSize;
#[cfg(feature = "tls")]
pub use tls::{HelloInfo, OVERLOAD_ALERT, Tls, TlsConn};

pub use crate::panics::{Panic, caught};

use crate::error::CloseReason;
use crate::id::{ConnId, ListenerIndex};
use crate::offload::Outcome;
use crate::time::Time;

/// The context of a call to a protocol: the connection's buffers and the worker's clock.
#[derive(Debug)]
pub struct Io<'a> {
    /// The time of this turn.
    pub now: Time,
    /// The rendered `Date` field of this second.
    pub date: &'a Date,
    /// Unprocessed input, oldest first.
    pub input: &'a mut Vec<u8>,
    /// Output to send, in order.
    pub out: &'a mut Out,
    /// True while draining: every reply is the last one of its connection.
    pub draining: bool,
    /// The worker's own memory for its protocols.
    pub local: &'a mut Local,
    /// The client; its address may be missing unless [`Protocol::wants_client`] is true.
    pub client: &'a Client<'a>,
}

impl Io<'_> {
    /// Returns a copy with a shorter lifetime.
    pub fn reborrow(&mut self) -> Io<'_> {
        let Self { now, date, draining, client, .. } = *self;
        Io { now, date, input: self.input, out: self.out, draining, local: self.local, client }
    }
}

/// The result of a job, with the state of the request that waited for it.
#[derive(Debug)]
pub struct JobResult {
    pub(crate) later: Box<Later>,
    pub(crate) outcome: Outcome,
}

/// A protocol of a listener.
///
/// One value serves all connections of the listener; `Conn` is the state of one connection.
pub trait Protocol {
    /// The state of one connection.
    type Conn;

    /// True if the server sends first; the listener must then not defer accept.
    fn speaks_first(&self) -> bool;

    /// True if the protocol needs the peer's address, which costs a system call per connection.
    fn wants_client(&self) -> bool {
        false
    }

    /// Sets limits that depend on the size of the server and that all its listeners share. Called
    /// once, at the start.
    fn size_for(&self, _server_size: &ServerSize) {}

    /// Creates the memory that the connections of this protocol use on one worker, which has
    /// `slots_max` slots. `None` if they use none.
    fn memory(&self, _slots_max: u32, _notify: &Notify) -> Option<Box<dyn StreamMemory>> {
        None
    }

    /// Creates the state of a new connection.
    fn open(&self, now: Time) -> Self::Conn;

    /// Sets the identity of a connection, before the first call with an [`Io`]. Called only for a
    /// protocol with a [memory](Self::memory).
    fn identify(&self, _conn: &mut Self::Conn, _id: ConnId) {}

    /// Creates the output buffer for the plaintext of a connection over TLS.
    fn out_over_tls(&self) -> Out {
        Out::new()
    }

    /// Writes a greeting, which is sent before any input is read. Called once per connection, if
    /// [`Protocol::speaks_first`] is true.
    fn greet(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next;

    /// Handles received bytes. An empty `fresh` means that no bytes have arrived but all output was
    /// sent; `io` may then contain unprocessed input.
    fn handle_input(&self, conn: &mut Self::Conn, fresh: &[u8], io: Io<'_>) -> Next;

    /// Handles the first bytes of a connection before its state is created, if they are exactly one
    /// request after which the connection ends, with the reason [`CloseReason::Done`]. Otherwise
    /// does nothing and returns `None`: call [`Protocol::handle_input`] instead. `Io::input` stays
    /// empty, unless the result is [`Next::HandOver`]: it then contains the request.
    fn answer_once(&self, _fresh: &[u8], _io: Io<'_>) -> Option<Next> {
        None
    }

    /// Makes a new connection wait for the result of its job, after [`Protocol::answer_once`]
    /// returned [`Next::Wait`].
    fn wait_once(&self, _conn: &mut Self::Conn, _io: Io<'_>) {}

    /// Handles the result of the job for which the protocol returned [`Next::Wait`]. Never called
    /// for a protocol that does not return `Wait`, or returns it only to wait for messages.
    fn handle_answer(&self, _conn: &mut Self::Conn, _answer: JobResult, _io: Io<'_>) -> Next {
        Next::Close
    }

    /// Called when all output was sent, if the output had to wait for the peer. No input was
    /// handled in the meantime.
    fn handle_sent(&self, _conn: &mut Self::Conn, _now: Time) {}

    /// Handles the messages that have arrived for the connection in the protocol's memory.
    fn handle_message(&self, _conn: &mut Self::Conn, _io: Io<'_>) -> Next {
        Next::Read
    }

    /// Handles the peer's FIN.
    fn handle_eof(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next;

    /// Handles the expiry of the current deadline.
    fn handle_timeout(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next;

    /// Handles a panic of a handler in the last call: replaces the partial reply by an error reply,
    /// if the protocol has error replies.
    fn handle_panic(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next;

    /// Handles an overload, for example exhausted memory or a limit that is reached: sends an error
    /// reply, if the protocol has error replies. Received input is discarded.
    fn handle_overload(&self, conn: &mut Self::Conn, reason: CloseReason, io: Io<'_>) -> Next;

    /// Handles the drain of an idle connection: announces the close, if the protocol supports that.
    fn handle_drain(&self, _conn: &mut Self::Conn, _io: Io<'_>) -> Next {
        Next::CloseLinger
    }

    /// Removes the state of a closed connection from the protocol's [memory](Self::memory), if
    /// there is one. `reason` is the close reason in the statistics.
    fn handle_closed(
        &self,
        _conn: &Self::Conn,
        _listener: ListenerIndex,
        _local: &mut Local,
        _reason: CloseReason,
    ) {
    }

    /// Called after [`Protocol::handle_timeout`] returned [`Next::Close`]. True if no request of
    /// the peer can be in transit; the connection is then closed at once, without a linger.
    fn is_given_up(&self, _conn: &Self::Conn) -> bool {
        false
    }

    /// Deadline of the current wait for input.
    fn deadline(&self, conn: &Self::Conn) -> Time;

    /// Number of requests served.
    fn requests(&self, conn: &Self::Conn) -> u32;

    /// True once the connection has served a request or a pushed message. Until then, a drain
    /// leaves the peer some time for its first request.
    fn has_served(&self, conn: &Self::Conn) -> bool {
        self.requests(conn) > 0
    }

    /// True between requests, if no byte of the next request was received: a drain may then close
    /// the connection.
    fn is_idle(&self, conn: &Self::Conn) -> bool;

    /// True between the parts of a reply, when no output is left but more follows.
    fn has_begun_reply(&self, _conn: &Self::Conn) -> bool {
        false
    }

    /// Returns the reason of the close, after the protocol has decided to close the connection.
    fn close_reason(&self, conn: &Self::Conn) -> CloseReason;
}
