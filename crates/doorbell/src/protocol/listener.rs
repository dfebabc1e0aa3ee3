//! One type for all built-in protocols, which passes each call to the protocol of the listener.

use doorbell_http::Next;

use super::http1::{Http1, Http1Conn};
use super::local::{Local, Notify, StreamMemory};
use super::stream::{AnyStream, Stream, StreamConn, StreamHandler};
#[cfg(feature = "tls")]
use super::tls::{Tls, TlsConn};
use super::{Io, JobResult, Protocol, Raw, ServerSize};
use crate::error::CloseReason;
use crate::id::{ConnId, ListenerIndex};
use crate::time::Time;

/// The protocol of a listener: any of the built-in protocols.
#[derive(Debug)]
pub enum ListenerProtocol {
    /// HTTP/1.1 and 1.0.
    Http1(Http1),
    /// A protocol of the application.
    Stream(AnyStream),
    /// HTTP over TLS.
    #[cfg(feature = "tls")]
    TlsHttp1(Tls<Http1>),
    /// A protocol of the application over TLS.
    #[cfg(feature = "tls")]
    TlsStream(Tls<AnyStream>),
}

/// The connection state of any built-in protocol.
#[derive(Debug)]
pub enum ProtocolConn {
    /// State of [`Http1`].
    Http1(Http1Conn),
    /// State of [`AnyStream`].
    Stream(StreamConn),
    /// State of [`Tls`] around [`Http1`]. Boxed, so that connections without TLS are not larger.
    #[cfg(feature = "tls")]
    TlsHttp1(Box<TlsConn<Http1Conn>>),
    /// State of [`Tls`] around [`AnyStream`].
    #[cfg(feature = "tls")]
    TlsStream(Box<TlsConn<StreamConn>>),
}

impl From<Http1> for ListenerProtocol {
    fn from(http1: Http1) -> Self {
        Self::Http1(http1)
    }
}

impl From<AnyStream> for ListenerProtocol {
    fn from(stream: AnyStream) -> Self {
        Self::Stream(stream)
    }
}

impl<H: StreamHandler> From<Stream<H>> for ListenerProtocol {
    fn from(stream: Stream<H>) -> Self {
        Self::Stream(stream.into())
    }
}

impl From<Raw> for ListenerProtocol {
    fn from(raw: Raw) -> Self {
        Self::Stream(raw.into())
    }
}

#[cfg(feature = "tls")]
impl From<Tls<Http1>> for ListenerProtocol {
    fn from(tls: Tls<Http1>) -> Self {
        Self::TlsHttp1(tls)
    }
}

#[cfg(feature = "tls")]
impl From<Tls<AnyStream>> for ListenerProtocol {
    fn from(tls: Tls<AnyStream>) -> Self {
        Self::TlsStream(tls)
    }
}

/// Result of an input.
pub(crate) struct InputResult {
    pub(crate) next: Next,
    /// Number of requests that the input completed.
    pub(crate) requests: u32,
    /// The value of [`Protocol::deadline`] after the input.
    pub(crate) deadline: Time,
}

/// Calls a method of the listener's protocol with the connection state of the same type.
macro_rules! each {
    ($self:expr, $conn:expr, $protocol:ident, $state:ident => $call:expr) => {
        match ($self, $conn) {
            (ListenerProtocol::Http1($protocol), ProtocolConn::Http1($state)) => $call,
            (ListenerProtocol::Stream($protocol), ProtocolConn::Stream($state)) => $call,
            #[cfg(feature = "tls")]
            (ListenerProtocol::TlsHttp1($protocol), ProtocolConn::TlsHttp1($state)) => $call,
            #[cfg(feature = "tls")]
            (ListenerProtocol::TlsStream($protocol), ProtocolConn::TlsStream($state)) => $call,
            _ => unreachable!("a connection has the protocol of its listener"),
        }
    };
}

impl ListenerProtocol {
    /// Enables early replies for listeners without TLS: see
    /// [`HandOver::answer_before_body`](crate::HandOver::answer_before_body). TLS sessions cannot
    /// be handed over.
    pub(crate) const fn answer_before_body(&mut self) {
        match self {
            Self::Http1(http1) => http1.answer_before_body(),
            Self::Stream(_) => {}
            #[cfg(feature = "tls")]
            Self::TlsHttp1(_) | Self::TlsStream(_) => {}
        }
    }

    /// True if the protocol has a [memory](Protocol::memory), so that its connections need their
    /// identity.
    pub(crate) const fn has_memory(&self) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Stream(_) => true,
            #[cfg(feature = "tls")]
            Self::TlsHttp1(_) => false,
            #[cfg(feature = "tls")]
            Self::TlsStream(_) => true,
        }
    }

    /// Calls [`Protocol::handle_input`] and returns the values that the worker needs after it. Sets
    /// `before` to the previous [`Protocol::requests`], for use after a panic.
    ///
    /// The previous reply may still be in [`Io::out`]. The HTTP state machine discards that reply
    /// when the next one begins; for the other protocols this method discards it before the call.
    #[inline(always)]
    pub(crate) fn on_input<'a>(
        &self,
        conn: &mut ProtocolConn,
        fresh: &[u8],
        io: impl FnOnce() -> Io<'a>,
        before: &mut u32,
    ) -> InputResult {
        match (self, conn) {
            // `io` is called in each arm, directly before its value is used: a value created before
            // the `match` would first be written to memory.
            (Self::Http1(protocol), ProtocolConn::Http1(state)) => {
                input_result(protocol, state, fresh, io(), before)
            }
            (_, conn) => {
                let io = io();
                io.out.forget_sent();
                self.on_input_other(conn, fresh, io, before)
            }
        }
    }

    #[inline(never)]
    fn on_input_other(
        &self,
        conn: &mut ProtocolConn,
        fresh: &[u8],
        io: Io<'_>,
        before: &mut u32,
    ) -> InputResult {
        each!(self, conn, protocol, state => input_result(protocol, state, fresh, io, before))
    }
}

