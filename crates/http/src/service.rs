//! The seam to what stands behind a listener.
//!
//! Does not know about: connections. A service that cannot answer at once uses [`Responder::later`].

use crate::{Answered, Client, Request, RequestError, Responder, Time};

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

    /// A request that could not be read was answered with this error: nobody else hears of it.
    fn refused(&self, _error: RequestError, _client: &Client<'_>, _now: Time) {}

    /// Answers one request.
    fn call(&self, request: &Request<'_>, reply: Responder<'_>) -> Answered;
}

impl<F: Fn(&Request<'_>, Responder<'_>) -> Answered> Service for F {
    fn call(&self, request: &Request<'_>, reply: Responder<'_>) -> Answered {
        self(request, reply)
    }
}
