//! Maps a route's refusal of a gRPC request to a gRPC status code.
//!
//! Follows gRPC's table of HTTP statuses, with more precise codes for some refusals: for example
//! RESOURCE_EXHAUSTED for a rate limit, so that clients do not treat the server as broken, and
//! UNAUTHENTICATED for a missing certificate.

use crate::body::ReplyBody;
use hyper::{Response, StatusCode, header};
use tonic::Status;

/// Status of a refused call.
#[derive(Debug)]
pub(crate) struct Refusal(Status);

impl Refusal {
    /// Converts the reply of a route. `may_lack_cert`: a certificate was requested, and the client
    /// sent no valid one.
    pub(crate) fn of<B>(reply: &Response<B>, may_lack_cert: bool) -> Self {
        let wants_token = reply.headers().contains_key(header::WWW_AUTHENTICATE);
        Self(match reply.status() {
            StatusCode::UNAUTHORIZED => Status::unauthenticated("missing or invalid token"),
            StatusCode::BAD_REQUEST if wants_token => Status::unauthenticated("invalid token"),
            StatusCode::BAD_REQUEST => Status::internal("invalid request"),
            StatusCode::FORBIDDEN if may_lack_cert && !wants_token => {
                Status::unauthenticated("missing client certificate")
            }
            StatusCode::FORBIDDEN => Status::permission_denied("permission denied"),
            StatusCode::TOO_MANY_REQUESTS => Status::resource_exhausted("rate limit exceeded"),
            StatusCode::SERVICE_UNAVAILABLE => Status::unavailable("service unavailable"),
            StatusCode::INTERNAL_SERVER_ERROR => Status::internal("internal error"),
            // Any other status is the reply to a request without a gRPC route.
            _ => Status::unimplemented("unknown service"),
        })
    }

    pub(crate) fn into_response(self) -> Response<ReplyBody> {
        self.0.into_http().map(|body| ReplyBody::Grpc(body, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn each_status_has_its_code() {
        let challenge = (header::WWW_AUTHENTICATE, "Bearer");
        // A reply with the content type of gRPC is a refusal, too.
        let (grpc, text) = ((header::CONTENT_TYPE, "application/grpc"), (header::CONTENT_TYPE, "text/plain"));
        for (status, field, may_lack_cert, code) in [
            (200, grpc.clone(), true, Code::Unimplemented),
            (200, text.clone(), false, Code::Unimplemented),
            (204, grpc, false, Code::Unimplemented),
            (308, text.clone(), false, Code::Unimplemented),
            (400, challenge.clone(), false, Code::Unauthenticated),
            (400, text.clone(), false, Code::Internal),
            (401, challenge.clone(), false, Code::Unauthenticated),
            (403, challenge.clone(), true, Code::PermissionDenied),
            (403, text.clone(), true, Code::Unauthenticated),
            (403, text.clone(), false, Code::PermissionDenied),
            (404, text.clone(), false, Code::Unimplemented),
            (405, text.clone(), false, Code::Unimplemented),
            (415, text.clone(), false, Code::Unimplemented),
            (421, text.clone(), false, Code::Unimplemented),
            (429, text.clone(), false, Code::ResourceExhausted),
            (500, text.clone(), false, Code::Internal),
            (503, text, true, Code::Unavailable),
        ] {
            let reply = Response::builder().status(status).header(field.0, field.1).body(()).unwrap();
            let refusal = Refusal::of(&reply, may_lack_cert);
            assert_eq!(refusal.0.code(), code, "{status} {may_lack_cert}");
        }
    }
}
