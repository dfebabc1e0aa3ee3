//! The interface of the services behind a listener.
//!
//! Does not know about: connections. A service that cannot reply at once uses [`Responder::later`];
//! one that must not, [`Responder::hand_over`].

use std::fmt;

use crate::{Answered, Client, Peer, Request, RequestError, Responder, Time};

/// The start of a message that cannot be passed to [`Service::call`] unchanged or without losing
/// bytes.
#[derive(Clone, Copy, Debug)]
pub enum Begun<'a> {
    /// A request whose body follows. It can only be handed over before its body is read.
    Body(&'a Request<'a>),
    /// HTTP/2 with prior knowledge (RFC 9113 3.3).
    Http2,
    /// A first line without any element of HTTP/1: an unknown method and no version 1. If HTTP/2 is
    /// supported too, it can only be a malformed preface (RFC 9113 3.4), to which a reply in
    /// HTTP/1.1 would be meaningless.
    NotHttp1,
    /// An unexpected TLS handshake.
    Tls,
    /// A well-formed request with an unsupported method, expectation or transfer coding.
    Unknown(RequestError),
}

/// Replies to requests.
///
/// Called once for each complete request, in the order of the connection.
///
/// A service around another one must forward what that wants: each method below has a default, and
/// a service that omits [`Self::wants_body`] or [`Self::wants_client`] withholds bodies and
/// addresses from the inner one. The services of this crate then reply with a 500, which is counted
/// ([`ApiMisuse`](crate::ApiMisuse)); a limit by address never treats all clients as one. The
/// services in [`crate::layer`] forward everything.
#[diagnostic::on_unimplemented(note = "a function or closure becomes a service with `service_fn`")]
pub trait Service {
    /// Whether the body of this request is collected and passed to [`Service::call`]. Called once,
    /// when the head of a request with a body is complete. If not, the body is skipped, and a
    /// client that waits for `100 Continue` gets the final reply at once.
    fn wants_body(&self, _head: &Request<'_>) -> bool {
        false
    }

    /// Whether [`Request::client`] must contain the address. It costs a system call per connection,
    /// so return true only if it is used.
    fn wants_client(&self) -> bool {
        false
    }

    /// Whether [`Service::call`] also gets TRACE, so that it is counted, logged and refused like
    /// any method without a route. If not, the machine itself replies with a 405. Neither echoes
    /// the request: fields added by proxies must not be disclosed (RFC 9110 9.3.8).
    fn takes_trace(&self) -> bool {
        false
    }

    /// Called after a request that could not be parsed got this error as its reply; there is no
    /// other notification.
    fn refused(&self, _error: RequestError, _client: &Client<'_>, _now: Time) {}

    /// Whether to hand over the connection with this as its first bytes: like
    /// [`Responder::hand_over`], for messages that are not passed to [`Self::call`]. Not called for
    /// requests without a body.
    fn hands_over(&self, _begun: Begun<'_>) -> bool {
        false
    }

    /// Replies to one request.
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a>;
}

/// Turns a function into a service.
///
/// The closure's arguments need no types.
///
/// Not for functions that pass requests on: an inner service may want bodies or the address of the
/// client, and the function does not forward that. Use
/// [`ServiceExt::behind`](crate::layer::ServiceExt::behind) instead.
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

/// A function as a service, built by [`service_fn`].
///
/// The properties are part of the type, so that a call need not look them up.
#[derive(Clone, Copy)]
pub struct ServiceFn<F, const BODY: bool = false, const CLIENT: bool = false> {
    f: F,
}

impl<F, const BODY: bool, const CLIENT: bool> ServiceFn<F, BODY, CLIENT> {
    /// Passes bodies to the function: [`Service::wants_body`]. If a service around it does not
    /// forward that, requests that announce the length of a body get a 500
    /// ([`ApiMisuse::BodySkipped`](crate::ApiMisuse::BodySkipped)).
    #[must_use]
    pub fn with_body(self) -> ServiceFn<F, true, CLIENT> {
        ServiceFn { f: self.f }
    }

    /// Passes the address of the client to the function: [`Service::wants_client`]. If a service
    /// around it does not forward that, requests get a 500
    /// ([`ApiMisuse::ClientUnknown`](crate::ApiMisuse::ClientUnknown)).
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
