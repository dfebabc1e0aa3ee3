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
pub(super) struct Inquiry {
    lane: Offload,
    first: Arc<RequireAuth>,
    others: Vec<Arc<RequireAuth>>,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Verdict {
    /// By whom the token is, as logs call them.
    Allowed(Box<str>),
    /// What the first policy said.
    Refused(Decision<'static>),
}

impl Inquiry {
    /// Any of the policies may let a request in; if none does, the first one says what it wants.
    pub(super) const fn new(lane: Offload, first: Arc<RequireAuth>, others: Vec<Arc<RequireAuth>>) -> Self {
        Self { lane, first, others }
    }

    pub(super) const fn lane(&self) -> &Offload {
        &self.lane
    }

    /// Verifies; this is what takes tens of microseconds.
    pub(super) fn decide(&self, request: &Request<'_>) -> Verdict {
        let refused = match self.first.decide(request) {
            Decision::Allowed(principal) => return Verdict::Allowed(principal.name().into()),
            Decision::Forbidden(reason) => Decision::Forbidden(reason),
            Decision::Malformed(reason) => Decision::Malformed(reason),
            Decision::Unauthorized(reason) => Decision::Unauthorized(reason),
        };
        let allowed = self.others.iter().find_map(|other| match other.decide(request) {
            Decision::Allowed(principal) => Some(principal.name().into()),
            Decision::Forbidden(_) | Decision::Malformed(_) | Decision::Unauthorized(_) => None,
        });
        allowed.map_or(Verdict::Refused(refused), Verdict::Allowed)
    }

    /// The answer to a request that was not allowed.
    pub(super) fn refuse(&self, decision: &Decision<'_>, reply: Responder<'_>) -> Answered {
        self.first.refuse(decision, reply)
    }
}
