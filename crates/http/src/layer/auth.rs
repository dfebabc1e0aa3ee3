//! The guard that requires a token.
//!
//! Does not know about: tokens (see [`crate::auth`]).

use super::{Guard, identified};
use crate::auth::{Authorization, Decision, Policy};
use crate::{Replied, Request, Responder, Status};

/// Passes requests that a [`Policy`] allows and refuses all others.
///
/// A refusal has the policy's status, 401 (RFC 9110 15.5.2), 403 or 400, and its challenge.
///
/// Tokens are verified on the thread of the request. If a verification takes tens of microseconds
/// with the configured keys, use the engine's `Offload::require_auth`, the same guard with
/// verification in a job.
#[derive(Debug)]
pub struct RequireAuth {
    policy: Policy,
}

impl RequireAuth {
    /// Creates a guard with this policy.
    pub const fn new(policy: Policy) -> Self {
        Self { policy }
    }

    /// The policy's decision about a request, for a service that needs the principal.
    #[inline]
    pub fn decide(&self, request: &Request<'_>) -> Decision<'_> {
        self.policy.decide_request(request, request.unix_secs())
    }

    /// The name of the request's static token, if it is valid: the common case, which needs no
    /// [`Decision`]. `None` is not a refusal: call [`Self::decide_unknown`] then.
    #[inline]
    pub fn known(&self, request: &Request<'_>) -> Option<&str> {
        self.policy.known(Authorization::of(request))
    }

    /// The policy's decision about a request for which [`Self::known`] returned `None`.
    #[inline]
    pub fn decide_unknown(&self, request: &Request<'_>) -> Decision<'_> {
        self.policy.decide_unknown(Authorization::of(request), request.unix_secs())
    }

    /// Whether [`Self::decide`] takes tens of microseconds for this request, so that a job should
    /// execute it instead of a worker.
    #[must_use]
    pub fn is_heavy_for(&self, request: &Request<'_>) -> bool {
        self.policy.is_heavy_for(Authorization::of(request))
    }

    /// Writes the reply to a request that was not allowed.
    #[cold]
    pub fn refuse<'a>(&self, decision: &Decision<'_>, reply: Responder<'a>) -> Replied<'a> {
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
    fn admit<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Result<Responder<'a>, Replied<'a>> {
        match self.known(request) {
            Some(_) => Ok(reply),
            None => match self.decide_unknown(request) {
                Decision::Allowed(_) => Ok(reply),
                refused => Err(self.refuse(&refused, reply)),
            },
        }
    }

    #[inline]
    fn around<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        answer: impl FnOnce(&Request<'_>, Responder<'a>) -> Replied<'a>,
    ) -> Replied<'a> {
        match self.known(request) {
            Some(name) => identified(request, name, reply, answer),
            None => match self.decide_unknown(request) {
                Decision::Allowed(principal) => identified(request, principal.name(), reply, answer),
                refused => self.refuse(&refused, reply),
            },
        }
    }
}
