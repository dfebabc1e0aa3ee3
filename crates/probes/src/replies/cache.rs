//! The replies of one health route, rendered when a state changes and read by request threads
//! without a lock.
//!
//! Every thread caches the replies that it read last, together with the number of their set. For
//! each probe, the thread compares this number with the number of the newest set, and reads the
//! newest set if they differ. The comparison costs less than an update of a reference count.

use super::fields::{StateFields, fields_of};
use super::published::{CacheReplies, Published, Singles};
use super::warning::warning;
use crate::prober_stats::{ProbeCounters, ThreadCounters};
use crate::trigger::RunTrigger;
use doorbell_health::{
    Audience, Board, Class, Details, EndpointIndex, EndpointState, Excluded, Format, Reply, Snapshot,
};
use doorbell_http::{StaticReply, Status};
use std::cell::Cell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Properties of the replies of a health route that do not depend on the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyOptions {
    /// Position of the endpoint.
    pub endpoint: usize,
    /// Format of replies to requests whose query selects none; `None`: selected by `Accept`.
    pub format: Option<Format>,
    /// Which clients see the checks of the endpoint.
    pub details: Details,
    /// Header fields of every reply. `Cache-Control: no-store` is added if there is no
    /// `Cache-Control`.
    pub headers: Vec<(String, String)>,
    /// Methods of the route, sent in the `Allow` field of replies to `OPTIONS`.
    pub allow: String,
    /// Whether the route also serves replies about single checks.
    pub has_singles: bool,
}

/// Replies of one health route, read from the set that the registry published last.
#[derive(Debug)]
pub struct ReplyCache {
    template: ReplyTemplate,
    published: Arc<Published>,
    probe_counters: Arc<ProbeCounters>,
    /// Index of this cache in a `ReplySet` and in the replies of a thread.
    place: usize,
    /// Index at which a probe looks up the replies of its thread. If the endpoint has on-demand
    /// checks, the index is out of range: every probe then takes the slow path, which requests
    /// runs. So the fast path needs no test for such checks.
    cached_at: usize,
    /// Triggers of on-demand checks.
    triggers: Box<[RunTrigger]>,
    /// Positions of the checks in the endpoint, by name.
    names: HashMap<Box<[u8]>, usize>,
}

/// The replies of one cache that a thread read last.
#[derive(Debug)]
pub(crate) struct CachedReply {
    /// Number of the set.
    number: u64,
    pub(crate) replies: Arc<Replies>,
    /// Counters of this thread for probes of the endpoint.
    pub(crate) own: ThreadCounters,
}

/// The replies that a thread read last, indexed by the place of their cache. A thread that takes
/// them must put them back.
#[derive(Debug)]
#[must_use]
pub(crate) struct ThreadReplies(ManuallyDrop<Box<CachedReplies>>);

type CachedReplies = Vec<CachedReply>;

thread_local! {
    /// Has no destructor, so that an access need not test whether the thread is exiting. [`END`]
    /// drops the value.
    static THREAD_REPLIES: Cell<Option<ManuallyDrop<Box<CachedReplies>>>> = const { Cell::new(None) };
    /// Accessed once by each thread, before it has replies, to register the destructor.
    static END: End = const { End };
}

/// Drops the replies of a thread at its exit. A reload starts new threads, so every reload would
/// otherwise leak the replies of the old threads.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        drop(THREAD_REPLIES.take().map(ManuallyDrop::into_inner));
    }
}

impl ThreadReplies {
    /// Takes the replies of this thread. A second call before [`Self::put_back`] starts with an
    /// empty list, so the replies are read again.
    #[inline(always)]
    pub(crate) fn take() -> Self {
        match THREAD_REPLIES.take() {
            Some(thread_replies) => Self(thread_replies),
            None => Self::new(),
        }
    }

    #[cold]
    #[inline(never)]
    fn new() -> Self {
        // Fails during thread exit: the replies of the thread then leak.
        let _registered = END.try_with(|_end| ());
        Self(ManuallyDrop::new(Box::default()))
    }

    #[inline(always)]
    pub(crate) fn put_back(self) {
        THREAD_REPLIES.set(Some(self.0));
    }
}

