//! Tokens whose signature takes a while to verify: done by a job of the compute lane, so that no ring thread is held up.
//!
//! Does not know about: routes, what follows for the request.

use crate::http::auth::Decision;
use crate::http::layer::RequireAuth;
use crate::http::{Answered, Request, Responder};
use doorbell::Offload;
use std::sync::Arc;

/// Everything that a job needs to know, beside the request.
#[derive(Debug)]
pub(crate) struct TokenJob {
    lane: Offload,
    first: Arc<RequireAuth>,
    others: Vec<Arc<RequireAuth>>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// By whom the token is, as logs call them.
    Allowed(Box<str>),
    Refused(Refused),
}

/// What a policy said that does not let a request in.
#[derive(Debug)]
pub(crate) struct Refused {
    by: Arc<RequireAuth>,
    decision: Decision<'static>,
}

impl TokenJob {
    /// Any of the policies may let a request in; if none does, the first one says what it wants that knows the token and misses a right
    /// in it, or else the first.
    pub(crate) const fn new(lane: Offload, first: Arc<RequireAuth>, others: Vec<Arc<RequireAuth>>) -> Self {
        Self { lane, first, others }
    }

    pub(crate) const fn lane(&self) -> &Offload {
        &self.lane
    }

    /// Verifies; this is what takes tens of microseconds.
    pub(crate) fn decide(&self, request: &Request<'_>) -> Verdict {
        let mut refused = match refusal(&self.first, request) {
            Err(name) => return Verdict::Allowed(name),
            Ok(refused) => refused,
        };
        for other in &self.others {
            match refusal(other, request) {
                Err(name) => return Verdict::Allowed(name),
                Ok(other) if other.decision.says_more_than(&refused.decision) => refused = other,
                Ok(_) => {}
            }
        }
        Verdict::Refused(refused)
    }
}

impl Refused {
    /// The answer.
    pub(crate) fn refuse<'a>(&self, reply: Responder<'a>) -> Answered<'a> {
        self.by.refuse(&self.decision, reply)
    }
}

/// What `policy` says against a request, or by whom its token is.
fn refusal(policy: &Arc<RequireAuth>, request: &Request<'_>) -> Result<Refused, Box<str>> {
    let decision = match policy.decide(request) {
        Decision::Allowed(principal) => return Err(principal.name().into()),
        Decision::Forbidden(reason) => Decision::Forbidden(reason),
        Decision::Malformed(reason) => Decision::Malformed(reason),
        Decision::Unauthorized(reason) => Decision::Unauthorized(reason),
    };
    Ok(Refused { by: Arc::clone(policy), decision })
}
