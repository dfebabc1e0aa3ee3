//! Services in front of a program: probes and other requests that ring threads serve; everything
//! else is handed over.
//!
//! Does not know about: connections, the runtime.

use doorbell::http::{Client, RequestError};
use doorbell::time::Time;
use doorbell::{Answered, Begun, Handler, Method, Request, Responder, StaticReply, Status};

use crate::health::Health;
use crate::verdict::{Probe, Verdict};

/// Serves probes from a [`Health`] and passes all other requests to the inner service.
///
/// The paths are `/livez`, `/readyz`, `/startupz` and `/healthz` (same as `/livez`).
///
/// GET, HEAD and OPTIONS get 200 with `ok`, or 503 with the reason ([`Verdict`]).
///
/// Only requests on connections that were not handed over are seen. The program itself serves
/// probes that follow one of its requests on a kept connection, and those over HTTP/2: put
/// `Health::layer` (feature `axum`) or [`Health::ask`] in front of it.
#[derive(Debug)]
pub struct Probes<S = Rest> {
    health: Health,
    replies: Replies,
    inner: S,
}

/// Hands all requests over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rest;

/// Serves selected requests with one service and hands over all others.
///
/// Requests with bodies and other protocols are handed over too.
#[derive(Clone, Debug)]
pub struct Front<F, S> {
    is_ours: F,
    service: S,
}

/// One reply per verdict, in their order.
#[derive(Debug)]
struct Replies([StaticReply; Verdict::ALL.len()]);

impl Probes {
    /// Serves the probes of `health` and hands over everything else.
    pub fn new(health: &Health) -> Self {
        Self { health: health.clone(), replies: Replies::new(), inner: Rest }
    }
}

impl<S> Probes<S> {
    /// Passes requests that are not probes to `inner`.
    pub fn before<T: Handler>(self, inner: T) -> Probes<T> {
        Probes { health: self.health, replies: self.replies, inner }
    }

    fn reply(&self, probe: Probe, now: Time) -> &StaticReply {
        &self.replies.0[self.health.verdict(probe, now) as usize]
    }
}

impl<S: Handler> Handler for Probes<S> {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        Probe::of(head.path()).is_none() && self.inner.wants_body(head)
    }

    fn wants_client(&self) -> bool {
        self.inner.wants_client()
    }

    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        self.inner.refused(error, client, now);
    }

    fn hands_over(&self, begun: Begun<'_>) -> bool {
        match begun {
            Begun::Body(head) if Probe::of(head.path()).is_some() => false,
            begun => self.inner.hands_over(begun),
        }
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        let Some(probe) = Probe::of(request.path()) else {
            return self.inner.call(request, reply);
        };
        match request.method() {
            Method::Get | Method::Head | Method::Options => reply.send(self.reply(probe, request.now())),
            _ => reply.method_not_allowed(b"GET, HEAD, OPTIONS"),
        }
    }
}

impl Handler for Rest {
    fn hands_over(&self, _begun: Begun<'_>) -> bool {
        true
    }

    fn call<'a>(&self, _request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        reply.hand_over()
    }
}

impl<F: Fn(&Request<'_>) -> bool, S: Handler> Front<F, S> {
    /// Serves requests for which `is_ours` returns true with `service`. Only the head of a request
    /// is available to `is_ours`.
    pub const fn new(is_ours: F, service: S) -> Self {
        Self { is_ours, service }
    }
}

impl<F: Fn(&Request<'_>) -> bool, S: Handler> Handler for Front<F, S> {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        self.service.wants_body(head)
    }

    fn wants_client(&self) -> bool {
        self.service.wants_client()
    }

    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        self.service.refused(error, client, now);
    }

    fn hands_over(&self, begun: Begun<'_>) -> bool {
        match begun {
            Begun::Body(head) => !(self.is_ours)(head) || self.service.hands_over(begun),
            Begun::Http2 | Begun::NotHttp1 | Begun::Tls | Begun::Unknown(_) => true,
        }
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        if (self.is_ours)(request) { self.service.call(request, reply) } else { reply.hand_over() }
    }
}

impl Replies {
    fn new() -> Self {
        Self(Verdict::ALL.map(|verdict| {
            let status = if verdict == Verdict::Ok { Status::OK } else { Status::SERVICE_UNAVAILABLE };
            StaticReply::text(status, verdict.body())
                .header("Cache-Control", "no-store")
                .expect("a valid field")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_has_its_own_reply() {
        for (at, verdict) in Verdict::ALL.into_iter().enumerate() {
            assert_eq!((verdict as usize, verdict.status() == 200), (at, verdict == Verdict::Ok));
        }
    }
}
