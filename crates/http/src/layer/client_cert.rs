//! The guard that lets only clients in whose certificate was verified.
//!
//! Does not know about: TLS. It reads what the handshake told.

use super::Guard;
use crate::{Answered, Request, Responder, StaticReply, Status};

/// Lets requests through that came with a verified certificate, of any name or of one of a list. Others get 403: they cannot be asked
/// again on this connection.
#[derive(Clone, Debug)]
pub struct RequireClientCert {
    /// Empty: any.
    names: Vec<String>,
    refusal: StaticReply,
}

impl RequireClientCert {
    /// Any certificate that the listener's CA vouches for, with or without a name.
    pub fn any() -> Self {
        Self::named(Vec::new())
    }

    /// Only certificates with one of these names.
    pub fn named(names: Vec<String>) -> Self {
        Self { names, refusal: StaticReply::text(Status::FORBIDDEN, "a client certificate is needed\n") }
    }

    /// Whether this request may pass.
    #[inline]
    pub fn allows(&self, request: &Request<'_>) -> bool {
        let Some(tls) = request.client().tls.filter(|tls| tls.client_verified) else { return false };
        let name = tls.client_name.as_deref();
        self.names.is_empty() || name.is_some_and(|name| self.names.iter().any(|allowed| allowed == name))
    }

    /// The answer to a request that may not pass.
    #[cold]
    pub fn refuse<'a>(&self, reply: Responder<'a>) -> Answered<'a> {
        reply.send(&self.refusal)
    }
}

impl Guard for RequireClientCert {
    #[inline]
    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Answered<'a>> {
        if self.allows(request) { Ok(reply) } else { Err(self.refuse(reply)) }
    }
}
