//! TLS around another protocol: the protocol reads and writes plaintext, the driver moves
//! ciphertext.
//!
//! Does not know about: certificates and client authentication ([`crate::tls`]), the inner
//! protocol.
//!
//! ```text
//!            ClientHello complete             Finished                    close_notify written, or received and answered
//!   Hello ─────────────────────► Handshake ────────────► Established ──────────────────────────────────────────────► Over
//!     └── HTTP: a 400 in plain text; other: an alert      └── a failure: an alert
//! ```
//!
//! A connection counts as a handshake in progress from accept on, and has a session only after a
//! complete first record. Between requests it uses 3 KiB in addition to its slot, and no buffer.
//!
//! A connection ends with a close_notify in the same segment as the last reply, then FIN. Then the
//! connection lingers to receive the peer's close_notify, which would cause a reset on a closed
//! socket.

mod hand_over;
mod hello;
mod session;
mod upper;

use doorbell_http::Next;
use rustls::server::UnbufferedServerConnection;

pub use self::hand_over::HelloInfo;
pub use self::hello::OVERLOAD_ALERT;

use self::hand_over::Decider;
use self::hello::{Alert, Opening, PLAIN_HTTP_REPLY, after_alert, classify, is_whole};
use self::session::{Failure, Session};
use self::upper::{CallContext, Upper};
use super::{Io, JobResult, Local, Notify, Protocol, ServerSize, StreamMemory};
use crate::error::CloseReason;
use crate::id::{ConnId, ListenerIndex};
use crate::time::Time;
use crate::tls::{Acceptor, Admission, Outcome, Permit};

/// A protocol over TLS.
#[derive(Clone, Debug)]
pub struct Tls<P> {
    inner: P,
    acceptor: Acceptor,
    hand_over: Option<Decider>,
}

/// State of a TLS connection.
#[derive(Debug)]
pub struct TlsConn<C> {
    stage: Stage,
    state: TlsState<C>,
    /// Deadline of the handshake.
    handshake_deadline: Time,
    /// The reason of the close, if it was not decided by the inner protocol.
    reason: Option<CloseReason>,
}

#[derive(Debug)]
enum Stage {
    /// No bytes, or only a part of the ClientHello, have arrived.
    Hello,
    /// The session has ended or was refused; later calls write nothing.
    Over,
    /// Too many handshakes were in progress when the connection arrived, or the connection is
    /// handed over (see [`leave`]).
    Refused,
    /// A session, from the ClientHello on.
    Session(Box<Session>),
}

/// State that changes with the end of the handshake.
#[derive(Debug)]
struct TlsState<C> {
    /// The inner protocol; set at the end of the handshake.
    upper: Option<Upper<C>>,
    /// The permit for a handshake in progress; held until its end.
    permit: Option<Permit>,
    /// The identity of the connection, for an inner protocol that needs it.
    id: Option<ConnId>,
}

impl<P> Tls<P> {
    /// Creates a protocol that runs `inner` over TLS.
    pub const fn new(inner: P, acceptor: Acceptor) -> Self {
        Self { inner, acceptor, hand_over: None }
    }

    /// Hands a connection over if `decide` returns true, with its ClientHello as the first bytes.
    ///
    /// The decision precedes any reply, because a session that has begun cannot be moved to another
    /// owner. `decide` is called when the whole ClientHello has arrived, in any number of records.
    #[must_use]
    pub fn hand_over_if(mut self, decide: impl Fn(&HelloInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.hand_over = Some(Decider::new(decide));
        self
    }

    /// Returns the acceptor, which contains certificates, client authentication and limits.
    pub const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }
}