#[inline(always)]
fn input_result<P: Protocol>(
    protocol: &P,
    conn: &mut P::Conn,
    fresh: &[u8],
    io: Io<'_>,
    before: &mut u32,
) -> InputResult {
    let requests = protocol.requests(conn);
    *before = requests;
    let next = protocol.handle_input(conn, fresh, io);
    InputResult { next, requests: protocol.requests(conn) - requests, deadline: protocol.deadline(conn) }
}

impl Protocol for ListenerProtocol {
    type Conn = ProtocolConn;

    fn speaks_first(&self) -> bool {
        match self {
            Self::Http1(http1) => http1.speaks_first(),
            Self::Stream(stream) => stream.speaks_first(),
            #[cfg(feature = "tls")]
            Self::TlsHttp1(tls) => tls.speaks_first(),
            #[cfg(feature = "tls")]
            Self::TlsStream(tls) => tls.speaks_first(),
        }
    }

    fn wants_client(&self) -> bool {
        match self {
            Self::Http1(http1) => http1.wants_client(),
            Self::Stream(stream) => stream.wants_client(),
            #[cfg(feature = "tls")]
            Self::TlsHttp1(tls) => tls.wants_client(),
            #[cfg(feature = "tls")]
            Self::TlsStream(tls) => tls.wants_client(),
        }
    }

    fn size_for(&self, server_size: &ServerSize) {
        match self {
            Self::Http1(http1) => http1.size_for(server_size),
            Self::Stream(stream) => stream.size_for(server_size),
            #[cfg(feature = "tls")]
            Self::TlsHttp1(tls) => tls.size_for(server_size),
            #[cfg(feature = "tls")]
            Self::TlsStream(tls) => tls.size_for(server_size),
        }
    }

    fn memory(&self, slots_max: u32, notify: &Notify) -> Option<Box<dyn StreamMemory>> {
        match self {
            Self::Http1(_) => None,
            Self::Stream(stream) => stream.memory(slots_max, notify),
            #[cfg(feature = "tls")]
            Self::TlsHttp1(_) => None,
            #[cfg(feature = "tls")]
            Self::TlsStream(tls) => tls.memory(slots_max, notify),
        }
    }

    fn open(&self, now: Time) -> Self::Conn {
        match self {
            Self::Http1(http1) => ProtocolConn::Http1(http1.open(now)),
            Self::Stream(stream) => ProtocolConn::Stream(stream.open(now)),
            #[cfg(feature = "tls")]
            Self::TlsHttp1(tls) => ProtocolConn::TlsHttp1(tls.open(now)),
            #[cfg(feature = "tls")]
            Self::TlsStream(tls) => ProtocolConn::TlsStream(tls.open(now)),
        }
    }

    fn identify(&self, conn: &mut Self::Conn, id: ConnId) {
        each!(self, conn, protocol, state => protocol.identify(state, id));
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
            Self::Stream(_) => None,
            #[cfg(feature = "tls")]
            Self::TlsHttp1(_) | Self::TlsStream(_) => None,
        }
    }

    fn wait_once(&self, conn: &mut Self::Conn, io: Io<'_>) {
        each!(self, conn, protocol, state => protocol.wait_once(state, io));
    }

    fn handle_answer(&self, conn: &mut Self::Conn, answer: JobResult, io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.handle_answer(state, answer, io))
    }

    fn handle_sent(&self, conn: &mut Self::Conn, now: Time) {
        each!(self, conn, protocol, state => protocol.handle_sent(state, now));
    }

    fn handle_message(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        each!(self, conn, protocol, state => protocol.handle_message(state, io))
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

    fn handle_closed(
        &self,
        conn: &Self::Conn,
        listener: ListenerIndex,
        local: &mut Local,
        reason: CloseReason,
    ) {
        each!(self, conn, protocol, state => protocol.handle_closed(state, listener, local, reason));
    }

    fn deadline(&self, conn: &Self::Conn) -> Time {
        each!(self, conn, protocol, state => protocol.deadline(state))
    }

    fn requests(&self, conn: &Self::Conn) -> u32 {
        each!(self, conn, protocol, state => protocol.requests(state))
    }

    fn has_served(&self, conn: &Self::Conn) -> bool {
        each!(self, conn, protocol, state => protocol.has_served(state))
    }

    fn is_idle(&self, conn: &Self::Conn) -> bool {
        each!(self, conn, protocol, state => protocol.is_idle(state))
    }

    fn is_given_up(&self, conn: &Self::Conn) -> bool {
        each!(self, conn, protocol, state => protocol.is_given_up(state))
    }

    fn has_begun_reply(&self, conn: &Self::Conn) -> bool {
        each!(self, conn, protocol, state => protocol.has_begun_reply(state))
    }

    fn close_reason(&self, conn: &Self::Conn) -> CloseReason {
        each!(self, conn, protocol, state => protocol.close_reason(state))
    }
}
