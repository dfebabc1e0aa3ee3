//! Verifies tokens with expensive signatures as jobs on the compute lane, so that workers are not
//! delayed.

use doorbell::Offload;
use doorbell::http::auth::Decision;
use doorbell::http::layer::RequireAuth;
use doorbell::http::{Replied, Request, Responder};
use std::sync::Arc;

/// A job that verifies a token. The request is passed to [`Self::decide`].
#[derive(Debug)]
pub(crate) struct TokenJob {
    lane: Offload,
    first: Arc<RequireAuth>,
    others: Vec<Arc<RequireAuth>>,
}

/// The result of a verification.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The name of the token's holder, as logged.
    Allowed(Box<str>),
    Refused(Refused),
}

/// Refusal of a request by a policy.
#[derive(Debug)]
pub(crate) struct Refused {
    policy: Arc<RequireAuth>,
    decision: Decision<'static>,
}

impl TokenJob {
    /// Creates a job. The request is admitted if one policy admits it. Otherwise, the refusal is
    /// that of the first policy that accepts the token but requires other claims or, if there is
    /// none, that of `first`.
    pub(crate) const fn new(lane: Offload, first: Arc<RequireAuth>, others: Vec<Arc<RequireAuth>>) -> Self {
        Self { lane, first, others }
    }

    pub(crate) const fn lane(&self) -> &Offload {
        &self.lane
    }

    /// Verifies the token, which takes tens of microseconds.
    pub(crate) fn decide(&self, request: &Request<'_>) -> Verdict {
        let mut refused = match refusal(&self.first, request) {
            Err(name) => return Verdict::Allowed(name),
            Ok(refused) => refused,
        };
        for other in &self.others {
            match refusal(other, request) {
                Err(name) => return Verdict::Allowed(name),
                Ok(other) if other.decision.takes_precedence_over(&refused.decision) => refused = other,
                Ok(_) => {}
            }
        }
        Verdict::Refused(refused)
    }
}

impl Refused {
    /// Sends the refusal.
    pub(crate) fn refuse<'a>(&self, reply: Responder<'a>) -> Replied<'a> {
        self.policy.refuse(&self.decision, reply)
    }
}

/// Returns the refusal of `policy`, or the holder of an accepted token as the error.
fn refusal(policy: &Arc<RequireAuth>, request: &Request<'_>) -> Result<Refused, Box<str>> {
    let decision = match policy.decide(request) {
        Decision::Allowed(principal) => return Err(principal.name().into()),
        Decision::Forbidden(reason) => Decision::Forbidden(reason),
        Decision::Malformed(reason) => Decision::Malformed(reason),
        Decision::Unauthorized(reason) => Decision::Unauthorized(reason),
    };
    Ok(Refused { policy: Arc::clone(policy), decision })
}