/// The settings for the replies of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplyTemplate {
    pub(crate) endpoint: EndpointIndex,
    options: ReplyOptions,
    /// Whether a kubelet gets a warning while the endpoint is degraded.
    warns: bool,
    /// Which fields that depend on the state are sent.
    fields: StateFields,
}

/// The current replies of one cache.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) plain: Plain,
    /// The distinct replies, each by format.
    views: Vec<[Views; Format::ALL.len()]>,
    by_audience: [usize; Audience::ALL.len()],
    states: [EndpointState; Audience::ALL.len()],
    /// For replies that exclude checks.
    snapshot: Snapshot,
}

/// The reply of an endpoint without some of its checks.
#[derive(Debug)]
pub(crate) struct FilteredReply {
    pub(crate) state: EndpointState,
    pub(crate) status: Status,
    /// Header fields in addition to those of the route.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// The reply to a request without query and token; nearly every probe is such a request.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) views: Views,
    /// The same reply for `OPTIONS`, the default method of HAProxy's checks.
    pub(crate) options: Views,
    pub(crate) state: EndpointState,
    to: To,
}

/// Which of the clients that send neither a query nor a token get the plain reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    None,
    /// Clients that accept any format.
    AnyFormat,
    All,
}

impl Plain {
    /// Whether a client gets the plain reply. `accepts_any`: whether the client accepts any format.
    #[inline(always)]
    pub(crate) const fn is_for(&self, accepts_any: bool) -> bool {
        self.to as u8 + accepts_any as u8 >= To::All as u8
    }
}

/// The reply for clients that do not see details, then the reply for clients that do.
pub(crate) type Views = [StaticReply; 2];

/// The reply about one check, by format; only clients that see details get it.
pub(crate) type Single = [StaticReply; Format::ALL.len()];

impl Replies {
    /// The state that is reported to an audience.
    pub(crate) const fn state(&self, audience: Audience) -> EndpointState {
        self.states[audience as usize]
    }

    pub(crate) fn reply(
        &self,
        audience: Audience,
        format: Format,
        sees_details: bool,
    ) -> Option<&StaticReply> {
        let views = self.views.get(self.by_audience[audience as usize])?;
        Some(&views[format as usize][usize::from(sees_details)])
    }
}