impl<P: Protocol> Tls<P> {
    /// Handles bytes before there is a session.
    fn on_hello(&self, conn: &mut TlsConn<P::Conn>, fresh: &[u8], io: Io<'_>) -> Next {
        if let Some(permit) = &mut conn.state.permit {
            permit.begin();
        }
        io.input.extend_from_slice(fresh);
        let hello_bytes_max = self.acceptor.limits().hello_bytes_max;
        match classify(io.input, hello_bytes_max) {
            Opening::More => Next::Read,
            // Without a hand-over the handshake begins with the first record: the TLS library waits
            // for further records.
            Opening::Complete if self.hand_over.is_some() && !is_whole(io.input, hello_bytes_max) => {
                Next::Read
            }
            Opening::Complete
                if self.hand_over.as_ref().is_some_and(|decider| decider.hands_over(io.input)) =>
            {
                leave(conn)
            }
            Opening::Complete if self.acceptor.gate_admits(io.client.peer, io.now) => self.begin(conn, io),
            Opening::Complete => refuse(conn, io, Alert::InternalError, Outcome::GateRefused),
            Opening::NotTls => refuse(conn, io, Alert::DecodeError, Outcome::NotTls),
            Opening::TooLong => refuse(conn, io, Alert::DecodeError, Outcome::Failed),
            Opening::Http => {
                end(conn, CloseReason::Tls, Outcome::PlainHttp);
                io.input.clear();
                io.out.head.extend_from_slice(PLAIN_HTTP_REPLY);
                Next::CloseLinger
            }
        }
    }

    fn begin(&self, conn: &mut TlsConn<P::Conn>, mut io: Io<'_>) -> Next {
        match UnbufferedServerConnection::new(self.acceptor.current()) {
            Ok(session) => {
                let mut session = Box::new(Session::new(session));
                session.count_received(io.input.len());
                conn.stage = Stage::Session(session);
                self.pump(conn, io.reborrow())
            }
            Err(_) => refuse(conn, io, Alert::InternalError, Outcome::Failed),
        }
    }

    fn pump(&self, conn: &mut TlsConn<P::Conn>, mut io: Io<'_>) -> Next {
        let Stage::Session(session) = &mut conn.stage else { return Next::Close };
        let pumped = session.pump(self, &mut conn.state, io.reborrow());
        if let Some(upper) = &mut conn.state.upper {
            upper.pass_misuses(io.out);
        }
        match pumped {
            Ok(next) => next,
            Err(failure) => fail(conn, &failure, io),
        }
    }

    /// Calls the inner protocol with an event that is not input, and writes its output. If output
    /// cannot be encrypted now, the connection closes without the call.
    fn notify_inner(
        &self,
        conn: &mut TlsConn<P::Conn>,
        mut io: Io<'_>,
        call: impl FnOnce(&P, &mut P::Conn, Io<'_>) -> Next,
    ) -> Next {
        let Stage::Session(session) = &conn.stage else { return Next::Close };
        let can_write = session.can_write(io.input);
        let Some(upper) = conn.state.upper.as_mut().filter(|_| can_write) else {
            conn.stage = Stage::Over;
            return Next::Close;
        };
        let Io { now, date, draining, client, .. } = io;
        upper.run(&self.inner, &mut CallContext { now, date, draining, local: io.local, client }, call);
        self.pump(conn, io.reborrow())
    }
}

impl<P: Protocol> Tls<P> {
    /// Like [`Self::notify_inner`], for an event that may come after input that arrived while
    /// output was sent: the library reads that input before it can write.
    fn notify_after_input(
        &self,
        conn: &mut Box<TlsConn<P::Conn>>,
        mut io: Io<'_>,
        call: impl FnOnce(&P, &mut P::Conn, Io<'_>) -> Next,
    ) -> Next {
        if let Stage::Session(session) = &conn.stage
            && !session.can_write(io.input)
        {
            let next = self.handle_input(conn, &[], io.reborrow());
            if !matches!(next, Next::Flush | Next::Read | Next::Wait) {
                return next;
            }
        }
        self.notify_inner(conn, io, call)
    }
}

impl<P: Protocol> Protocol for Tls<P> {
    type Conn = Box<TlsConn<P::Conn>>;

    /// In TLS the client always sends first.
    fn speaks_first(&self) -> bool {
        false
    }

    fn wants_client(&self) -> bool {
        self.inner.wants_client() || self.acceptor.has_gate()
    }

    fn size_for(&self, server_size: &ServerSize) {
        self.acceptor.join(server_size.tls());
        self.inner.size_for(server_size);
    }

    fn memory(&self, slots_max: u32, notify: &Notify) -> Option<Box<dyn StreamMemory>> {
        self.inner.memory(slots_max, notify)
    }

