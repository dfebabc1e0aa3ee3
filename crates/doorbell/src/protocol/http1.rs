//! HTTP/1.1 and 1.0 as a listener's protocol: the state machine of `doorbell-http` with a service
//! and its limits.

use core::fmt;
use std::sync::Arc;

use doorbell_http::{
    ApiMisuse, Client, Conn, ConnLimit, DefaultField, Limits, Next, Out, Phase, Reply, RequestError, Service,
    Status,
};

use super::{Io, JobResult, Protocol, Refusals};
use crate::error::CloseReason;
use crate::offload::{self, Outcome};
use crate::time::Time;

/// HTTP/1.1 and 1.0, with a service.
#[derive(Clone)]
pub struct Http1 {
    service: Arc<dyn Service + Send + Sync>,
    limits: Limits,
    refusals: Refusals,
    hsts: Option<DefaultField>,
}

/// State of an HTTP connection.
#[derive(Debug)]
pub struct Http1Conn {
    machine: Conn,
    /// The reason of the close, if it was not decided by the state machine.
    reason: Option<CloseReason>,
}

impl Http1 {
    /// Creates the protocol with default limits.
    pub fn new(service: impl Service + Send + Sync + 'static) -> Self {
        let (limits, refusals) = (Limits::default(), Refusals::new());
        Self { service: Arc::new(service), limits, refusals, hsts: None }
    }

    /// Sets limits and timeouts of each connection. Default [`Limits::default`].
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds `Strict-Transport-Security` to every reply over TLS that has no such field, including
    /// error replies of the parser. The field must not be sent over plain HTTP (RFC 6797 7.2).
    pub fn hsts(mut self, value: &str) -> Result<Self, ApiMisuse> {
        self.hsts = Some(DefaultField::new("Strict-Transport-Security", value)?);
        Ok(self)
    }

    /// Returns the value of [`Self::hsts`], for the replies of another protocol over TLS.
    pub fn hsts_value(&self) -> Option<&[u8]> {
        self.hsts.as_ref().map(DefaultField::value)
    }

    pub(crate) const fn answer_before_body(&mut self) {
        self.limits.answer_before_body = true;
    }

    /// Returns the counters, by reason, of requests refused before they reached the service. The
    /// counters are never reset.
    pub fn refusals(&self) -> Refusals {
        self.refusals.clone()
    }

    /// Counts a request that was refused before it reached the service, and reports it to the
    /// service. For a protocol that reads requests for this one and refuses some of them itself.
    pub fn report_refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        self.refusals.count(error);
        self.service.refused(error, client, now);
    }

    /// Reports an error reply of the state machine: at most one per connection, because an error
    /// reply ends the connection.
    #[cold]
    fn report_error(&self, conn: &Http1Conn, client: &Client<'_>, now: Time) {
        if let Some(error) = conn.machine.error() {
            self.report_refused(error, client, now);
        }
    }

    /// Wraps this protocol in TLS.
    #[cfg(feature = "tls")]
    pub const fn tls(self, acceptor: crate::tls::Acceptor) -> super::Tls<Self> {
        super::Tls::new(self, acceptor)
    }

    const fn io<'a>(&'a self, io: Io<'a>) -> doorbell_http::Io<'a> {
        doorbell_http::Io {
            now: io.now,
            date: io.date,
            limits: &self.limits,
            carry: io.input,
            out: io.out,
            closing: io.draining,
            client: io.client,
        }
    }
}

impl Protocol for Http1 {
    type Conn = Http1Conn;

    fn speaks_first(&self) -> bool {
        false
    }

    fn wants_client(&self) -> bool {
        self.service.wants_client()
    }

    fn open(&self, now: Time) -> Http1Conn {
        Http1Conn { machine: Conn::new(now, &self.limits), reason: None }
    }

    fn out_over_tls(&self) -> Out {
        let mut out = Out::new();
        out.set_default_field(self.hsts.clone());
        out
    }

    fn greet(&self, _conn: &mut Http1Conn, _io: Io<'_>) -> Next {
        Next::Read
    }

    #[inline(always)]
    fn handle_input(&self, conn: &mut Http1Conn, fresh: &[u8], io: Io<'_>) -> Next {
        let Io { now, date, input, out, draining, local, client } = io;
        let io = doorbell_http::Io {
            now,
            date,
            limits: &self.limits,
            carry: input,
            out,
            closing: draining,
            client,
        };
        let next = conn.machine.handle_input_seen(fresh, io, &*self.service, &mut local.seen);
        if next == Next::CloseLinger {
            self.report_error(conn, client, now);
        }
        next
    }

