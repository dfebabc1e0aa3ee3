//! Fixed error replies, such as 404 for requests without a route.

use doorbell::http::{StaticReply, Status};

#[derive(Debug)]
pub(super) struct Fixed {
    pub(super) bad_request: StaticReply,
    pub(super) misdirected: StaticReply,
    pub(super) not_found: StaticReply,
    pub(super) too_long: StaticReply,
}

impl Fixed {
    pub(super) fn new() -> Self {
        Self {
            bad_request: StaticReply::text(Status::BAD_REQUEST, "bad request\n"),
            misdirected: StaticReply::text(Status::MISDIRECTED_REQUEST, "this host is not served here\n"),
            not_found: StaticReply::text(Status::NOT_FOUND, "not found\n"),
            too_long: StaticReply::text(Status::URI_TOO_LONG, "the address is too long\n"),
        }
    }
}

/// Returns the reply with the header fields of its route; `None` if a field cannot be sent.
pub(super) fn with_headers(reply: StaticReply, headers: &[(String, String)]) -> Option<StaticReply> {
    headers.iter().try_fold(reply, |reply, (name, value)| reply.header(name, value).ok())
}
