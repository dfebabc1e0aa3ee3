//! The services in front of a program: what a ring thread answers, and that everything else is handed over.
//!
//! Does not know about: connections, the runtime.

use doorbell::http::{Client, RequestError};
use doorbell::time::Time;
use doorbell::{Answered, Begun, Handler, Method, Request, Responder, StaticReply, Status};

use crate::health::Health;

/// Answers `/livez`, `/readyz`, `/startupz` and `/healthz` (as `/livez`) from a [`Health`]; everything else is another service's.
///
/// 200 with `ok`, or 503 with the word for why not, to GET, HEAD and OPTIONS.
#[derive(Debug)]
pub struct Probes<S = Rest> {
    health: Health,
    replies: Replies,
    inner: S,
}

/// Hands everything over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rest;

/// Answers what is its own by one service and hands everything else over, requests with bodies and other protocols included.
#[derive(Clone, Debug)]
pub struct Front<F, S> {
    is_ours: F,
    service: S,
}

#[derive(Debug)]
struct Replies {
    draining: StaticReply,
    ok: StaticReply,
    not_ready: StaticReply,
    not_started: StaticReply,
    down: StaticReply,
    stalled: StaticReply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Live,
    Ready,
    Started,
}

impl Probes {
    /// Probes of `health`; everything else is handed over.
    pub fn new(health: &Health) -> Self {
        Self { health: health.clone(), replies: Replies::new(), inner: Rest }
    }
}

impl<S> Probes<S> {
    /// Asks `inner` for everything that is no probe.
    pub fn before<T: Handler>(self, inner: T) -> Probes<T> {
        Probes { health: self.health, replies: self.replies, inner }
    }

    fn reply(&self, probe: Probe, now: Time) -> &StaticReply {
        let (health, replies) = (&self.health, &self.replies);
        if health.is_stalled(now) {
            return &replies.stalled;
        }
        match probe {
            Probe::Live if health.is_live(now) => &replies.ok,
            Probe::Live => &replies.down,
            Probe::Ready if health.is_ready(now) => &replies.ok,
            Probe::Ready if health.is_draining() => &replies.draining,
            Probe::Ready => &replies.not_ready,
            Probe::Started if health.is_started() => &replies.ok,
            Probe::Started => &replies.not_started,
        }
    }
}

fn probe_of(path: &str) -> Option<Probe> {
    match path {
        "/healthz" | "/livez" => Some(Probe::Live),
        "/readyz" => Some(Probe::Ready),
        "/startupz" => Some(Probe::Started),
        _ => None,
    }
}

impl<S: Handler> Handler for Probes<S> {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        probe_of(head.path()).is_none() && self.inner.wants_body(head)
    }

    fn wants_client(&self) -> bool {
        self.inner.wants_client()
    }

    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        self.inner.refused(error, client, now);
    }

    fn hands_over(&self, begun: Begun<'_>) -> bool {
        match begun {
            Begun::Body(head) if probe_of(head.path()).is_some() => false,
            begun => self.inner.hands_over(begun),
        }
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        let Some(probe) = probe_of(request.path()) else {
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
    /// `service` answers those requests of which `is_ours` says so. It is asked about the head alone.
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
        let reply = |status, word: &str| {
            StaticReply::text(status, format!("{word}\n"))
                .header("Cache-Control", "no-store")
                .expect("a valid field")
        };
        let unavailable = Status::SERVICE_UNAVAILABLE;
        Self {
            down: reply(unavailable, "down"),
            draining: reply(unavailable, "draining"),
            not_ready: reply(unavailable, "not ready"),
            not_started: reply(unavailable, "starting"),
            ok: reply(Status::OK, "ok"),
            stalled: reply(unavailable, "stalled"),
        }
    }
}
