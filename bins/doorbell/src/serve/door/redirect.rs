//! A redirect whose location is made from the request.
//!
//! Does not know about: how a location is made (`doorbell-http` does).

use super::{Fixed, Placed};
use crate::config::model::RedirectTo;
use crate::http::redirect::{Redirect, RedirectError, RedirectTarget};
use crate::http::router::Match;
use crate::http::{Answered, Request, Responder, Status};

/// Most locations are short: a small buffer costs nothing to clear.
const LOCATION_LEN_SHORT: usize = 512;

/// Every byte of the longest request line percent-encoded, and room for our own part.
const LOCATION_LEN_MAX: usize = 32 << 10;

#[derive(Debug)]
pub(super) struct RedirectAnswer {
    redirect: Redirect,
    status: Status,
    headers: Vec<(String, String)>,
}

impl RedirectAnswer {
    pub(super) fn build(to: &RedirectTo, hosts: &[String], headers: Vec<(String, String)>) -> Option<Self> {
        let redirect = crate::config::build_redirect(to, hosts).ok()?;
        let status = Status::new(redirect.status().code())?;
        Some(Self { redirect, status, headers })
    }

    pub(super) fn send<'a>(
        &self,
        found: &Match<'_, '_, Placed>,
        request: &Request<'_>,
        fixed: &Fixed,
        reply: Responder<'a>,
    ) -> Answered<'a> {
        let target = RedirectTarget {
            host: request.host_bytes(),
            path: request.path_bytes(),
            query: request.query_bytes(),
            params: found.params,
        };
        let mut buf = [0; LOCATION_LEN_SHORT];
        match self.redirect.location(&target, &mut buf) {
            Ok(location) => self.send_to(location, reply),
            Err(RedirectError::TooLong) => self.send_far(&target, fixed, reply),
            Err(RedirectError::BadTarget) => reply.send(&fixed.bad_request),
            Err(RedirectError::Misdirected) => reply.send(&fixed.misdirected),
        }
    }

    #[cold]
    fn send_far<'a>(&self, target: &RedirectTarget<'_>, fixed: &Fixed, reply: Responder<'a>) -> Answered<'a> {
        let mut buf = [0; LOCATION_LEN_MAX];
        match self.redirect.location(target, &mut buf) {
            Ok(location) => self.send_to(location, reply),
            // A byte that must not be sent on may come after the end of the short buffer.
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
}