impl ReplyTemplate {
    pub(crate) fn new(
        endpoint: EndpointIndex,
        mut options: ReplyOptions,
        warns: bool,
        fields: StateFields,
    ) -> Self {
        let headers = &mut options.headers;
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cache-control")) {
            headers.push(("Cache-Control".to_owned(), "no-store".to_owned()));
        }
        Self { endpoint, options, warns, fields }
    }

    fn headers(&self) -> &[(String, String)] {
        &self.options.headers
    }

    /// Whether all clients see details, and whether authenticated clients do.
    const fn shown(&self) -> [bool; 2] {
        match self.options.details {
            Details::Always => [true, true],
            Details::Authenticated => [false, true],
            Details::Never => [false, false],
        }
    }

    /// Renders the reply for clients without details and the reply for clients with details. They
    /// may be the same.
    fn views<'b>(
        &self,
        state: EndpointState,
        weight: Option<u32>,
        reply: impl Fn(bool) -> Option<Reply<'b>>,
    ) -> Option<Views> {
        let [all, some] = self.shown();
        let render = |reply: Reply<'_>| {
            let fields = fields_of(self.fields, (state, reply.code), weight, self.headers());
            self.render(&reply, &fields)
        };
        let first = render(reply(all)?)?;
        let second = if all == some { first.clone() } else { render(reply(some)?)? };
        Some([first, second])
    }

    fn render(&self, reply: &Reply<'_>, fields: &[(&'static str, String)]) -> Option<StaticReply> {
        let own = self.headers().iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = std::iter::once(("Content-Type", reply.content_type)).chain(own);
        let all = all.chain(fields.iter().map(|(name, value)| (*name, value.as_str())));
        StaticReply::whole(Status::new(reply.code)?, all, reply.body.to_vec()).ok()
    }

    fn replies(&self, board: &Board) -> Option<Replies> {
        let mut views: Vec<[Views; Format::ALL.len()]> = Vec::new();
        let mut by_audience = [0; Audience::ALL.len()];
        let mut seen: Vec<(u16, *const u8)> = Vec::new();
        let endpoint = board.endpoint(self.endpoint)?;
        for audience in Audience::ALL {
            let of = |format, shown| board.reply(self.endpoint, audience, format, shown);
            let text = of(Format::Text, true)?;
            // Audiences with the same code and text share the rendered replies.
            let key = (text.code, text.body.as_ptr());
            let at = match seen.iter().position(|known| *known == key) {
                Some(at) => at,
                None => {
                    let state = endpoint.answer(audience).0.state;
                    let views_of = |format| self.views(state, endpoint.weight(), |shown| of(format, shown));
                    let [a, b, c, d] = Format::ALL.map(views_of);
                    views.push([a?, b?, c?, d?]);
                    seen.push(key);
                    seen.len() - 1
                }
            };
            by_audience[audience as usize] = at;
        }
        let states = Audience::ALL.map(|audience| endpoint.answer(audience).0.state);
        let kubelet = Audience::Kubelet as usize;
        if self.warns && states[kubelet] == EndpointState::Degraded {
            let [all, some] = self.shown().map(|shown| warning(board, self.endpoint, shown, self.headers()));
            let warning = [all?, some?];
            by_audience[kubelet] = views.len();
            views.push(Format::ALL.map(|_| warning.clone()));
        }
        let to = match (views.len(), self.options.format) {
            (1, Some(_)) => To::All,
            (1, None) => To::AnyFormat,
            // Replies differ by audience.
            _ => To::None,
        };
        let plain = views.first()?[self.options.format.unwrap_or(Format::Text) as usize].clone();
        let allowing = |view: &StaticReply| view.clone().header("Allow", &self.options.allow).ok();
        let options = match self.options.details {
            Details::Authenticated => [allowing(&plain[0])?, allowing(&plain[1])?],
            // Both views are the same.
            Details::Always | Details::Never => {
                let one = allowing(&plain[0])?;
                [one.clone(), one]
            }
        };
        let plain = Plain { views: plain, options, state: states[0], to };
        let snapshot = board.snapshot(self.endpoint)?;
        Some(Replies { plain, views, by_audience, states, snapshot })
    }

    fn single(&self, board: &Board, place: usize) -> Option<Single> {
        let state = match board.endpoint(self.endpoint)?.classes().get(place)? {
            Class::Degraded => EndpointState::Degraded,
            Class::Down | Class::Unknown => EndpointState::Down,
            Class::Maintenance => EndpointState::Maintenance,
            Class::Up => EndpointState::Up,
        };
        let mut body = Vec::new();
        let [a, b, c, d] = Format::ALL.map(|format| {
            let reply = board.check_reply(self.endpoint, place, format, &mut body)?;
            // The weight field describes an endpoint, so a reply about one check has none.
            self.render(&reply, &fields_of(self.fields, (state, reply.code), None, self.headers()))
        });
        Some([a?, b?, c?, d?])
    }
}

impl ReplyCache {
    /// Builds a cache and its first replies, which the caller publishes. `place` must be unique in
    /// the registry. `None` if a header field is invalid.
    pub(crate) fn build(
        template: ReplyTemplate,
        place: usize,
        triggers: Box<[RunTrigger]>,
        board: &Board,
        probe_counters: &Arc<ProbeCounters>,
        published: &Arc<Published>,
    ) -> Option<(Self, CacheReplies)> {
        let all = Arc::new(template.replies(board)?);
        let uses = &board.endpoint(template.endpoint)?.config().uses;
        let singles = if template.options.has_singles { 0..uses.len() } else { 0..0 };
        let singles: Singles = singles.map(|place| template.single(board, place)).collect::<Option<_>>()?;
        let names = uses.iter().enumerate();
        let names = names.map(|(place, one)| Some((board.check_name(one.check)?.as_bytes().into(), place)));
        let names = names.collect::<Option<_>>()?;
        let cached_at = if triggers.is_empty() { place } else { usize::MAX };
        let (probe_counters, published) = (Arc::clone(probe_counters), Arc::clone(published));
        let cache = Self { template, published, probe_counters, place, cached_at, triggers, names };
        Some((cache, CacheReplies { all, singles }))
    }

