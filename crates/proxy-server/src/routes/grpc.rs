//! The handler of a gRPC route: admits gRPC calls to the Tokio lane, and replies with 415 to other
//! requests.
//!
//! For guards, counters and the log, a call is a deferred request that is in progress until the call ends.

use super::fixed::with_headers;
use doorbell::http::{Method, Replied, Request, Responder, StaticReply, Status, Time};
use doorbell_http2::{GrpcAdmission, is_grpc};

/// The prepared admission of a call, and the prepared 415 reply.
#[derive(Debug)]
pub(super) struct GrpcHandler {
    admission: GrpcAdmission,
    other: StaticReply,
}

impl GrpcHandler {
    /// Prepares the admission and the 415 reply; `None` if the header fields cannot be sent.
    pub(super) fn build(headers: &[(String, String)]) -> Option<Self> {
        let other = StaticReply::text(Status::UNSUPPORTED_MEDIA_TYPE, "this path serves gRPC only\n");
        Some(Self { admission: GrpcAdmission::new(headers)?, other: with_headers(other, headers)? })
    }

    pub(super) fn send<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let content_type = request.header("content-type").unwrap_or_default();
        if !is_grpc(content_type, request.method() == Method::Post, request.path()) {
            return reply.send(&self.other);
        }
        // The Tokio lane applies its own deadlines.
        reply.later(Time::MAX, Box::new(self.admission.clone()))
    }
}
