//! What a health route says to whoever asks: the reply exists already, chosen by who asks and how. Only who wants checks to be left out is
//! answered with a text of his own.
//!
//! Does not know about: what makes a state, when replies are rendered.

use super::exclude::excluded;
use crate::config::model::{Details, HealthRoute};
use crate::guards::Viewers;
use crate::guards::token_jobs::TokenJob;
use crate::http::forwarded::Networks;
use crate::http::prober::Asker;
use crate::http::{Answered, Method, Request, Responder, StaticReply, Status};
use crate::registry::{CachedReply, ReplyCache, ThreadReplies};
use crate::stats::requests::RequestCounters;
use doorbell_health::Format;
use doorbell_probes::audience_of;
use std::sync::Arc;

/// The name of the path parameter that asks for one check.
pub(super) const CHECK_PARAM: &str = "check";

/// A health route.
#[derive(Debug)]
pub(super) struct Health {
    cache: Arc<ReplyCache>,
    details: Details,
    viewers: Viewers,
    /// What those see who bring no token: their place in [`crate::registry::Plain::views`].
    tokenless: bool,
    allow: String,
    /// Load balancers that are believed in what they say of us; anybody is where there are none.
    trusted: Networks,
    /// Where requests for one check are counted: the prober statistics know only those for the whole endpoint.
    singles: Option<Arc<RequestCounters>>,
}

impl Health {
    pub(super) fn new(
        cache: Arc<ReplyCache>,
        route: &HealthRoute,
        viewers: Viewers,
        allow: String,
        trusted: Networks,
        singles: Option<Arc<RequestCounters>>,
    ) -> Self {
        let details = route.details;
        let tokenless = match details {
            Details::Always => true,
            Details::Authenticated => viewers.are_all(),
            Details::Never => false,
        };
        Self { cache, details, viewers, tokenless, allow, trusted, singles }
    }

    /// True when it matters from where it is asked.
    pub(super) const fn wants_client(&self) -> bool {
        !self.trusted.is_empty()
    }

    /// True when some who see details have tokens that a job is to verify: then [`Self::token_job_for`] is to be asked.
    pub(super) const fn has_jobs(&self) -> bool {
        matches!(self.details, Details::Authenticated) && self.viewers.have_jobs()
    }

    /// What a job is to find out before it is known who asks.
    pub(super) fn token_job_for(&self, request: &Request<'_>) -> Option<TokenJob> {
        self.viewers.token_job_for(request)
    }

