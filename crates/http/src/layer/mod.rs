//! Layers: what happens around a service, composed once at the start, so that a request crosses no indirection.
//!
//! Does not know about: what a layer decides. What they decide by lives in [`crate::auth`], [`crate::limit`]
//! and [`crate::log`].
//!
//! A [`Guard`] lets a request through or answers it; that is all that most layers do. A [`Layer`] wraps the service and sees the
//! answer too. The layer added last is the first to see a request.
//!
//! ```
//! use doorbell_http::layer::{Guard, ServiceExt};
//! use doorbell_http::{Answered, Request, Responder, Status, StaticReply, service_fn};
//!
//! /// Only clients that say who they are.
//! struct NamedOnly(StaticReply);
//!
//! impl Guard for NamedOnly {
//!     fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Answered<'a>> {
//!         match request.header("user-agent") {
//!             Some(_) => Ok(reply.header("Vary", "User-Agent")),
//!             None => Err(reply.send(&self.0)),
//!         }
//!     }
//! }
//!
//! let alive = StaticReply::text(Status::OK, "ok\n");
//! let service = service_fn(move |_, reply| reply.send(&alive));
//! let service = service.guarded(NamedOnly(StaticReply::text(Status::FORBIDDEN, "who is there?\n")));
//! # let _: Box<dyn doorbell_http::Service> = Box::new(service);
//! ```

mod auth;
mod client_cert;
mod concurrency;
mod rate_limit;

pub use auth::RequireAuth;
pub use client_cert::RequireClientCert;
pub use concurrency::{AtMost, AtMostService, Place};
pub use rate_limit::{ClientUnknown, RateLimit};

use crate::{Answered, Client, Request, RequestError, Responder, Service, Time};
use std::fmt;

/// Turns a service into another one around it.
pub trait Layer<S: Service> {
    /// What it makes.
    type Service: Service;

    /// Wraps `inner`.
    fn layer(self, inner: S) -> Self::Service;
}

/// Lets requests through, or answers them.
pub trait Guard {
    /// Whether it looks at [`Request::client`].
    fn wants_client(&self) -> bool {
        false
    }

    /// Gives the chance to answer back, perhaps with a field added, or uses it.
    ///
    /// # Errors
    /// The answer, when the request does not get through.
    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Answered<'a>>;

    /// Has the request answered behind the guard if it gets through: [`Self::admit`] with what follows it. Only worth an implementation of
    /// its own where the two differ in cost: a chance to answer that is passed on needs no move.
    fn around<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        answer: impl FnOnce(Responder<'a>) -> Answered<'a>,
    ) -> Answered<'a>
    where
        Self: Sized,
    {
        match self.admit(request, reply) {
            Ok(reply) => answer(reply),
            Err(answered) => answered,
        }
    }
}

/// A service behind a guard. Nothing passes the guard unseen: where it cannot be asked ([`Service::hands_over`]) the answer is no. So the
/// service hands over requests, those with bodies only where [`Limits::answer_before_body`](crate::Limits::answer_before_body) is set;
/// other protocols and methods that the parser does not know are refused.
#[derive(Clone, Debug)]
pub struct Guarded<G, S> {
    guard: G,
    inner: S,
}

impl<G: Guard, S: Service> Service for Guarded<G, S> {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        self.inner.wants_body(head)
    }

    fn wants_client(&self) -> bool {
        self.guard.wants_client() || self.inner.wants_client()
    }

    fn takes_trace(&self) -> bool {
        self.inner.takes_trace()
    }

    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        self.inner.refused(error, client, now);
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        self.guard.around(request, reply, |reply| self.inner.call(request, reply))
    }
}

/// A service behind a function that may reply, change the reply, or pass the request on. As behind a [`Guarded`] the service gets what it
/// wants to know of a request, and hands requests over only where the function is asked first.
#[derive(Clone)]
pub struct Behind<F, S> {
    f: F,
    inner: S,
}

impl<F, S: Service> Service for Behind<F, S>
where
    F: for<'a> Fn(&S, &Request<'_>, Responder<'a>) -> Answered<'a>,
{
    fn wants_body(&self, head: &Request<'_>) -> bool {
        self.inner.wants_body(head)
    }

    fn wants_client(&self) -> bool {
        self.inner.wants_client()
    }

    fn takes_trace(&self) -> bool {
        self.inner.takes_trace()
    }

    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        self.inner.refused(error, client, now);
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        (self.f)(&self.inner, request, reply)
    }
}

impl<F, S: fmt::Debug> fmt::Debug for Behind<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Behind").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Both, the left one first.
impl<A: Guard, B: Guard> Guard for (A, B) {
    fn wants_client(&self) -> bool {
        self.0.wants_client() || self.1.wants_client()
    }

    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Answered<'a>> {
        self.1.admit(request, self.0.admit(request, reply)?)
    }

    #[inline]
    fn around<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        answer: impl FnOnce(Responder<'a>) -> Answered<'a>,
    ) -> Answered<'a> {
        self.0.around(request, reply, |reply| self.1.around(request, reply, answer))
    }
}

/// The guard, if there is one.
impl<G: Guard> Guard for Option<G> {
    fn wants_client(&self) -> bool {
        self.as_ref().is_some_and(Guard::wants_client)
    }

    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Answered<'a>> {
        match self {
            Some(guard) => guard.admit(request, reply),
            None => Ok(reply),
        }
    }
}

/// Composition by method calls.
pub trait ServiceExt: Service + Sized {
    /// This service inside `layer`.
    fn with<L: Layer<Self>>(self, layer: L) -> L::Service {
        layer.layer(self)
    }

    /// This service behind `guard`.
    fn guarded<G: Guard>(self, guard: G) -> Guarded<G, Self> {
        Guarded { guard, inner: self }
    }

    /// This service behind a function, which gets it to pass requests on to. A function made with [`crate::service_fn`] that calls another
    /// service does not forward what that wants: bodies and the address of the client.
    ///
    /// ```
    /// use doorbell_http::layer::ServiceExt;
    /// use doorbell_http::{Service, Status, service_fn};
    ///
    /// let echo = service_fn(|request, reply| reply.status(Status::OK).body(request.body())).with_body();
    /// let service = echo.behind(|echo, request, reply| match request.path() {
    ///     "/echo" => echo.call(request, reply),
    ///     _ => reply.status(Status::NOT_FOUND).empty(),
    /// });
    /// # let _: &dyn Service = &service;
    /// ```
    fn behind<F>(self, f: F) -> Behind<F, Self>
    where
        F: for<'a> Fn(&Self, &Request<'_>, Responder<'a>) -> Answered<'a>,
    {
        Behind { f, inner: self }
    }
}

impl<S: Service> ServiceExt for S {}

#[cfg(test)]
mod tests;
