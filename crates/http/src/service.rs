//! The seam to what stands behind a listener.
//!
//! Does not know about: connections. A service that cannot answer at once uses [`Responder::later`]; one that shall not,
//! [`Responder::hand_over`].

use crate::{Answered, Client, Request, RequestError, Responder, Time};

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
    fn call(&self, request: &Request<'_>, reply: Responder<'_>) -> Answered;
}

impl<F: Fn(&Request<'_>, Responder<'_>) -> Answered> Service for F {
    fn call(&self, request: &Request<'_>, reply: Responder<'_>) -> Answered {
        self(request, reply)
    }
}
