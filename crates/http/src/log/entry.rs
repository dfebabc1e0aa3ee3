//! The facts about a request and its reply from which a record is made.

use crate::{Replied, Request, Status};

/// One request with its reply.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// Status of the reply; `None` if the connection was closed without a reply or handed over.
    pub status: Option<Status>,
    /// Bytes of content sent.
    pub content_len: usize,
    /// Whether the connection was handed over instead of getting a reply.
    pub elsewhere: bool,
    /// The route, as an index of [`crate::log::Renderer::routes`].
    pub route: Option<u16>,
    /// Whether the route is for probes.
    pub probe: bool,
    /// The authenticated sender, if a layer determined one.
    pub subject: Option<&'a str>,
}

impl<'a> Entry<'a> {
    /// An entry without a route. The subject is the name in the client's certificate.
    #[inline]
    pub fn new(request: &'a Request<'a>, answered: &Replied<'_>) -> Self {
        Self {
            status: answered.status(),
            content_len: answered.content_len(),
            elsewhere: answered.is_handed_over(),
            ..Self::unanswered(request)
        }
    }

    /// An entry for a request without a reply so far, for [`Logger::later`](super::Logger::later).
    #[inline]
    pub fn unanswered(request: &'a Request<'a>) -> Self {
        Self {
            request,
            status: None,
            content_len: 0,
            elsewhere: false,
            route: None,
            probe: false,
            subject: request.client().tls.and_then(|tls| tls.client_name.as_deref()),
        }
    }

    /// Whether the request is logged regardless of sampling: its status is 400 or above, or it got
    /// neither a reply nor a hand-over.
    #[inline]
    pub const fn is_error(&self) -> bool {
        match self.status {
            None => !self.elsewhere,
            Some(status) => status.code() >= 400,
        }
    }
}
