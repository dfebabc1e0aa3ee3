//! Continues a request, after a job has verified its token, on the thread that received the
//! request.

use super::RouteService;
use super::counting::ProbeMark;
use super::handler::RouteHandler;
use super::health::Health;
use crate::guards::subject::Promise;
use crate::guards::token_jobs::{TokenJob, Verdict};
use doorbell::http::router::Lookup;
use doorbell::http::{Replied, Request, Responder};
use doorbell::offload;
use std::sync::Arc;

impl RouteService {
    /// Verifies a token in a job, then replies. `promise` receives the name of the token's holder.
    #[inline(never)]
    pub(super) fn defer<'a>(
        &self,
        token_job: TokenJob,
        promise: Option<Promise>,
        request: &Request<'_>,
        reply: Responder<'a>,
        mark: &ProbeMark,
    ) -> Replied<'a> {
        let routes = self.this.upgrade().expect("the service exists while it serves");
        let (owned, mark) = (request.detach(), mark.share());
        let lane = token_job.lane().clone();
        lane.run(request, reply, move || {
            let verdict = owned.with(|request| token_job.decide(request));
            offload::JobReply::then(move |reply| match verdict {
                Verdict::Allowed(name) => {
                    promise.iter().for_each(|promise| promise.set(name.clone()));
                    owned.with(|request| routes.handle_verified(request, reply, &mark))
                }
                Verdict::Refused(refused) => refused.refuse(reply),
            })
        })
    }

    /// Replies for a health endpoint or, with `name`, for one of its checks. If necessary, a job
    /// first determines whether the client sees details.
    #[inline(never)]
    pub(super) fn handle_viewed<'a>(
        &self,
        health: &Arc<Health>,
        name: Option<&[u8]>,
        request: &Request<'_>,
        reply: Responder<'a>,
        mark: &ProbeMark,
    ) -> Replied<'a> {
        let Some(token_job) = health.token_job_for(request) else {
            return health.send_either(name, request, reply, &self.fixed.not_found, mark);
        };
        let (owned, health, name) = (request.detach(), Arc::clone(health), name.map(Box::<[u8]>::from));
        let (not_found, mark) = (self.fixed.not_found.clone(), mark.share());
        let lane = token_job.lane().clone();
        lane.run(request, reply, move || {
            let sees_details = owned.with(|request| matches!(token_job.decide(request), Verdict::Allowed(_)));
            offload::JobReply::then(move |reply| {
                owned.with(|request| {
                    let authenticate = || sees_details;
                    health.send_as(name.as_deref(), authenticate, request, reply, &not_found, &mark)
                })
            })
        })
    }

    /// Replies to a request with a valid token. The routes of a service never change, so the
    /// look-up finds the route whose guards required the token.
    fn handle_verified<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        mark: &ProbeMark,
    ) -> Replied<'a> {
        let found = match (self.router.find_plain(request), self.router.find_for(request)) {
            (Some(found), _) => found.matched(request),
            (None, Lookup::Found(found)) => found,
            (None, _) => return reply.send(&self.fixed.not_found),
        };
        match &found.value.handler {
            RouteHandler::Guarded(guarded) => guarded.guards.apply_verified(reply, |reply| {
                self.handle(&guarded.handler, &found, request, reply, None, mark)
            }),
            other => self.handle(other, &found, request, reply, None, mark),
        }
    }
}
