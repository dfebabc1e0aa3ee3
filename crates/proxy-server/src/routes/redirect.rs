//! A redirect whose location depends on the request.
//!
//! Does not know about: building a location (see `doorbell-http`).

use super::fixed::Fixed;
use doorbell::http::redirect::{Redirect, RedirectError};
use doorbell::http::router::Params;
use doorbell::http::{Replied, Request, Responder, Status};
use doorbell_proxy_config::model;

#[derive(Debug)]
pub(super) struct RedirectHandler {
    redirect: Redirect,
    status: Status,
    headers: Vec<(String, String)>,
}

impl RedirectHandler {
    pub(super) fn build(
        to: &model::Redirect,
        hosts: &[String],
        headers: Vec<(String, String)>,
    ) -> Option<Self> {
        let redirect = doorbell_proxy_config::build_redirect(to, hosts).ok()?;
        let status = Status::new(redirect.status().code())?;
        Some(Self { redirect, status, headers })
    }

    pub(super) fn send<'a>(
        &self,
        params: Params<'_, '_>,
        request: &Request<'_>,
        fixed: &Fixed,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        self.redirect.answer(request, params, |location| match location {
            Ok(location) => self.send_to(location, reply),
            Err(RedirectError::LeadsBack) => reply.send(&fixed.not_found),
            Err(RedirectError::Misdirected) => reply.send(&fixed.misdirected),
            Err(RedirectError::TooLong) => reply.send(&fixed.too_long),
            Err(_) => reply.send(&fixed.bad_request),
        })
    }

    fn send_to<'a>(&self, location: &[u8], reply: Responder<'a>) -> Replied<'a> {
        let builder = reply.status(self.status).header("Location", location);
        let headers = self.headers.iter();
        headers.fold(builder, |builder, (name, value)| builder.header(name, value)).empty()
    }
}
