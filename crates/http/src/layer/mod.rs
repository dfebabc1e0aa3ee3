//! Layers around a service, composed once at the start, so that a request needs no dynamic
//! dispatch.
//!
//! Does not know about: the decisions of layers, which are made by [`crate::auth`],
//! [`crate::limit`] and [`crate::log`].
//!
//! A [`Guard`] passes a request on or replies to it, which suffices for most layers. A [`Layer`]
//! wraps the service and also sees the reply. The layer that was added last sees a request first.
//!
//! ```
//! use doorbell_http::layer::{Guard, ServiceExt};
//! use doorbell_http::{Replied, Request, Responder, Status, StaticReply, service_fn};
//!
//! /// Only clients that send a user agent.
//! struct NamedOnly(StaticReply);
//!
//! impl Guard for NamedOnly {
//!     fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>> {
//!         match request.header("user-agent") {
//!             Some(_) => Ok(reply.header("Vary", "User-Agent")),
//!             None => Err(reply.send(&self.0)),
//!         }
//!     }
//! }
//!
//! let alive = StaticReply::text(Status::OK, "ok\n");
//! let service = service_fn(move |_, reply| reply.send(&alive));
//! let service = service.guarded(NamedOnly(StaticReply::text(Status::FORBIDDEN, "no user agent\n")));
//! # let _: Box<dyn doorbell_http::Service> = Box::new(service);
//! ```

mod auth;
mod client_cert;
mod concurrency;
mod rate_limit;

pub use auth::RequireAuth;
pub use client_cert::RequireClientCert;
pub use concurrency::{Admission, AtMost, AtMostService};
pub use rate_limit::{ClientUnknown, RateLimit};

use crate::request::Found;
use crate::{Replied, Request, Responder, Service};
use std::fmt;

/// Wraps a service in another service.
pub trait Layer<S: Service> {
    /// The resulting service.
    type Service: Service;

    /// Wraps `inner`.
    fn layer(self, inner: S) -> Self::Service;
}

/// Passes requests on, or replies to them.
pub trait Guard {
    /// Whether the guard reads [`Request::client`].
    fn wants_client(&self) -> bool {
        false
    }

    /// Passes the request by returning the responder, or replies with the responder. The guard may
    /// add fields to a responder that it returns.
    ///
    /// # Errors
    /// The reply to a request that is not passed on.
    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>>;

    /// Calls `answer` if the request passes [`Self::admit`]. Override this method to pass on the
    /// identity of the admitted client ([`identified`]), or for performance: an override that
    /// passes the responder on directly avoids moving it.
    fn around<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        answer: impl FnOnce(&Request<'_>, Responder<'a>) -> Replied<'a>,
    ) -> Replied<'a>
    where
        Self: Sized,
    {
        match self.admit(request, reply) {
            Ok(reply) => answer(request, reply),
            Err(answered) => answered,
        }
    }
}

/// Calls `answer` with the request, whose [`identity`](Request::identity) is then the name of the
/// client that a guard has admitted. For [`Guard::around`].
#[inline]
pub fn identified<'a>(
    request: &Request<'_>,
    identity: &str,
    reply: Responder<'a>,
    answer: impl FnOnce(&Request<'_>, Responder<'a>) -> Replied<'a>,
) -> Replied<'a> {
    let found = Found { identity: Some(identity), ..request.found() };
    answer(&request.with_found(&found), reply)
}

/// A service behind a guard.
///
/// No request bypasses the guard. [`Service::hands_over`] cannot consult it and therefore always
/// returns false, so other protocols and unknown methods are refused. The service itself can hand
/// over requests, but requests with bodies only if
/// [`Limits::answer_before_body`](crate::Limits::answer_before_body) is set.
#[derive(Clone, Debug)]
pub struct Guarded<G, S> {
    guard: G,
    inner: S,
}

impl<G: Guard, S: Service> Service for Guarded<G, S> {
    fn inner(&self) -> Option<&dyn Service> {
        Some(&self.inner)
    }

    fn wants_client(&self) -> bool {
        self.guard.wants_client() || self.inner.wants_client()
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        self.guard.around(request, reply, |request, reply| self.inner.call(request, reply))
    }
}

/// A service behind a function that can reply, change the reply, or pass the request on.
///
/// [`Service::wants_body`] and the like are forwarded to the service. As with [`Guarded`], the
/// service can hand over a request only after the function has passed the request on.
#[derive(Clone)]
pub struct Behind<F, S> {
    f: F,
    inner: S,
}

impl<F, S: Service> Service for Behind<F, S>
where
    F: for<'a> Fn(&S, &Request<'_>, Responder<'a>) -> Replied<'a>,
{
    fn inner(&self) -> Option<&dyn Service> {
        Some(&self.inner)
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        (self.f)(&self.inner, request, reply)
    }
}

impl<F, S: fmt::Debug> fmt::Debug for Behind<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Behind").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Two guards, of which the first is consulted first.
impl<A: Guard, B: Guard> Guard for (A, B) {
    fn wants_client(&self) -> bool {
        self.0.wants_client() || self.1.wants_client()
    }

    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>> {
        self.1.admit(request, self.0.admit(request, reply)?)
    }

    #[inline]
    fn around<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        answer: impl FnOnce(&Request<'_>, Responder<'a>) -> Replied<'a>,
    ) -> Replied<'a> {
        self.0.around(request, reply, |request, reply| self.1.around(request, reply, answer))
    }
}

/// An optional guard; without a guard every request passes.
impl<G: Guard> Guard for Option<G> {
    fn wants_client(&self) -> bool {
        self.as_ref().is_some_and(Guard::wants_client)
    }

    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>> {
        match self {
            Some(guard) => guard.admit(request, reply),
            None => Ok(reply),
        }
    }

    #[inline]
    fn around<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        answer: impl FnOnce(&Request<'_>, Responder<'a>) -> Replied<'a>,
    ) -> Replied<'a> {
        match self {
            Some(guard) => guard.around(request, reply, answer),
            None => answer(request, reply),
        }
    }
}

/// Methods that add layers and guards to a service.
pub trait ServiceExt: Service + Sized {
    /// Wraps this service in `layer`.
    fn with<L: Layer<Self>>(self, layer: L) -> L::Service {
        layer.layer(self)
    }

    /// Puts this service behind `guard`.
    fn guarded<G: Guard>(self, guard: G) -> Guarded<G, Self> {
        Guarded { guard, inner: self }
    }

    /// Puts this service behind a function, which can pass requests on to it. A service made by
    /// [`crate::service_fn`] that calls another service does not forward that service's needs for
    /// bodies and for the client's address.
    ///
    /// ```
    /// use doorbell_http::layer::ServiceExt;
    /// use doorbell_http::{Service, Status, service_fn};
    ///
    /// let echo = service_fn(|request, reply| reply.status(Status::OK).text(request.body())).with_body();
    /// let service = echo.behind(|echo, request, reply| match request.path() {
    ///     "/echo" => echo.call(request, reply),
    ///     _ => reply.status(Status::NOT_FOUND).empty(),
    /// });
    /// # let _: &dyn Service = &service;
    /// ```
    fn behind<F>(self, f: F) -> Behind<F, Self>
    where
        F: for<'a> Fn(&Self, &Request<'_>, Responder<'a>) -> Replied<'a>,
    {
        Behind { f, inner: self }
    }
}

impl<S: Service> ServiceExt for S {}

#[cfg(test)]
mod tests;
