//! What a route of gRPC says of a request that got past its guards: go on, or that it is not asked by gRPC.
//!
//! Does not know about: messages, calls. The Tokio lane answers those that may go on, and to guards and log each is a request that is
//! answered later: it is in progress until its call ends.

use super::fixed::with_headers;
use crate::http::{Answered, Method, Request, Responder, StaticReply, Status, Time};
use crate::http2::{GoOn, is_grpc};
use crate::stats::requests::RequestCounters;
use std::sync::Arc;

/// The two things that are said.
#[derive(Debug)]
pub(super) struct GrpcAnswer {
    go_on: GoOn,
    other: StaticReply,
    /// Where calls are counted when they end.
    counters: Option<Arc<RequestCounters>>,
}

impl GrpcAnswer {
    /// `None` when the fields cannot be sent.
    pub(super) fn build(
        headers: &[(String, String)],
        counters: Option<&Arc<RequestCounters>>,
    ) -> Option<Self> {
        let other = StaticReply::text(Status::UNSUPPORTED_MEDIA_TYPE, "this is asked by gRPC\n");
        Some(Self {
            go_on: GoOn::new(headers)?,
            other: with_headers(other, headers)?,
            counters: counters.cloned(),
        })
    }

    pub(super) fn send<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        let content_type = request.header("content-type").unwrap_or_default();
        let method = request.method();
        if !is_grpc(content_type, method == Method::Post, request.path()) {
            return reply.send(&self.other);
        }
        // The lane has times of its own for what goes on.
        reply.watch(
            |reply| reply.later(Time::MAX, Box::new(self.go_on.clone())),
            || {
                let counters = self.counters.clone()?;
                Some(Box::new(move |status, _len| {
                    status.into_iter().for_each(|status| counters.count_status(method, status));
                }))
            },
        )
    }
}
