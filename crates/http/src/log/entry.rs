//! What is known of a request once it has been answered.
//!
//! Does not know about: what is kept of it.

use crate::{Answered, Request, Status};

/// One answered request.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What was asked.
    pub request: &'a Request<'a>,
    /// What the reply said; `None` when the connection was closed without one, or handed over.
    pub status: Option<Status>,
    /// Bytes of content sent.
    pub content_len: usize,
    /// Whether somebody else answers, to whom the connection was handed over.
    pub elsewhere: bool,
    /// The route that answered, as an index of [`crate::log::Renderer::routes`].
    pub route: Option<u16>,
    /// Whether the route is there for probes.
    pub probe: bool,
    /// Who asked, if a layer found out.
    pub subject: Option<&'a str>,
}

impl<'a> Entry<'a> {
    /// Of no particular route. The subject is the name in the client's certificate.
    #[inline]
    pub fn new(request: &'a Request<'a>, answered: &Answered<'_>) -> Self {
        Self {
            status: answered.status(),
            content_len: answered.content_len(),
            elsewhere: answered.is_handed_over(),
            ..Self::unanswered(request)
        }
    }

    /// The same of a request that has no answer yet, for [`Logger::later`](super::Logger::later).
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

    /// Whether it is shown whatever is sampled: status 400 or above, or no reply at all, from
    /// nobody.
    #[inline]
    pub const fn is_error(&self) -> bool {
        match self.status {
            None => !self.elsewhere,
            Some(status) => status.code() >= 400,
        }
    }
}
