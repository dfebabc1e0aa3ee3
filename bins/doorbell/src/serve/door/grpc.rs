//! What a route of gRPC says of a request that got past its guards: go on, or that it is not asked by gRPC.
//!
//! Does not know about: messages, calls. The Tokio lane answers those that may go on.

use super::with_headers;
use crate::http::{Answered, Method, Request, Responder, StaticReply, Status};
use crate::serve::lane::{GRPC, is_grpc};

/// The two things that are said.
#[derive(Debug)]
pub(super) struct GrpcAnswer {
    go_on: StaticReply,
    other: StaticReply,
}

impl GrpcAnswer {
    /// `None` when the fields cannot be sent.
    pub(super) fn build(headers: &[(String, String)]) -> Option<Self> {
        let go_on = StaticReply::new(Status::OK).header("Content-Type", GRPC).ok()?;
        let other = StaticReply::text(Status::UNSUPPORTED_MEDIA_TYPE, "this is asked by gRPC\n");
        Some(Self { go_on: with_headers(go_on, headers)?, other: with_headers(other, headers)? })
    }

    pub(super) fn send<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        let content_type = request.header("content-type").unwrap_or_default();
        let is_post = request.method() == Method::Post;
        reply.send(if is_grpc(content_type, is_post, request.path()) { &self.go_on } else { &self.other })
    }
}
