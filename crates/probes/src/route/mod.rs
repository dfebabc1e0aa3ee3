//! Health routes: send one of the pre-rendered replies. Only a request that excludes checks causes
//! a reply to be rendered.

mod exclude;
mod format;

use crate::audience::audience_of;
use crate::replies::{CachedReply, ReplyCache, ThreadReplies};
use doorbell_health::{Details, Format};
use doorbell_http::forwarded::Networks;
use doorbell_http::prober::Requester;
use doorbell_http::{Method, Replied, Request, Responder, StaticReply, Status};
use exclude::excluded;
use format::{accepted, asked_for};
use std::sync::Arc;

/// Replies to the requests of one health route. If the head of a request
/// ([`Requester::remembered`]) and the current replies are cached, it allocates nothing, takes no
/// lock and reads no clock.
#[derive(Debug)]
pub struct HealthHandler {
    cache: Arc<ReplyCache>,
    /// Whether clients without a token see details; also the index of their reply in `Views`.
    tokenless: bool,
    /// Addresses of the load balancers whose reported server states are accepted; if empty, all are
    /// accepted.
    trusted: Networks,
}

impl HealthHandler {
    /// Creates a handler. `admits_all`: whether clients without a token count as authenticated.
    /// `trusted`: addresses of the load balancers whose reported server states are accepted; if
    /// empty, all are accepted.
    #[must_use]
    pub fn new(cache: Arc<ReplyCache>, admits_all: bool, trusted: Networks) -> Self {
        let tokenless = match cache.details() {
            Details::Always => true,
            Details::Authenticated => admits_all,
            Details::Never => false,
        };
        Self { cache, tokenless, trusted }
    }

    /// Whether the handler needs the addresses of clients.
    pub const fn wants_client(&self) -> bool {
        !self.trusted.is_empty()
    }

    /// Which clients see details. The other methods call their parameter `is_authenticated` only if
    /// this is [`Details::Authenticated`].
    #[must_use]
    pub fn details(&self) -> Details {
        self.cache.details()
    }

    /// Replies with the state of the endpoint. Inlined, because a function call costs 17
    /// instructions per probe.
    #[inline(always)]
    pub fn send<'a>(
        &self,
        is_authenticated: impl FnOnce() -> bool,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let mut thread_replies = ThreadReplies::take();
        let cached = match self.cache.known(&thread_replies) {
            Some(cached) => cached,
            None => self.cache.read(&mut thread_replies),
        };
        let plain = &cached.replies.plain;
        let answered = match Requester::remembered(request) {
            // A cached head has neither a query nor a token.
            Some(requester) if plain.is_for(requester.takes_anything) => {
                cached.own.count(requester.prober, plain.state, request.now());
                let views = if request.method() == Method::Options { &plain.options } else { &plain.views };
                reply.send(&views[usize::from(self.tokenless)])
            }
            _ => self.send_new(cached, is_authenticated, request, reply),
        };
        thread_replies.put_back();
        answered
    }

    /// Whether the reply that [`Self::send`] gave to this request is also the reply to `count`
    /// further requests with the same bytes ([`doorbell_http::Service::repeats`]). If so, they are
    /// counted.
    pub fn repeats(&self, request: &Request<'_>, count: u32) -> bool {
        let thread_replies = ThreadReplies::take();
        // If the replies have changed since `send`, nothing is repeated: the next `send` reads the
        // new ones.
        let repeats = match (self.cache.known(&thread_replies), Requester::remembered(request)) {
            (Some(cached), Some(requester)) if cached.replies.plain.is_for(requester.takes_anything) => {
                cached.own.count_all(requester.prober, cached.replies.plain.state, request.now(), count);
                true
            }
            _ => false,
        };
        thread_replies.put_back();
        repeats
    }

    #[inline(never)]
    fn send_new<'a>(
        &self,
        cached: &CachedReply,
        is_authenticated: impl FnOnce() -> bool,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let requester = Requester::of(request);
        let audience = audience_of(requester.prober);
        let sees_details = self.sees_details(is_authenticated);
        self.cache.probe_counters().note_reported(request, &self.trusted);
        if sees_details && let Some(names) = request.query_bytes().and_then(excluded) {
            return self.send_filtered(cached, &names, requester, request, reply);
        }
        cached.own.count(requester.prober, cached.replies.state(audience), request.now());
        match cached.replies.reply(audience, self.format_of(request), sees_details) {
            Some(found) => self.reply(found, request, reply),
            // Not reached: every audience has a reply.
            None => reply.status(Status::SERVICE_UNAVAILABLE).empty(),
        }
    }

    /// Replies with the state of the endpoint without the checks `names`.
    #[cold]
    #[inline(never)]
    fn send_filtered<'a>(
        &self,
        cached: &CachedReply,
        names: &[String],
        requester: Requester,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let (audience, format) = (audience_of(requester.prober), self.format_of(request));
        let Some(without) = self.cache.without(&cached.replies, names, audience, format) else {
            return reply.status(Status::SERVICE_UNAVAILABLE).empty();
        };
        cached.own.count(requester.prober, without.state, request.now());
        let reply = match request.method() {
            Method::Options => reply.header("Allow", self.cache.allow()),
            _ => reply,
        };
        let reply = reply.status(without.status).header("Content-Type", format.content_type());
        let fields = self.cache.fields().chain(without.fields.iter().map(|(name, value)| (*name, &**value)));
        fields.fold(reply, |reply, (name, value)| reply.header(name, value)).content(&without.body)
    }

    /// Replies with the state of the check `name`. Sends `not_found` if the endpoint has no such
    /// check, and to clients that see no details: names of checks are details, too.
    #[inline(never)]
    pub fn send_check<'a>(
        &self,
        name: &[u8],
        is_authenticated: impl FnOnce() -> bool,
        request: &Request<'_>,
        reply: Responder<'a>,
        not_found: &StaticReply,
    ) -> Replied<'a> {
        if !self.sees_details(is_authenticated) {
            return reply.send(not_found);
        }
        self.cache.with_single(name, self.format_of(request), |found| match found {
            Some(found) => self.reply(found, request, reply),
            None => reply.send(not_found),
        })
    }

    #[inline(always)]
    fn reply<'a>(&self, found: &StaticReply, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match request.method() {
            Method::Options => self.reply_to_options(found, reply),
            _ => reply.send(found),
        }
    }

    #[inline(never)]
    fn reply_to_options<'a>(&self, found: &StaticReply, reply: Responder<'a>) -> Replied<'a> {
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