    fn open(&self, now: Time) -> Self::Conn {
        let (stage, permit, timeout) = match self.acceptor.admit() {
            Admission::Admitted(permit) => {
                (Stage::Hello, Some(permit), self.acceptor.limits().handshake_timeout)
            }
            Admission::OverCap => (Stage::Refused, None, core::time::Duration::ZERO),
        };
        Box::new(TlsConn {
            stage,
            state: TlsState { upper: None, permit, id: None },
            handshake_deadline: now.after(timeout),
            reason: None,
        })
    }

    fn identify(&self, conn: &mut Self::Conn, id: ConnId) {
        conn.state.id = Some(id);
    }

    fn greet(&self, _conn: &mut Self::Conn, _io: Io<'_>) -> Next {
        Next::Read
    }

    fn handle_input(&self, conn: &mut Self::Conn, fresh: &[u8], io: Io<'_>) -> Next {
        let conn = &mut **conn;
        match &mut conn.stage {
            Stage::Hello => self.on_hello(conn, fresh, io),
            Stage::Over => Next::Close,
            Stage::Refused => {
                conn.reason = Some(CloseReason::HandshakeCap);
                io.out.head.extend_from_slice(&OVERLOAD_ALERT);
                after_alert(fresh)
            }
            Stage::Session(session) => {
                io.input.extend_from_slice(fresh);
                match &mut conn.state.upper {
                    None => session.count_received(fresh.len()),
                    Some(upper) if upper.is_written() => {
                        if upper.after == Next::Flush {
                            let Io { now, date, draining, client, .. } = io;
                            let mut context = CallContext { now, date, draining, local: io.local, client };
                            upper.run(&self.inner, &mut context, |protocol, conn, io| {
                                protocol.handle_input(conn, &[], io)
                            });
                        }
                        session.holds = upper.stops_reading();
                    }
                    Some(_) => {}
                }
                self.pump(conn, io)
            }
        }
    }

    fn handle_answer(&self, conn: &mut Self::Conn, answer: JobResult, io: Io<'_>) -> Next {
        self.notify_inner(conn, io, |protocol, conn, io| protocol.handle_answer(conn, answer, io))
    }

    fn handle_sent(&self, conn: &mut Self::Conn, now: Time) {
        if let Some(upper) = &mut conn.state.upper {
            self.inner.handle_sent(&mut upper.conn, now);
        }
    }

    fn handle_message(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        self.notify_after_input(conn, io, Protocol::handle_message)
    }

    fn handle_eof(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        if let Stage::Session(session) = &mut conn.stage {
            session.peer_closed = true;
        }
        if conn.state.upper.is_none() {
            conn.reason = Some(CloseReason::ClientGone);
        }
        // Without a close_notify before it, the FIN may be forged: the inner protocol must not
        // treat incomplete input as complete.
        self.notify_inner(conn, io, Protocol::handle_eof)
    }

    fn handle_timeout(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        if conn.state.upper.is_some() {
            return self.notify_after_input(conn, io, Protocol::handle_timeout);
        }
        if io.now < conn.handshake_deadline {
            return Next::Read;
        }
        match conn.stage {
            Stage::Refused => conn.reason = Some(CloseReason::HandshakeCap),
            Stage::Hello | Stage::Over | Stage::Session(_) => {
                conn.reason = Some(CloseReason::HandshakeTimeout);
                if let Some(permit) = conn.state.permit.take() {
                    permit.end(Outcome::TimedOut);
                }
            }
        }
        conn.stage = Stage::Over;
        Next::Close
    }

    fn handle_panic(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        conn.reason = Some(CloseReason::HandlerPanic);
        if matches!(&conn.stage, Stage::Session(session) if session.is_busy) {
            conn.stage = Stage::Over;
        }
        self.notify_inner(conn, io, Protocol::handle_panic)
    }

    fn handle_overload(&self, conn: &mut Self::Conn, reason: CloseReason, io: Io<'_>) -> Next {
        conn.reason = Some(reason);
        if matches!(conn.stage, Stage::Hello | Stage::Refused) {
            io.input.clear();
            conn.stage = Stage::Over;
            io.out.head.extend_from_slice(&OVERLOAD_ALERT);
            return Next::Close;
        }
        if conn.state.upper.as_ref().is_some_and(|upper| !upper.is_written()) {
            // No error reply can follow a partial reply.
            conn.stage = Stage::Over;
        }
        self.notify_inner(conn, io, |protocol, conn, io| protocol.handle_overload(conn, reason, io))
    }