    /// Answers for one check of the endpoint, if there is a name, or for all of it.
    pub(super) fn send_either<'a>(
        &self,
        name: Option<&[u8]>,
        request: &Request<'_>,
        reply: Responder<'a>,
        not_found: &StaticReply,
    ) -> Answered<'a> {
        match name {
            Some(name) => self.send_single(name, self.sees_details(request), request, reply, not_found),
            None => self.send(request, reply),
        }
    }

    /// The same for somebody of whom is known whether he sees details.
    pub(super) fn send_known<'a>(
        &self,
        name: Option<&[u8]>,
        sees_details: bool,
        request: &Request<'_>,
        reply: Responder<'a>,
        not_found: &StaticReply,
    ) -> Answered<'a> {
        match name {
            Some(name) => self.send_single(name, sees_details, request, reply, not_found),
            None => self.send_as(|| sees_details, request, reply),
        }
    }

    /// Answers for the whole endpoint. Part of whoever calls it: the frame of a call costs 17 instructions a probe.
    #[inline(always)]
    pub(super) fn send<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        self.send_as(|| self.sees_details(request), request, reply)
    }

    #[inline(always)]
    fn send_as<'a>(
        &self,
        sees_details: impl FnOnce() -> bool,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Answered<'a> {
        let mut thread_replies = ThreadReplies::take();
        let cached = match self.cache.known(&thread_replies) {
            Some(cached) => cached,
            None => self.cache.read(&mut thread_replies),
        };
        let plain = &cached.replies.plain;
        let answered = match Asker::remembered(request) {
            // A head that is remembered has neither a query nor a token.
            Some(asker) if plain.is_for(asker.takes_anything) => {
                cached.own.count(asker.prober, plain.state, request.now());
                let views = if request.method() == Method::Options { &plain.options } else { &plain.views };
                reply.send(&views[usize::from(self.tokenless)])
            }
            _ => self.send_new(cached, sees_details, request, reply),
        };
        thread_replies.put_back();
        answered
    }

    #[inline(never)]
    fn send_new<'a>(
        &self,
        cached: &CachedReply,
        sees_details: impl FnOnce() -> bool,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Answered<'a> {
        let asker = Asker::of(request);
        let audience = audience_of(asker.prober);
        let sees_details = sees_details();
        self.cache.probe_counters().listen(request, &self.trusted);
        if sees_details && let Some(names) = request.query_bytes().and_then(excluded) {
            return self.send_without(cached, &names, asker, request, reply);
        }
        cached.own.count(asker.prober, cached.replies.state(audience), request.now());
        match cached.replies.reply(audience, self.format_of(request), sees_details) {
            Some(found) => self.answer(found, request, reply),
            // There is one for everybody, from the start on.
            None => reply.status(Status::SERVICE_UNAVAILABLE).empty(),
        }
    }

    /// Answers for the endpoint as it is without these checks.
    #[cold]
    #[inline(never)]
    fn send_without<'a>(
        &self,
        cached: &CachedReply,
        names: &[String],
        asker: Asker,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Answered<'a> {
        let (audience, format) = (audience_of(asker.prober), self.format_of(request));
        let Some(without) = self.cache.without(&cached.replies, names, audience, format) else {
            return reply.status(Status::SERVICE_UNAVAILABLE).empty();
        };
        cached.own.count(asker.prober, without.state, request.now());
        let reply = match request.method() {
            Method::Options => reply.header("Allow", &self.allow),
            _ => reply,
        };
        let reply = reply.status(without.status).header("Content-Type", format.content_type());
        let fields = self.cache.fields().chain(without.fields.iter().map(|(name, value)| (*name, &**value)));
        fields.fold(reply, |reply, (name, value)| reply.header(name, value)).body(&without.body)
    }

    /// Answers for one check of the endpoint, or with `not_found`. Which checks there are is a detail, too.
    #[inline(never)]
    fn send_single<'a>(
        &self,
        name: &[u8],
        sees_details: bool,
        request: &Request<'_>,
        reply: Responder<'a>,
        not_found: &StaticReply,
    ) -> Answered<'a> {
        let answered = match sees_details {
            true => self.cache.with_single(name, self.format_of(request), |found| match found {
                Some(found) => self.answer(found, request, reply),
                None => reply.send(not_found),
            }),
            false => reply.send(not_found),
        };
        if let Some(counters) = &self.singles {
            counters.count(request.method(), &answered);
        }
        answered
    }

    #[inline(always)]
    fn answer<'a>(&self, found: &StaticReply, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        match request.method() {
            Method::Options => self.answer_options(found, reply),
            _ => reply.send(found),
        }
    }

    #[inline(never)]
    fn answer_options<'a>(&self, found: &StaticReply, reply: Responder<'a>) -> Answered<'a> {
        reply.header("Allow", &self.allow).send(found)
    }

    fn sees_details(&self, request: &Request<'_>) -> bool {
        match self.details {
            Details::Always => true,
            Details::Authenticated => self.viewers.admit(request),
            Details::Never => false,
        }
    }

    fn format_of(&self, request: &Request<'_>) -> Format {
        let asked = request.query_bytes().and_then(asked_for);
        let accepted = || accepted(request.header("accept").unwrap_or_default());
        asked.or_else(|| self.cache.format()).unwrap_or_else(accepted)
    }
}

/// The format that a query asks for: `?format=NAME`, or `?verbose` as of the Kubernetes API server.
fn asked_for(query: &[u8]) -> Option<Format> {
    query.split(|&byte| byte == b'&').find_map(|part| match part {
        b"verbose" | b"verbose=true" | b"verbose=1" | b"format=kube-verbose" => Some(Format::Kube),
        b"format=json" | b"format=health+json" | b"format=health%2Bjson" | b"format=health%2bjson" => {
            Some(Format::HealthJson)
        }
        b"format=spring" => Some(Format::Spring),
        b"format=text" => Some(Format::Text),
        _ => None,
    })
}

/// The first of ours that `Accept` names; text for those who take anything. Weights are not looked at.
fn accepted(accept: &[u8]) -> Format {
    let named = accept.split(|&byte| byte == b',').find_map(|range| {
        let name = range.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("application/health+json") || is("application/json") {
            Some(Format::HealthJson)
        } else if name.to_ascii_lowercase().starts_with(b"application/vnd.spring-boot.actuator") {
            Some(Format::Spring)
        } else if is("text/plain") || is("text/*") || is("*/*") {
            Some(Format::Text)
        } else {
            None
        }
    });
    named.unwrap_or(Format::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        for (query, expected) in [
            ("", None),
            ("verbose", Some(Format::Kube)),
            ("a=1&verbose", Some(Format::Kube)),
            ("verbose=false", None),
            ("format=json", Some(Format::HealthJson)),
            ("format=health+json&verbose", Some(Format::HealthJson)),
            ("format=health%2Bjson", Some(Format::HealthJson)),
            ("format=spring", Some(Format::Spring)),
            ("format=text", Some(Format::Text)),
            ("format=xml", None),
            ("&&=", None),
        ] {
            assert_eq!(asked_for(query.as_bytes()), expected, "{query:?}");
        }
    }

    #[test]
    fn accept() {
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("application/json", Format::HealthJson),
            ("application/health+json;q=0.9, */*", Format::HealthJson),
            ("Application/Health+JSON", Format::HealthJson),
            ("text/plain, application/json", Format::Text),
            ("text/html, application/json", Format::HealthJson),
            ("application/vnd.spring-boot.actuator.v3+json", Format::Spring),
            ("text/html", Format::Text),
            (",;,", Format::Text),
        ] {
            assert_eq!(accepted(accept.as_bytes()), expected, "{accept:?}");
        }
    }
}
