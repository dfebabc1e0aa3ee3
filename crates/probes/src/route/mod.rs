//! Health routes: chooses the reply to a request among those that are rendered already. Only a
//! request that leaves checks out gets a reply of its own.
//!
//! Does not know about: what makes a state, when replies are rendered, tokens.

mod exclude;
mod format;

use crate::audience::audience_of;
use crate::replies::{CachedReply, ReplyCache, ThreadReplies};
use doorbell_health::{Details, Format};
use doorbell_http::forwarded::Networks;
use doorbell_http::prober::Asker;
use doorbell_http::{Answered, Method, Request, Responder, StaticReply, Status};
use exclude::excluded;
use format::{accepted, asked_for};
use std::sync::Arc;

/// Replies to the requests of one health route. Allocates nothing, takes no lock and reads no clock
/// for a request whose head is remembered.
#[derive(Debug)]
pub struct HealthHandler {
    cache: Arc<ReplyCache>,
    /// Whether clients without a token see details; also the index of their reply.
    tokenless: bool,
    /// Load balancers whose reported states are believed; all if there are none.
    trusted: Networks,
}

impl HealthHandler {
    /// `admits_all`: whether clients without a token count as authenticated. `trusted`: the load
    /// balancers whose reported states of our server are believed; without any, all are.
    #[must_use]
    pub fn new(cache: Arc<ReplyCache>, admits_all: bool, trusted: Networks) -> Self {
        let tokenless = match cache.details() {
            Details::Always => true,
            Details::Authenticated => admits_all,
            Details::Never => false,
        };
        Self { cache, tokenless, trusted }
    }

    /// Whether it needs the addresses of clients.
    pub const fn wants_client(&self) -> bool {
        !self.trusted.is_empty()
    }

    /// The clients that see details. Only with [`Details::Authenticated`] the other methods ask
    /// whether a client is authenticated.
    #[must_use]
    pub fn details(&self) -> Details {
        self.cache.details()
    }

    /// Replies for the whole endpoint. Inlined: the frame of a call costs 17 instructions a probe.
    #[inline(always)]
    pub fn send<'a>(
        &self,
        is_authenticated: impl FnOnce() -> bool,
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
            _ => self.send_new(cached, is_authenticated, request, reply),
        };
        thread_replies.put_back();
        answered
    }

    #[inline(never)]
    fn send_new<'a>(
        &self,
        cached: &CachedReply,
        is_authenticated: impl FnOnce() -> bool,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Answered<'a> {
        let asker = Asker::of(request);
        let audience = audience_of(asker.prober);
        let sees_details = self.sees_details(is_authenticated);
        self.cache.probe_counters().note_reported(request, &self.trusted);
        if sees_details && let Some(names) = request.query_bytes().and_then(excluded) {
            return self.send_without(cached, &names, asker, request, reply);
        }
        cached.own.count(asker.prober, cached.replies.state(audience), request.now());
        match cached.replies.reply(audience, self.format_of(request), sees_details) {
            Some(found) => self.reply(found, request, reply),
            // Every audience has a reply from the start on.
            None => reply.status(Status::SERVICE_UNAVAILABLE).empty(),
        }
    }

    /// Replies for the endpoint without these checks.
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
            Method::Options => reply.header("Allow", self.cache.allow()),
            _ => reply,
        };
        let reply = reply.status(without.status).header("Content-Type", format.content_type());
        let fields = self.cache.fields().chain(without.fields.iter().map(|(name, value)| (*name, &**value)));
        fields.fold(reply, |reply, (name, value)| reply.header(name, value)).body(&without.body)
    }

    /// Replies for one check of the endpoint, or with `not_found`: the names of checks are details,
    /// too.
    #[inline(never)]
    pub fn send_check<'a>(
        &self,
        name: &[u8],
        is_authenticated: impl FnOnce() -> bool,
        request: &Request<'_>,
        reply: Responder<'a>,
        not_found: &StaticReply,
    ) -> Answered<'a> {
        if !self.sees_details(is_authenticated) {
            return reply.send(not_found);
        }
        self.cache.with_single(name, self.format_of(request), |found| match found {
            Some(found) => self.reply(found, request, reply),
            None => reply.send(not_found),
        })
    }

    #[inline(always)]
    fn reply<'a>(&self, found: &StaticReply, request: &Request<'_>, reply: Responder<'a>) -> Answered<'a> {
        match request.method() {
            Method::Options => self.reply_to_options(found, reply),
            _ => reply.send(found),
        }
    }

    #[inline(never)]
    fn reply_to_options<'a>(&self, found: &StaticReply, reply: Responder<'a>) -> Answered<'a> {
        reply.header("Allow", self.cache.allow()).send(found)
    }

    fn sees_details(&self, is_authenticated: impl FnOnce() -> bool) -> bool {
        match self.cache.details() {
            Details::Always => true,
            Details::Authenticated => is_authenticated(),
            Details::Never => false,
        }
    }

    fn format_of(&self, request: &Request<'_>) -> Format {
        let asked = request.query_bytes().and_then(asked_for);
        let accepted = || accepted(request.header("accept").unwrap_or_default());
        asked.or_else(|| self.cache.format()).unwrap_or_else(accepted)
    }
}