    /// The format of the route; `None`: selected by `Accept`.
    pub(crate) const fn format(&self) -> Option<Format> {
        self.template.options.format
    }

    /// The methods of the route.
    pub(crate) fn allow(&self) -> &str {
        &self.template.options.allow
    }

    /// Which clients see details.
    pub(crate) const fn details(&self) -> Details {
        self.template.options.details
    }

    pub(crate) const fn template(&self) -> &ReplyTemplate {
        &self.template
    }

    pub(crate) const fn place(&self) -> usize {
        self.place
    }

    /// The current replies, if the thread has cached them; otherwise the caller calls
    /// [`Self::read`].
    #[inline(always)]
    pub(crate) fn known<'k>(&self, thread_replies: &'k ThreadReplies) -> Option<&'k CachedReply> {
        let number = self.published.number();
        thread_replies.0.get(self.cached_at).filter(|cached| cached.number == number)
    }

    fn request_runs(&self) {
        self.triggers.iter().for_each(RunTrigger::request);
    }

    /// Reads the current replies and caches them in the thread. Requests runs of on-demand checks.
    #[cold]
    #[inline(never)]
    pub(crate) fn read<'k>(&self, thread_replies: &'k mut ThreadReplies) -> &'k CachedReply {
        self.request_runs();
        let set = self.published.load();
        let replies = &set.caches[self.place].all;
        let cached =
            |number| CachedReply { number, replies: Arc::clone(replies), own: self.probe_counters.own() };
        if thread_replies.0.len() <= self.place {
            // No set has the number 0.
            thread_replies.0.resize_with(self.place + 1, || cached(0));
        }
        if thread_replies.0[self.place].number != set.number() {
            thread_replies.0[self.place] = cached(set.number());
        }
        &thread_replies.0[self.place]
    }

    /// Counters of probes of the endpoint.
    pub(crate) fn probe_counters(&self) -> &ProbeCounters {
        &self.probe_counters
    }

    /// Header fields of every reply.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.template.headers().iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Renders the reply without the checks `names`, for a client that sees details. `None` if the
    /// code is not a valid status.
    pub(crate) fn without(
        &self,
        replies: &Replies,
        names: &[String],
        audience: Audience,
        format: Format,
    ) -> Option<FilteredReply> {
        let place_of = |name: &String| self.names.get(name.as_bytes()).copied();
        let out: Vec<usize> = names.iter().filter_map(place_of).collect();
        let mut unknown: Vec<&str> =
            names.iter().filter(|name| place_of(name).is_none()).map(String::as_str).collect();
        // The Kubernetes API server sorts unknown names, too.
        unknown.sort_unstable();
        let mut body = Vec::new();
        let excluded = Excluded { out: &out, unknown: &unknown };
        let (state, code) = replies.snapshot.reply_without(&excluded, audience, format, &mut body);
        let weight = replies.snapshot.weight();
        let fields = fields_of(self.template.fields, (state, code), weight, self.template.headers());
        Some(FilteredReply { state, status: Status::new(code)?, fields, body })
    }

    /// Calls `found` with the reply about the check `name`, for a client that sees details; with
    /// `None` if there is none.
    pub(crate) fn with_single<T>(
        &self,
        name: &[u8],
        format: Format,
        found: impl FnOnce(Option<&StaticReply>) -> T,
    ) -> T {
        self.request_runs();
        let set = self.published.load();
        let single = self.names.get(name).and_then(|&place| set.caches.get(self.place)?.singles.get(place));
        found(single.map(|single| &single[format as usize]))
    }

    /// Renders the current replies of the endpoint. `None` only if a header field is invalid, which
    /// [`Self::build`] rules out.
    pub(crate) fn rendered(&self, board: &Board) -> Option<Arc<Replies>> {
        self.template.replies(board).map(Arc::new)
    }

    /// Renders the current reply about one check.
    pub(crate) fn rendered_single(&self, board: &Board, place: usize) -> Option<Single> {
        self.template.single(board, place)
    }
}
