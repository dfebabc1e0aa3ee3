//! Services in front of a program, usually on ring threads: probes and selected requests. All other
//! requests are handed over.

use doorbell::{Handler, MessageStart, Replied, Request, Responder};

use crate::health::Health;

/// Serves probes of a [`Health`] from pre-rendered replies and passes all other requests to the
/// inner service.
///
/// It serves only connections that were not handed over. Probes that follow a request for the
/// program on a kept connection, and probes over HTTP/2, reach the program: there,
/// `Health::routes`, `Health::layer` or `Health::service` serves them.
#[derive(Debug)]
pub struct Probes<S = HandOverAll> {
    health: Health,
    inner: S,
}

/// Hands all requests over, except TRACE without a body, which gets a 405.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandOverAll;

/// Serves selected requests with one service and hands over all others, including requests with
/// bodies and those of other protocols.
#[derive(Clone, Debug)]
pub struct Front<F, S> {
    is_ours: F,
    service: S,
}

impl Probes {
    /// Serves the probes of `health` and hands over everything else. Until a server uses the health
    /// ([`Embed::health`](crate::Embed::health)), `/livez` and `/readyz` get a 503, because a stuck
    /// runtime could not be detected, unless `health` was built with
    /// [`without_heartbeat`](crate::HealthBuilder::without_heartbeat).
    pub fn new(health: &Health) -> Self {
        health.serve_on_ring();
        Self { health: health.clone(), inner: HandOverAll }
    }
}

impl<S> Probes<S> {
    /// Passes requests that are not probes to `inner`.
    pub fn before<T: Handler>(self, inner: T) -> Probes<T> {
        Probes { health: self.health, inner }
    }
}

impl<S: Handler> Handler for Probes<S> {
    fn inner(&self) -> Option<&dyn Handler> {
        Some(&self.inner)
    }

    fn wants_body(&self, head: &Request<'_>) -> bool {
        self.health.probe_routes().find(head.path()).is_none() && self.inner.wants_body(head)
    }

    fn hands_over(&self, start: MessageStart<'_>) -> bool {
        match start {
            MessageStart::Body(head) if self.health.probe_routes().find(head.path()).is_some() => false,
            start => self.inner.hands_over(start),
        }
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match self.health.probe_routes().find(request.path()) {
            Some(probed) => probed.send(request, reply),
            None => self.inner.call(request, reply),
        }
    }
}

impl Handler for HandOverAll {
    fn hands_over(&self, _start: MessageStart<'_>) -> bool {
        true
    }

    fn call<'a>(&self, _request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        reply.hand_over()
    }
}

impl<F: Fn(&Request<'_>) -> bool, S: Handler> Front<F, S> {
    /// Uses `service` for requests for which `is_ours` returns true. `is_ours` sees only the head
    /// of a request.
    pub const fn new(is_ours: F, service: S) -> Self {
        Self { is_ours, service }
    }
}

impl<F: Fn(&Request<'_>) -> bool, S: Handler> Handler for Front<F, S> {
    fn inner(&self) -> Option<&dyn Handler> {
        Some(&self.service)
    }

    fn hands_over(&self, start: MessageStart<'_>) -> bool {
        match start {
            MessageStart::Body(head) => !(self.is_ours)(head) || self.service.hands_over(start),
            _ => true,
        }
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if (self.is_ours)(request) { self.service.call(request, reply) } else { reply.hand_over() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell::http::redirect::{Redirect, Scheme};
    use doorbell::http::routes::Routes;

    #[test]
    fn a_route_without_a_parameter_of_its_redirect_is_refused() {
        let moved =
            || Redirect::to(Scheme::Https).canonical_host("a.example").path("/new/{rest}").build().unwrap();
        let health = Health::builder().without_heartbeat().build().unwrap();
        let front = Routes::builder().any("/old", Front::new(|_: &Request<'_>| true, moved()));
        assert!(front.build().is_err());
        assert!(Routes::builder().any("/old", Probes::new(&health).before(moved())).build().is_err());
    }
}
