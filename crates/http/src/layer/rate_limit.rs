//! The guard that enforces a quota per client.
//!
//! Does not know about: counting (see [`crate::limit`]).

use super::Guard;
use crate::limit::{CLIENT_V6_LEN, Decision, Key, KeyBytes, LimitFields, Limiter};
use crate::prober::prober_of;
use crate::{Peer, Replied, Request, Responder, Status};
use std::fmt;
use std::sync::Arc;

/// Passes requests that a [`Limiter`] allows; other requests get 429 (RFC 6585 4) with
/// `Retry-After`.
///
/// Several guards may share a limiter. The guard that is added last is consulted first: here the
/// limit, so that tokens cannot be guessed quickly.
///
/// ```
/// use std::hash::{BuildHasher as _, RandomState};
/// use std::sync::Arc;
///
/// use doorbell_http::auth::{Policy, Tokens};
/// use doorbell_http::layer::{RateLimit, RequireAuth, ServiceExt as _};
/// use doorbell_http::limit::{Key, Limiter, Quota};
/// use doorbell_http::{Status, service_fn};
///
/// let mut tokens = Tokens::new();
/// tokens.add("prometheus", b"XJ7bXg1cV3yq8s0LQm5v2w")?;
/// let auth = RequireAuth::new(Policy::bearer("status", tokens)?);
///
/// let seed = [0, 1].map(|part| RandomState::new().hash_one(part));
/// let limiter = Limiter::new(Quota::per_second(10)?, 65_536, seed);
/// let limit = RateLimit::new(Arc::new(limiter), Key::Ip);
///
/// let service = service_fn(|request, reply| {
///     reply.status(Status::OK).text(format!("hello {}\n", request.identity().unwrap_or_default()))
/// });
/// let service = service.guarded(auth).guarded(limit);
/// # let _: &dyn doorbell_http::Service = &service;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimit {
    limiter: Arc<Limiter>,
    key: Key,
    client_v6_len: u8,
    exempts_probes: bool,
    sends_fields: bool,
}

/// Error: requests are counted by the client's address, which is unknown.
///
/// Counting such requests under one key would make all of these clients share one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientUnknown;

impl fmt::Display for ClientUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the address of the client is unknown")
    }
}

impl std::error::Error for ClientUnknown {}

impl RateLimit {
    /// Creates a guard that counts requests by `key`. A request without the key's header or token
    /// is counted by its address. Clients on Unix sockets, which have no address, share one key.
    ///
    /// If this address is unknown, the request gets a 500, counted as
    /// [`ApiMisuse::ClientUnknown`](crate::ApiMisuse::ClientUnknown): a service between the server
    /// and the limit does not forward [`Service::wants_client`](crate::Service::wants_client).
    pub const fn new(limiter: Arc<Limiter>, key: Key) -> Self {
        Self { limiter, key, client_v6_len: CLIENT_V6_LEN, exempts_probes: false, sends_fields: false }
    }

    /// Sets the number of bits of an IPv6 address that identify a client. It applies to requests
    /// that are counted by address, unless the key sets the number. Default [`CLIENT_V6_LEN`].
    #[must_use]
    pub const fn client_v6_len(mut self, bits: u8) -> Self {
        self.client_v6_len = bits;
        self
    }

    /// Exempts requests that look like those of a known prober. Any client can imitate a prober, so
    /// use this in trusted networks only. Default false.
    #[must_use]
    pub const fn exempt_probes(mut self, on: bool) -> Self {
        self.exempts_probes = on;
        self
    }

    /// Reports the remaining quota in `RateLimit-Limit`, `RateLimit-Remaining` and
    /// `RateLimit-Reset`. Refusals always contain these fields. Default false.
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
    /// The address is required but unknown.
    #[inline]
    pub fn check(&self, request: &Request<'_>) -> Result<Decision, ClientUnknown> {
        match (&self.key, request.client().peer) {
            // Fast path for the most common key, whose bytes need not be written.
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

    /// Counts the request and, if enabled, adds the fields to its reply.
    ///
    /// # Errors
    /// The argument of [`Self::refuse`], if the request exceeds the quota or cannot be counted.
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

    /// Not inlined, so that it costs nothing when the fields are disabled.
    #[inline(never)]
    fn fields(&self, decision: &Decision) -> LimitFields {
        decision.fields(self.limiter.quota())
    }

    /// Writes the reply to a request that exceeds the quota or cannot be counted.
    #[cold]
    pub fn refuse<'a>(
        &self,
        checked: Result<Decision, ClientUnknown>,
        mut reply: Responder<'a>,
    ) -> Replied<'a> {
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
    ) -> Result<Responder<'a>, Replied<'a>> {
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
        answer: impl FnOnce(&Request<'_>, Responder<'a>) -> Replied<'a>,
    ) -> Replied<'a> {
        match self.ask(request, &mut reply) {
            Ok(()) => answer(request, reply),
            Err(checked) => self.refuse(checked, reply),
        }
    }
}