    fn handle_drain(&self, conn: &mut Self::Conn, io: Io<'_>) -> Next {
        self.notify_inner(conn, io, Protocol::handle_drain)
    }

    fn handle_closed(
        &self,
        conn: &Self::Conn,
        listener: ListenerIndex,
        local: &mut Local,
        reason: CloseReason,
    ) {
        if let Some(upper) = &conn.state.upper {
            self.inner.handle_closed(&upper.conn, listener, local, reason);
        }
    }

    /// A client whose handshake timed out has sent no request. A client over the limit of
    /// handshakes may still be sending its ClientHello, so its connection lingers.
    fn is_given_up(&self, conn: &Self::Conn) -> bool {
        conn.state.upper.is_none() && conn.reason == Some(CloseReason::HandshakeTimeout)
    }

    fn deadline(&self, conn: &Self::Conn) -> Time {
        match &conn.state.upper {
            Some(upper) => self.inner.deadline(&upper.conn),
            None => conn.handshake_deadline,
        }
    }

    fn requests(&self, conn: &Self::Conn) -> u32 {
        conn.state.upper.as_ref().map_or(0, |upper| self.inner.requests(&upper.conn))
    }

    fn has_served(&self, conn: &Self::Conn) -> bool {
        conn.state.upper.as_ref().is_some_and(|upper| self.inner.has_served(&upper.conn))
    }

    fn is_idle(&self, conn: &Self::Conn) -> bool {
        let between_records = matches!(&conn.stage, Stage::Session(session) if session.is_between_records());
        let state = conn.state.upper.as_ref();
        between_records && state.is_some_and(|upper| upper.is_written() && self.inner.is_idle(&upper.conn))
    }

    fn has_begun_reply(&self, conn: &Self::Conn) -> bool {
        let state = conn.state.upper.as_ref();
        state.is_some_and(|upper| !upper.is_written() || self.inner.has_begun_reply(&upper.conn))
    }

    fn close_reason(&self, conn: &Self::Conn) -> CloseReason {
        match (conn.reason, &conn.state.upper) {
            (Some(reason), _) => reason,
            (None, Some(upper)) => self.inner.close_reason(&upper.conn),
            (None, None) => CloseReason::Done,
        }
    }
}

/// Refuses a connection that has no session.
fn refuse<C>(conn: &mut TlsConn<C>, io: Io<'_>, alert: Alert, outcome: Outcome) -> Next {
    end(conn, CloseReason::Tls, outcome);
    let next = after_alert(io.input);
    io.input.clear();
    io.out.head.extend_from_slice(&alert.record());
    next
}

/// Requests the hand-over and leaves the ClientHello in the input. If the hand-over is refused,
/// [`Stage::Refused`] makes [`Protocol::handle_overload`] send an alert.
#[cold]
fn leave<C>(conn: &mut TlsConn<C>) -> Next {
    conn.stage = Stage::Refused;
    if let Some(permit) = conn.state.permit.take() {
        permit.end(Outcome::HandedOver);
    }
    Next::HandOver
}

fn end<C>(conn: &mut TlsConn<C>, reason: CloseReason, outcome: Outcome) {
    conn.stage = Stage::Over;
    conn.reason.get_or_insert(reason);
    if let Some(permit) = conn.state.permit.take() {
        permit.end(outcome);
    }
}

/// Ends a failed session, with an alert if there is one.
#[cold]
fn fail<C>(conn: &mut TlsConn<C>, failure: &Failure, io: Io<'_>) -> Next {
    let mut next = Next::CloseLinger;
    if let Stage::Session(session) = &mut conn.stage {
        session.write_alert(&mut io.out.head);
        match failure {
            // The connection lingers, because the rest of the oversized message is still arriving.
            Failure::TooLong if session.peer_waits() => {
                io.out.head.extend_from_slice(&Alert::DecodeError.record());
            }
            _ if session.peer_waits() => next = Next::CloseClean,
            _ => {}
        }
    }
    io.input.clear();
    end(conn, CloseReason::Tls, failure.outcome());
    next
}
