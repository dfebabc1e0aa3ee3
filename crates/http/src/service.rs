//! The interface of services behind a listener.
//!
//! A service that cannot reply immediately uses [`Responder::later`]; a service that leaves the
//! connection to another receiver uses [`Responder::hand_over`].

use std::fmt;

use crate::{Client, Peer, Replied, Request, RequestError, Responder, Time};

/// The start of a message that cannot be passed to [`Service::call`] without being changed or
/// losing bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum MessageStart<'a> {
    /// A request whose body follows. It can be handed over only before its body is read.
    Body(&'a Request<'a>),
    /// HTTP/2 with prior knowledge (RFC 9113 3.3).
    Http2,
    /// A first line without any element of HTTP/1: the method is unknown, and the version is not 1.
    /// If HTTP/2 is supported, the line is a malformed preface (RFC 9113 3.4), and its sender would
    /// not understand a reply in HTTP/1.1.
    NotHttp1,
    /// An unexpected TLS handshake.
    Tls,
    /// A well-formed request with an unsupported method, expectation or transfer coding.
    Unknown(RequestError),
}

/// A service, which replies to requests.
///
/// [`Self::call`] is called once for each complete request, in the order in which the requests of a
/// connection arrive, except for [repeated requests](Self::repeats).
///
/// A service around another one must return it from [`Self::inner`], which forwards the inner
/// service's needs. A service that omits this withholds bodies and addresses from the inner
/// service. The services of this crate then reply with a 500, which is counted
/// ([`ApiMisuse`](crate::ApiMisuse)); a limit by address never treats all clients as one. The
/// services in [`crate::layer`] forward these needs, as do `&S`, `Arc<S>` and `Box<S>`, even if `S`
/// is `dyn Service`.
#[diagnostic::on_unimplemented(note = "a function or closure becomes a service with `service_fn`")]
pub trait Service {
    /// The service to which this one passes requests, if there is one. By default
    /// [`Self::wants_body`], [`Self::wants_client`], [`Self::takes_trace`], [`Self::refused`] and
    /// [`Self::missing_param`] are forwarded to it. [`Self::hands_over`] and [`Self::repeats`] are
    /// not, because they would bypass this service.
    fn inner(&self) -> Option<&dyn Service> {
        None
    }

    /// Whether the body of this request is collected and passed to [`Service::call`]. Called once,
    /// when the head of a request with a body is complete. If the result is false, the body is
    /// skipped, and a client that waits for `100 Continue` gets the final reply immediately.
    fn wants_body(&self, head: &Request<'_>) -> bool {
        self.inner().is_some_and(|inner| inner.wants_body(head))
    }

    /// Whether [`Request::client`] must contain the address. The address costs a system call per
    /// connection, so return true only if it is used.
    fn wants_client(&self) -> bool {
        self.inner().is_some_and(|inner| inner.wants_client())
    }

    /// Whether [`Service::call`] also gets TRACE, so that it is counted, logged and refused like
    /// any method without a route. If false, the state machine itself replies with a 405. The
    /// request is never echoed, because fields added by proxies must not be disclosed (RFC 9110
    /// 9.3.8).
    fn takes_trace(&self) -> bool {
        self.inner().is_some_and(|inner| inner.takes_trace())
    }

    /// Called after the state machine has refused a request that could not be parsed. There is no
    /// other notification.
    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        if let Some(inner) = self.inner() {
            inner.refused(error, client, now);
        }
    }

    /// Whether to hand over the connection, beginning with this message: a request before its body
    /// is read, or a message that cannot be passed to [`Self::call`]. Not called for a supported
    /// request without a body; see [`Responder::hand_over`].
    fn hands_over(&self, _start: MessageStart<'_>) -> bool {
        false
    }

    /// Returns a parameter of the path that the service needs, if it is not one of `known`.
    /// [`RoutesBuilder::build`](crate::routes::RoutesBuilder::build) refuses a route whose path
    /// lacks a parameter of its service. Default: the service needs no parameters.
    fn missing_param(&self, known: &[&str]) -> Option<&str> {
        self.inner()?.missing_param(known)
    }

    /// Replies to one request.
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a>;

    /// Whether the reply that was just given to this request is also the reply to the next `count`
    /// requests, which have the same bytes and arrived together with it. If so, the service counts
    /// them here, and is not called for them: the state machine repeats the reply.
    ///
    /// The default is false. A service around another one should forward this call only if it
    /// neither limits, logs nor changes requests.
    fn repeats(&self, _request: &Request<'_>, _count: u32) -> bool {
        false
    }
}

/// Turns a function into a service.
///
/// The closure's arguments need no types.
///
/// Do not use it for functions that pass requests on: an inner service may want bodies or the
/// client's address, and the function does not forward these needs. Use
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
    F: for<'a> Fn(&Request<'_>, Responder<'a>) -> Replied<'a>,
{
    ServiceFn { f }
}

/// A function as a service, built by [`service_fn`].
///
/// Its needs for bodies and addresses are part of the type, so that they cost nothing at run time.
#[derive(Clone, Copy)]
pub struct ServiceFn<F, const BODY: bool = false, const CLIENT: bool = false, const REPEATS: bool = false> {
    f: F,
}

impl<F, const BODY: bool, const CLIENT: bool, const REPEATS: bool> ServiceFn<F, BODY, CLIENT, REPEATS> {
    /// Passes bodies to the function: [`Service::wants_body`]. If a service around it does not
    /// forward this need, requests that announce the length of a body get a 500
    /// ([`ApiMisuse::BodySkipped`](crate::ApiMisuse::BodySkipped)).
    #[must_use]
    pub fn with_body(self) -> ServiceFn<F, true, CLIENT, REPEATS> {
        ServiceFn { f: self.f }
    }

    /// Passes the client's address to the function: [`Service::wants_client`]. If a service around
    /// it does not forward this need, requests get a 500
    /// ([`ApiMisuse::ClientUnknown`](crate::ApiMisuse::ClientUnknown)).
    #[must_use]
    pub fn with_client(self) -> ServiceFn<F, BODY, true, REPEATS> {
        ServiceFn { f: self.f }
    }

    /// Lets one call of the function answer equal requests that arrive together:
    /// [`Service::repeats`]. For functions that reply to equal requests alike and do not count
    /// them.
    #[must_use]
    pub fn repeatable(self) -> ServiceFn<F, BODY, CLIENT, true> {
        ServiceFn { f: self.f }
    }
}

impl<F, const BODY: bool, const CLIENT: bool, const REPEATS: bool> Service
    for ServiceFn<F, BODY, CLIENT, REPEATS>
where
    F: for<'a> Fn(&Request<'_>, Responder<'a>) -> Replied<'a>,
{
    fn wants_body(&self, _head: &Request<'_>) -> bool {
        BODY
    }

    fn wants_client(&self) -> bool {
        CLIENT
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if BODY && request.is_body_skipped() {
            return reply.refuse_skipped_body();
        }
        if CLIENT && request.client().peer == Peer::Unknown {
            return reply.refuse_unknown_client();
        }
        (self.f)(request, reply)
    }

    fn repeats(&self, _request: &Request<'_>, _count: u32) -> bool {
        REPEATS
    }
}

impl<F, const BODY: bool, const CLIENT: bool, const REPEATS: bool> fmt::Debug
    for ServiceFn<F, BODY, CLIENT, REPEATS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceFn")
            .field("wants_body", &BODY)
            .field("wants_client", &CLIENT)
            .field("repeats", &REPEATS)
            .finish_non_exhaustive()
    }
}
