//! The seam to what stands behind a listener.
//!
//! Does not know about: connections. A service that cannot answer at once uses [`Responder::later`]; one that shall not,
//! [`Responder::hand_over`].

use std::fmt;

use crate::{Answered, Client, Peer, Request, RequestError, Responder, Time};

/// What begins on a connection that cannot be given to [`Service::call`] as it is, or not without losing bytes of it.
#[derive(Clone, Copy, Debug)]
pub enum Begun<'a> {
    /// A request whose body follows. To be read by somebody else it must not be read here.
    Body(&'a Request<'a>),
    /// HTTP/2 with prior knowledge (RFC 9113 3.3).
    Http2,
    /// A first line in which nothing is of HTTP/1: a method that nobody knows and no version 1. Where HTTP/2 is spoken too it can only be
    /// a preface gone wrong (RFC 9113 3.4), to which a reply of HTTP/1.1 would be noise.
    NotHttp1,
    /// A TLS handshake, where none is expected.
    Tls,
    /// A well-formed request that needs something this machine has not: a method, an expectation, a transfer coding.
    Unknown(RequestError),
}

/// Answers requests. Called once for each complete request, in the order of the connection.
///
/// A service around another one forwards what that wants: each method below has a default, and a service that leaves [`Self::wants_body`]
/// or [`Self::wants_client`] out keeps bodies and addresses from the one inside. Those of this crate then answer a 500 that is counted
/// ([`ApiMisuse`](crate::ApiMisuse)); no limit by address takes all clients for one. [`crate::layer`] has services that forward everything.
#[diagnostic::on_unimplemented(note = "a function or closure becomes a service with `service_fn`")]
pub trait Service {
    /// Whether the body of this request is collected and given to [`Service::call`]. Asked once, when the head of a
    /// request with a body is complete. If not, the body is skipped, and a client that waits for `100 Continue`
    /// gets the final reply at once.
    fn wants_body(&self, _head: &Request<'_>) -> bool {
        false
    }

    /// Whether [`Request::client`] shall tell the address. It costs a system call a connection, so ask only where it is used.
    fn wants_client(&self) -> bool {
        false
    }

    /// Whether [`Service::call`] gets TRACE too, so that it is counted, logged and refused like any method that a path does not take. If not,
    /// the machine answers 405 by itself. Neither echoes: what proxies added is for nobody (RFC 9110 9.3.8).
    fn takes_trace(&self) -> bool {
        false
    }

    /// A request that could not be read was answered with this error: nobody else hears of it.
    fn refused(&self, _error: RequestError, _client: &Client<'_>, _now: Time) {}

    /// Whether the connection is to be handed over with this as its first bytes: as [`Responder::hand_over`], for what cannot be
    /// asked there. Not asked for requests without a body.
    fn hands_over(&self, _begun: Begun<'_>) -> bool {
        false
    }

    /// Answers one request.
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a>;
}

/// A function as a service. The closure's arguments need no types.
///
/// It is not for functions that pass requests on: a service that is called inside wants bodies or the address of the client, and nothing
/// forwards that. [`ServiceExt::behind`](crate::layer::ServiceExt::behind) is for those.
///
/// ```
/// use doorbell_http::{StaticReply, Status, service_fn};
///
/// let alive = StaticReply::text(Status::OK, "ok\n");
/// let service = service_fn(move |_request, reply| reply.send(&alive));
/// # let _: &dyn doorbell_http::Service = &service;
/// ```
pub const fn service_fn<F>(f: F) -> ServiceFn<F>
where
    F: for<'a> Fn(&Request<'_>, Responder<'a>) -> Answered<'a>,
{
    ServiceFn { f }
}

/// See [`service_fn`]. Whether it wants bodies and clients is a part of its type, so that a call has nothing to look up.
#[derive(Clone, Copy)]
pub struct ServiceFn<F, const BODY: bool = false, const CLIENT: bool = false> {
    f: F,
}

impl<F, const BODY: bool, const CLIENT: bool> ServiceFn<F, BODY, CLIENT> {
    /// The function gets bodies: [`Service::wants_body`]. Where a service around it does not forward that, requests that announce the length
    /// of a body get a 500 ([`ApiMisuse::BodySkipped`](crate::ApiMisuse::BodySkipped)).
    #[must_use]
    pub fn with_body(self) -> ServiceFn<F, true, CLIENT> {
        ServiceFn { f: self.f }
    }

    /// The function gets the address of the client: [`Service::wants_client`]. Where a service around it does not forward that, requests
    /// get a 500 ([`ApiMisuse::ClientUnknown`](crate::ApiMisuse::ClientUnknown)).
    #[must_use]
    pub fn with_client(self) -> ServiceFn<F, BODY, true> {
        ServiceFn { f: self.f }
    }
}

impl<F, const BODY: bool, const CLIENT: bool> Service for ServiceFn<F, BODY, CLIENT>
where
    F: for<'a> Fn(&Request<'_>, Responder<'a>) -> Answered<'a>,
{
    fn wants_body(&self, _head: &Request<'_>) -> bool {
        BODY
    }

    fn wants_client(&self) -> bool {
        CLIENT
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        if BODY && request.is_body_skipped() {
            return reply.refuse_skipped_body();
        }
        if CLIENT && request.client().peer == Peer::Unknown {
            return reply.refuse_unknown_client();
        }
        (self.f)(request, reply)
    }
}

impl<F, const BODY: bool, const CLIENT: bool> fmt::Debug for ServiceFn<F, BODY, CLIENT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceFn")
            .field("wants_body", &BODY)
            .field("wants_client", &CLIENT)
            .finish_non_exhaustive()
    }
}
