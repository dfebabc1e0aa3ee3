//! A redirect whose location depends on the request.
//!
//! Does not know about: building a location (see `doorbell-http`).

use super::fixed::Fixed;
use crate::config::model;
use crate::http::parse::is_same_authority;
use crate::http::redirect::{Redirect, RedirectError, RedirectTarget, Scheme};
use crate::http::router::Params;
use crate::http::{Answered, Method, Request, Responder, Status};

/// Size of the buffer that is tried first: most locations are short, and a small buffer is cheap to
/// clear.
const LOCATION_LEN_SHORT: usize = 512;

/// Maximum length of a location: the longest request line with every byte percent-encoded, and the
/// configured part.
const LOCATION_LEN_MAX: usize = 32 << 10;

#[derive(Debug)]
pub(super) struct RedirectAnswer {
    redirect: Redirect,
    status: Status,
    headers: Vec<(String, String)>,
}

impl RedirectAnswer {
    pub(super) fn build(
        to: &model::Redirect,
        hosts: &[String],
        headers: Vec<(String, String)>,
    ) -> Option<Self> {
        let redirect = crate::config::build_redirect(to, hosts).ok()?;
        let status = Status::new(redirect.status().code())?;
        Some(Self { redirect, status, headers })
    }

    pub(super) fn send<'a>(
        &self,
        params: Params<'_, '_>,
        request: &Request<'_>,
        fixed: &Fixed,
        reply: Responder<'a>,
    ) -> Answered<'a> {
        let target = RedirectTarget {
            host: request.host_bytes(),
            path: request.path_bytes(),
            query: request.query_bytes(),
            params,
        };
        let mut buf = [0; LOCATION_LEN_SHORT];
        match self.redirect.location(&target, &mut buf) {
            Ok(location) if self.leads_back(location, request) => reply.send(&fixed.not_found),
            Ok(location) => self.send_to(location, reply),
            Err(RedirectError::TooLong) => self.send_far(&target, request, fixed, reply),
            Err(RedirectError::BadTarget) => reply.send(&fixed.bad_request),
            Err(RedirectError::Misdirected) => reply.send(&fixed.misdirected),
        }
    }

    #[cold]
    fn send_far<'a>(
        &self,
        target: &RedirectTarget<'_>,
        request: &Request<'_>,
        fixed: &Fixed,
        reply: Responder<'a>,
    ) -> Answered<'a> {
        let mut buf = [0; LOCATION_LEN_MAX];
        match self.redirect.location(target, &mut buf) {
            Ok(location) if self.leads_back(location, request) => reply.send(&fixed.not_found),
            Ok(location) => self.send_to(location, reply),
            // The forbidden byte may be beyond the part that fits into the short buffer.
            Err(RedirectError::BadTarget) => reply.send(&fixed.bad_request),
            Err(RedirectError::Misdirected) => reply.send(&fixed.misdirected),
            Err(RedirectError::TooLong) => reply.send(&fixed.too_long),
        }
    }

    fn send_to<'a>(&self, location: &[u8], reply: Responder<'a>) -> Answered<'a> {
        let builder = reply.status(self.status).header("Location", location);
        let headers = self.headers.iter();
        headers.fold(builder, |builder, (name, value)| builder.header(name, value)).empty()
    }
    /// Whether the location is the address of the request, apart from the query. Behind a proxy
    /// that terminates TLS, an https request needs no redirect to https, and a client would follow
    /// it in a loop.
    fn leads_back(&self, location: &[u8], request: &Request<'_>) -> bool {
        // A client follows 301, 302 and 303 with a GET, which may match another route.
        if !matches!(self.status.code(), 307 | 308) && !matches!(request.method(), Method::Get | Method::Head)
        {
            return false;
        }
        let scheme = request.scheme();
        let rest =
            location.strip_prefix(scheme.as_str().as_bytes()).and_then(|rest| rest.strip_prefix(b"://"));
        let (Some(rest), Some(host)) = (rest, request.host_bytes()) else { return false };
        let path_at = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(path_at);
        let path = rest.split(|&byte| byte == b'?').next().unwrap_or_default();
        path == request.path_bytes() && is_same_authority(authority, host, scheme == Scheme::Https)
    }
}
