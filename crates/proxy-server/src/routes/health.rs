//! Health routes: decide which clients see details. [`HealthHandler`] sends the replies.

use super::counting::ProbeMark;
use crate::guards::Viewers;
use crate::guards::token_jobs::TokenJob;
use doorbell::http::forwarded::Networks;
use doorbell::http::{Replied, Request, Responder, StaticReply};
use doorbell_health::Details;
use doorbell_probes::{HealthHandler, ReplyCache};
use std::sync::Arc;

/// Name of the path parameter that selects one check.
pub(super) const CHECK_PARAM: &str = "check";

/// A health route.
#[derive(Debug)]
pub(super) struct Health {
    handler: HealthHandler,
    viewers: Viewers,
}

impl Health {
    /// Creates the route. `trusted` are the load balancers whose reports of the state of this
    /// server are accepted; if empty, the reports of all load balancers are accepted.
    pub(super) fn new(cache: Arc<ReplyCache>, viewers: Viewers, trusted: Networks) -> Self {
        Self { handler: HealthHandler::new(cache, viewers.are_all(), trusted), viewers }
    }

    /// Whether the route needs the addresses of clients.
    pub(super) const fn wants_client(&self) -> bool {
        self.handler.wants_client()
    }

    /// Whether a job may have to verify the token of a client. If so, [`Self::token_job_for`] must
    /// be called before each reply.
    pub(super) fn has_jobs(&self) -> bool {
        self.handler.details() == Details::Authenticated && self.viewers.have_jobs()
    }

    /// Returns the job that verifies the token of a request, if a job is necessary.
    pub(super) fn token_job_for(&self, request: &Request<'_>) -> Option<TokenJob> {
        self.viewers.token_job_for(request)
    }

    /// Replies for the check `name` or, without a name, for the whole endpoint.
    pub(super) fn send_either<'a>(
        &self,
        name: Option<&[u8]>,
        request: &Request<'_>,
        reply: Responder<'a>,
        not_found: &StaticReply,
        mark: &ProbeMark,
    ) -> Replied<'a> {
        self.send_as(name, || self.viewers.admit(request), request, reply, not_found, mark)
    }

    /// Replies as [`Self::send_either`] does, to a client that is authenticated as `is_authenticated`
    /// decides.
    pub(super) fn send_as<'a>(
        &self,
        name: Option<&[u8]>,
        is_authenticated: impl FnOnce() -> bool,
        request: &Request<'_>,
        reply: Responder<'a>,
        not_found: &StaticReply,
        mark: &ProbeMark,
    ) -> Replied<'a> {
        match name {
            Some(name) => self.handler.send_check(name, is_authenticated, request, reply, not_found),
            None => {
                mark.set();
                self.handler.send(is_authenticated, request, reply)
            }
        }
    }

    /// Replies for the whole endpoint. Inlined, because the call would cost 17 instructions per
    /// probe.
    #[inline(always)]
    pub(super) fn send<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        self.handler.send(|| self.viewers.admit(request), request, reply)
    }

    /// Counts `count` probes that equal `request`, if the reply to `request` is still current;
    /// otherwise returns false.
    pub(super) fn repeats(&self, request: &Request<'_>, count: u32) -> bool {
        self.handler.repeats(request, count)
    }
}