    #[inline(always)]
    fn answer_once(&self, fresh: &[u8], io: Io<'_>) -> Option<Next> {
        let Io { now, date, input, out, draining, local, client } = io;
        let limits = &self.limits;
        let io = doorbell_http::Io { now, date, limits, carry: input, out, closing: draining, client };
        Conn::answer_once(fresh, io, &*self.service, &local.seen)
    }

    fn wait_once(&self, conn: &mut Http1Conn, io: Io<'_>) {
        conn.machine.wait_once(&self.io(io));
    }

    fn handle_answer(&self, conn: &mut Http1Conn, answer: JobResult, io: Io<'_>) -> Next {
        if answer.is_panic() {
            conn.reason = Some(CloseReason::HandlerPanic);
        }
        handle_answer(&mut conn.machine, answer, self.io(io))
    }

    fn handle_sent(&self, conn: &mut Http1Conn, now: Time) {
        conn.machine.handle_sent(now, &self.limits);
    }

    fn handle_eof(&self, conn: &mut Http1Conn, io: Io<'_>) -> Next {
        conn.reason = Some(match conn.machine.phase() {
            Phase::Idle => CloseReason::ClientFin,
            Phase::Body | Phase::Closing | Phase::Head | Phase::Waiting => CloseReason::ClientGone,
        });
        let (client, now) = (io.client, io.now);
        let next = conn.machine.handle_eof(self.io(io));
        self.report_error(conn, client, now);
        next
    }

    fn handle_timeout(&self, conn: &mut Http1Conn, io: Io<'_>) -> Next {
        let (client, now) = (io.client, io.now);
        let phase = conn.machine.phase();
        let next = conn.machine.handle_timeout(self.io(io));
        self.report_error(conn, client, now);
        if matches!(next, Next::Close | Next::CloseLinger) {
            conn.reason = match phase {
                Phase::Body => Some(CloseReason::BodyTimeout),
                Phase::Closing => conn.reason,
                Phase::Head => Some(CloseReason::HeaderTimeout),
                Phase::Idle => Some(CloseReason::IdleTimeout),
                Phase::Waiting => Some(CloseReason::JobTimeout),
            };
        }
        next
    }

    fn handle_panic(&self, conn: &mut Http1Conn, io: Io<'_>) -> Next {
        conn.reason = Some(CloseReason::HandlerPanic);
        conn.machine.handle_panic(self.io(io))
    }

    fn handle_overload(&self, conn: &mut Http1Conn, reason: CloseReason, io: Io<'_>) -> Next {
        conn.reason = Some(reason);
        conn.machine.handle_overload(self.io(io))
    }

    fn deadline(&self, conn: &Http1Conn) -> Time {
        conn.machine.deadline()
    }

    fn requests(&self, conn: &Http1Conn) -> u32 {
        conn.machine.requests()
    }

    fn is_idle(&self, conn: &Http1Conn) -> bool {
        conn.machine.phase() == Phase::Idle
    }

    fn close_reason(&self, conn: &Http1Conn) -> CloseReason {
        match (conn.reason, conn.machine.error(), conn.machine.limit()) {
            (Some(reason), ..) => reason,
            (None, Some(_), _) => CloseReason::Refused,
            (None, None, Some(ConnLimit::Age)) => CloseReason::AgeMax,
            (None, None, Some(ConnLimit::Requests)) => CloseReason::RequestsMax,
            (None, None, None) => CloseReason::Done,
        }
    }
}

/// Writes the reply to a request whose job has this result.
pub(crate) fn handle_answer(machine: &mut Conn, answer: JobResult, io: doorbell_http::Io<'_>) -> Next {
    let JobResult { mut later, outcome } = answer;
    match outcome {
        Outcome::Replied(offload::JobReply::Reply(reply)) => {
            machine.handle_answer(*later, io, |responder| responder.send_owned(reply))
        }
        Outcome::Replied(offload::JobReply::Then(finish)) => machine.handle_answer(*later, io, finish),
        Outcome::Busy => machine.handle_answer(*later, io, |responder| {
            responder.send_owned(Reply::new(Status::SERVICE_UNAVAILABLE).header("Retry-After", "1"))
        }),
        Outcome::Panicked => {
            later.panicked();
            machine.handle_panic(io)
        }
    }
}

impl fmt::Debug for Http1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1").field("limits", &self.limits).finish_non_exhaustive()
    }
}
