//! The guard that lets no client through more often than its quota says.
//!
//! Does not know about: how keys are counted ([`crate::limit`] does).

use super::Guard;
use crate::limit::{CLIENT_V6_LEN, Decision, Key, KeyBytes, LimitFields, Limiter};
use crate::prober::prober_of;
use crate::{Answered, Peer, Request, Responder, Status};
use std::fmt;
use std::sync::Arc;

/// Lets requests through that a [`Limiter`] allows; others get 429 (RFC 6585 4) with `Retry-After`. Several guards may share a limiter.
#[derive(Clone, Debug)]
pub struct RateLimit {
    limiter: Arc<Limiter>,
    key: Key,
    client_v6_len: u8,
    exempts_probes: bool,
    sends_fields: bool,
}

/// The client has to be told apart by its address, which is not known. Counted together with others it
/// would share one limit with all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientUnknown;

impl fmt::Display for ClientUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the address of the client is not known")
    }
}

impl std::error::Error for ClientUnknown {}

impl RateLimit {
    /// Counts requests by `key`. A request without the header or token that the key names is counted by its address; one from a Unix
    /// socket, which has none, with all others like it.
    ///
    /// A request whose address is not known gets a 500, which is counted as
    /// [`ApiMisuse::ClientUnknown`](crate::ApiMisuse::ClientUnknown): something between the server
    /// and the limit does not forward [`Service::wants_client`](crate::Service::wants_client).
    pub const fn new(limiter: Arc<Limiter>, key: Key) -> Self {
        Self { limiter, key, client_v6_len: CLIENT_V6_LEN, exempts_probes: false, sends_fields: false }
    }

    /// Bits of an IPv6 address that are one client, where clients are told apart by their addresses and
    /// the key does not say how many. Default [`CLIENT_V6_LEN`].
    #[must_use]
    pub const fn client_v6_len(mut self, bits: u8) -> Self {
        self.client_v6_len = bits;
        self
    }

    /// Requests that look like a known prober's are not counted. Anybody can look like one, so this is for networks in which nobody
    /// pretends. Default false.
    #[must_use]
    pub const fn exempt_probes(mut self, on: bool) -> Self {
        self.exempts_probes = on;
        self
    }

    /// Tells the client what it has left, in `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`. A refusal always does.
    /// Default false.
    #[must_use]
    pub const fn send_fields(mut self, on: bool) -> Self {
        self.sends_fields = on;
        self
    }

    /// The limiter.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Counts the request.
    ///
    /// # Errors
    /// Its address is needed and not known.
    #[inline]
    pub fn check(&self, request: &Request<'_>) -> Result<Decision, ClientUnknown> {
        match (&self.key, request.client().peer) {
            // The usual key, apart from the others: then its bytes need not be written down.
            (Key::Ip, Peer::Addr(addr)) => Ok(self.limiter.check_ip(addr, self.client_v6_len, request.now())),
            _ => self.check_by(request),
        }
    }

    #[inline(never)]
    fn check_by(&self, request: &Request<'_>) -> Result<Decision, ClientUnknown> {
        let key = match (self.key.named(request), request.client().peer) {
            (Some(named), _) => named,
            (None, Peer::Addr(addr)) => self.key.of_addr(addr, self.client_v6_len),
            (None, Peer::Unix) => KeyBytes::UNIX,
            (None, Peer::Unknown) => return Err(ClientUnknown),
        };
        Ok(self.limiter.check(key.as_bytes(), request.now()))
    }

    /// Lets the request pass, with the fields in its reply if they are wanted.
    ///
    /// # Errors
    /// When it is one too many or cannot be counted, what [`Self::refuse`] takes.
    #[inline(always)]
    pub fn ask(
        &self,
        request: &Request<'_>,
        reply: &mut Responder<'_>,
    ) -> Result<(), Result<Decision, ClientUnknown>> {
        if self.exempts_probes && prober_of(request).is_some() {
            return Ok(());
        }
        let decision = match self.check(request) {
            Ok(decision) if decision.is_allowed() => decision,
            refused => return Err(refused),
        };
        if self.sends_fields {
            reply.add_lines(self.fields(&decision).lines());
        }
        Ok(())
    }

    /// Apart, so that nothing of it is in the way of those who want none.
    #[inline(never)]
    fn fields(&self, decision: &Decision) -> LimitFields {
        decision.fields(self.limiter.quota())
    }

    /// The reply to a request that was one too many or cannot be counted.
    #[cold]
    pub fn refuse<'a>(
        &self,
        checked: Result<Decision, ClientUnknown>,
        mut reply: Responder<'a>,
    ) -> Answered<'a> {
        let Ok(decision) = checked else { return reply.refuse_unknown_client() };
        reply.add_lines(self.fields(&decision).lines());
        reply.status(Status::TOO_MANY_REQUESTS).header("Cache-Control", "no-store").empty()
    }
}

impl Guard for RateLimit {
    fn wants_client(&self) -> bool {
        true
    }

    #[inline]
    fn admit<'a>(
        &self,
        request: &Request<'_>,
        mut reply: Responder<'a>,
    ) -> Result<Responder<'a>, Answered<'a>> {
        match self.ask(request, &mut reply) {
            Ok(()) => Ok(reply),
            Err(checked) => Err(self.refuse(checked, reply)),
        }
    }

    #[inline]
    fn around<'a>(
        &self,
        request: &Request<'_>,
        mut reply: Responder<'a>,
        answer: impl FnOnce(Responder<'a>) -> Answered<'a>,
    ) -> Answered<'a> {
        match self.ask(request, &mut reply) {
            Ok(()) => answer(reply),
            Err(checked) => self.refuse(checked, reply),
        }
    }
}
