//! The guard that lets only those in who bring a token.
//!
//! Does not know about: tokens ([`crate::auth`] does).

use super::Guard;
use crate::auth::{Decision, Policy};
use crate::{Answered, Request, Responder, Status};

/// Lets requests through that a [`Policy`] allows. Others get its status, 401 (RFC 9110 15.5.2), 403 or 400, and its challenge.
#[derive(Debug)]
pub struct RequireAuth {
    policy: Policy,
}

impl RequireAuth {
    /// Asks `policy`.
    pub const fn new(policy: Policy) -> Self {
        Self { policy }
    }

    /// What the policy says of a request, for a service that wants to know who it is.
    #[inline]
    pub fn decide(&self, request: &Request<'_>) -> Decision<'_> {
        self.policy.decide_request(request, request.unix_secs())
    }

    /// The answer to a request that was not allowed.
    #[cold]
    pub fn refuse(&self, decision: &Decision<'_>, reply: Responder<'_>) -> Answered {
        let status = decision.status().unwrap_or(Status::FORBIDDEN);
        let builder = reply.status(status).header("Cache-Control", "no-store");
        match self.policy.challenge(decision) {
            Some(challenge) => builder.header("WWW-Authenticate", challenge).empty(),
            None => builder.empty(),
        }
    }

    /// The policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }
}

impl Guard for RequireAuth {
    #[inline]
    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Answered> {
        match self.decide(request) {
            Decision::Allowed(_) => Ok(reply),
            refused => Err(self.refuse(&refused, reply)),
        }
    }

    #[inline]
    fn around<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        answer: impl FnOnce(Responder<'a>) -> Answered,
    ) -> Answered {
        match self.decide(request) {
            Decision::Allowed(_) => answer(reply),
            refused => self.refuse(&refused, reply),
        }
    }
}
