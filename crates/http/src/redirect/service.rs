//! A redirect as a service.

use super::{Redirect, RedirectError, RedirectTarget, Scheme};
use crate::parse::is_same_authority;
use crate::router::Params;
use crate::{Method, Replied, Request, Responder, Service, Status};

/// Size of the buffer that is tried first: most locations are short, and a small buffer is cheap to
/// clear.
const LOCATION_LEN_SHORT: usize = 512;

/// Maximum length of a location: the longest request line with every byte percent-encoded, and the
/// configured part.
const LOCATION_LEN_MAX: usize = 32 << 10;

impl Redirect {
    /// Passes the location for a request to `answer`, or an error. A location that
    /// [leads back](RedirectError::LeadsBack) to the request is an error, too. `params` are those
    /// of the route, usually [`Request::params`].
    pub fn answer<T>(
        &self,
        request: &Request<'_>,
        params: Params<'_, '_>,
        answer: impl FnOnce(Result<&[u8], RedirectError>) -> T,
    ) -> T {
        let target = RedirectTarget {
            host: request.host_bytes(),
            path: request.path_bytes(),
            query: request.query_bytes(),
            params,
        };
        let mut buf = [0; LOCATION_LEN_SHORT];
        match self.location(&target, &mut buf) {
            Err(RedirectError::TooLong) => self.answer_far(&target, request, answer),
            location => answer(location.and_then(|location| self.onward(location, request))),
        }
    }

    #[cold]
    fn answer_far<T>(
        &self,
        target: &RedirectTarget<'_>,
        request: &Request<'_>,
        answer: impl FnOnce(Result<&[u8], RedirectError>) -> T,
    ) -> T {
        let mut buf = [0; LOCATION_LEN_MAX];
        let location = self.location(target, &mut buf);
        answer(location.and_then(|location| self.onward(location, request)))
    }

    /// Returns `location`, unless it is the address of the request, apart from the query. Behind a
    /// proxy that terminates TLS, an https request needs no redirect to https, and a client would
    /// follow it in a loop.
    fn onward<'l>(&self, location: &'l [u8], request: &Request<'_>) -> Result<&'l [u8], RedirectError> {
        // A client follows 301, 302 and 303 with a GET, which may match another route.
        if !matches!(self.status.code(), 307 | 308) && !matches!(request.method(), Method::Get | Method::Head)
        {
            return Ok(location);
        }
        let scheme = request.scheme();
        let rest =
            location.strip_prefix(scheme.as_str().as_bytes()).and_then(|rest| rest.strip_prefix(b"://"));
        let (Some(rest), Some(host)) = (rest, request.host_bytes()) else { return Ok(location) };
        let path_at = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(path_at);
        let path = rest.split(|&byte| byte == b'?').next().unwrap_or_default();
        let is_same =
            path == request.path_bytes() && is_same_authority(authority, host, scheme == Scheme::Https);
        if is_same { Err(RedirectError::LeadsBack) } else { Ok(location) }
    }
}

/// Replies with the location. A request without a location gets the status of
/// [`RedirectError::code`]. Parameters in the path template are those of the route, see
/// [`Routes`](crate::routes::Routes).
impl Service for Redirect {
    fn missing_param(&self, known: &[&str]) -> Option<&str> {
        self.param_names().find(|name| !known.contains(name))
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        self.answer(request, request.params(), |location| match location {
            Ok(location) => {
                let status = Status::new(self.status.code()).unwrap_or(Status::PERMANENT_REDIRECT);
                reply.status(status).header("Location", location).empty()
            }
            Err(error) => reply.status(Status::new(error.code()).unwrap_or(Status::BAD_REQUEST)).empty(),
        })
    }
}
