//! What is known of a request once it has been answered.
//!
//! Does not know about: what is kept of it.

use crate::{Answered, Request, Status};

/// One answered request.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What was asked.
    pub request: &'a Request<'a>,
    /// What the reply said; `None` when the connection was closed without one.
    pub status: Option<Status>,
    /// Bytes of content sent.
    pub content_len: usize,
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
    pub fn new(request: &'a Request<'a>, answered: &Answered) -> Self {
        Self {
            request,
            status: answered.status(),
            content_len: answered.content_len(),
            route: None,
            probe: false,
            subject: request.client().tls.and_then(|tls| tls.client_name.as_deref()),
        }
    }

    /// Whether it is shown whatever is sampled: status 400 or above, or no reply at all.
    #[inline]
    pub const fn is_error(&self) -> bool {
        match self.status {
            None => true,
            Some(status) => status.code() >= 400,
        }
    }
}
