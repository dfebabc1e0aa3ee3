//! The replies of one health route, rendered when something changes and read by the ring threads without a lock.
//!
//! Does not know about: requests.
//!
//! Every thread keeps what it read last. A probe compares the number of the board's newest set to see that it still holds, which costs
//! less than counting a reference; a thread that finds another number reads anew.

use super::fields::fields_of;
use super::published::{CacheReplies, Published, Singles};
use super::warning::warning;
use crate::config::model::{Details, HealthFormat, HealthRoute, StateFields};
use crate::http::{StaticReply, Status};
use doorbell_checks::RunRequest;
use doorbell_health::{Audience, Board, Class, EndpointIndex, EndpointState, Format, Left, Reply, Snapshot};
use doorbell_probes::{ProbeCounters, ThreadCounters};
use std::cell::Cell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A health route, whose replies are in the set of its board.
#[derive(Debug)]
pub(crate) struct ReplyCache {
    template: ReplyTemplate,
    published: Arc<Published>,
    probe_counters: Arc<ProbeCounters>,
    /// Its place in the set and among what threads keep.
    place: usize,
    /// Where a probe looks first: no thread keeps anything there for a cache with checks that run on demand, so each probe of it takes the
    /// way on which they are asked, and all other caches need no look at whether there are any.
    cached_at: usize,
    /// Checks that run on demand.
    demands: Box<[RunRequest]>,
    /// The places of the checks.
    names: HashMap<Box<[u8]>, usize>,
}

/// What a thread read last of one cache.
#[derive(Debug)]
pub(crate) struct CachedReply {
    /// Of the set.
    number: u64,
    pub(crate) replies: Arc<Replies>,
    /// Where this thread counts probes of the endpoint.
    pub(crate) own: ThreadCounters,
}

/// What a thread read last, by the place of the cache. To be put back where it was taken.
#[derive(Debug)]
#[must_use]
pub(crate) struct ThreadReplies(ManuallyDrop<Box<CachedReplies>>);

type CachedReplies = Vec<CachedReply>;

thread_local! {
    /// Never dropped by itself, so that no look asks whether the thread is about to end: [`END`] does that.
    static THREAD_REPLIES: Cell<Option<ManuallyDrop<Box<CachedReplies>>>> = const { Cell::new(None) };
    /// Touched once a thread, where the first look finds nothing.
    static END: End = const { End };
}

/// Gives back what a thread read last when the thread ends: a reload has other threads, and replies would stay behind each time.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        drop(THREAD_REPLIES.take().map(ManuallyDrop::into_inner));
    }
}

impl ThreadReplies {
    /// Of this thread. Whoever takes it a second time meanwhile has nothing, and reads anew.
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
        // A thread that is about to end may look once more, and then leaves something behind.
        let _registered = END.try_with(|_end| ());
        Self(ManuallyDrop::new(Box::default()))
    }

    #[inline(always)]
    pub(crate) fn put_back(self) {
        THREAD_REPLIES.set(Some(self.0));
    }
}

/// How replies look, whatever the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplyTemplate {
    pub(super) endpoint: EndpointIndex,
    /// Nothing where `Accept` decides.
    pub(super) format: Option<Format>,
    pub(super) details: Details,
    pub(super) headers: Vec<(String, String)>,
    /// What `OPTIONS` is told beside: the methods of the route.
    pub(super) allow: String,
    pub(super) has_singles: bool,
    /// Whether a kubelet is told of "degraded" by a warning.
    pub(super) warns: bool,
    /// What is said in header fields beside.
    pub(super) fields: StateFields,
}

/// The replies of this moment.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) plain: Plain,
    /// By format.
    views: Vec<[Views; Format::ALL.len()]>,
    by_audience: [usize; Audience::ALL.len()],
    states: [EndpointState; Audience::ALL.len()],
    /// For answers that leave checks out.
    snapshot: Snapshot,
}

/// What an endpoint answers without some of its checks.
#[derive(Debug)]
pub(crate) struct Without {
    pub(crate) state: EndpointState,
    pub(crate) status: Status,
    /// Beside those of the route.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// What nearly every probe is answered with.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) views: Views,
    /// The same for `OPTIONS`, which HAProxy sends.
    pub(crate) options: Views,
    pub(crate) state: EndpointState,
    to: To,
}

/// Who gets a plain reply, of those who ask without a query and without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Nobody,
    /// Those who take anything.
    Undemanding,
    Everybody,
}

impl Plain {
    /// Whether it is for those who take anything, or not.
    #[inline(always)]
    pub(crate) const fn is_for(&self, takes_anything: bool) -> bool {
        self.to as u8 + takes_anything as u8 >= To::Everybody as u8
    }
}

/// One reply for everybody, and one for those who see details.
pub(crate) type Views = [StaticReply; 2];

/// The reply about one check, by format; only clients that see details get it.
pub(super) type Single = [StaticReply; Format::ALL.len()];

impl Replies {
    /// The state that is reported to these.
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
    pub(super) fn of(
        route: &HealthRoute,
        endpoint: EndpointIndex,
        headers: &[(String, String)],
        allow: &str,
        has_singles: bool,
        warns: bool,
        fields: StateFields,
    ) -> Self {
        let mut headers = headers.to_vec();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cache-control")) {
            headers.push(("Cache-Control".to_owned(), "no-store".to_owned()));
        }
        let format = match route.format {
            HealthFormat::Auto => None,
            HealthFormat::HealthJson => Some(Format::HealthJson),
            HealthFormat::KubeVerbose => Some(Format::Kube),
            HealthFormat::Spring => Some(Format::Spring),
            HealthFormat::Text => Some(Format::Text),
        };
        let allow = allow.to_owned();
        Self { endpoint, format, details: route.details, headers, allow, has_singles, warns, fields }
    }

    /// Whether everybody sees details, and whether those do who may.
    const fn shown(&self) -> [bool; 2] {
        match self.details {
            Details::Always => [true, true],
            Details::Authenticated => [false, true],
            Details::Never => [false, false],
        }
    }

    /// The reply for everybody and the one for those who see details, of which a route needs one or both.
    fn views<'b>(
        &self,
        state: EndpointState,
        weight: Option<u32>,
        reply: impl Fn(bool) -> Option<Reply<'b>>,
    ) -> Option<Views> {
        let [all, some] = self.shown();
        let render = |reply: Reply<'_>| {
            let fields = fields_of(self.fields, (state, reply.code), weight, &self.headers);
            self.render(&reply, &fields)
        };
        let first = render(reply(all)?)?;
        let second = if all == some { first.clone() } else { render(reply(some)?)? };
        Some([first, second])
    }

    fn render(&self, reply: &Reply<'_>, fields: &[(&'static str, String)]) -> Option<StaticReply> {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
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
            // Audiences that are told the same share what was rendered for them.
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
            let [all, some] = self.shown().map(|shown| warning(board, self.endpoint, shown, &self.headers));
            let told = [all?, some?];
            by_audience[kubelet] = views.len();
            views.push(Format::ALL.map(|_| told.clone()));
        }
        let to = match (views.len(), self.format) {
            (1, Some(_)) => To::Everybody,
            (1, None) => To::Undemanding,
            // It matters who asks.
            _ => To::Nobody,
        };
        let plain = views.first()?[self.format.unwrap_or(Format::Text) as usize].clone();
        let allowing = |view: &StaticReply| view.clone().header("Allow", &self.allow).ok();
        let options = match self.details {
            Details::Authenticated => [allowing(&plain[0])?, allowing(&plain[1])?],
            // One for both.
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
            // A check has no weight of its own.
            self.render(&reply, &fields_of(self.fields, (state, reply.code), None, &self.headers))
        });
        Some([a?, b?, c?, d?])
    }
}

impl ReplyCache {
    /// `None` when the fields of the route cannot be sent. No other cache of the board has this place; its replies are to be published.
    pub(super) fn build(
        template: ReplyTemplate,
        place: usize,
        demands: Box<[RunRequest]>,
        board: &Board,
        probe_counters: &Arc<ProbeCounters>,
        published: &Arc<Published>,
    ) -> Option<(Self, CacheReplies)> {
        let all = Arc::new(template.replies(board)?);
        let uses = &board.endpoint(template.endpoint)?.config().uses;
        let singles = if template.has_singles { 0..uses.len() } else { 0..0 };
        let singles: Singles = singles.map(|place| template.single(board, place)).collect::<Option<_>>()?;
        let names = uses.iter().enumerate();
        let names = names.map(|(place, one)| Some((board.check_name(one.check)?.as_bytes().into(), place)));
        let names = names.collect::<Option<_>>()?;
        let cached_at = if demands.is_empty() { place } else { usize::MAX };
        let (probe_counters, published) = (Arc::clone(probe_counters), Arc::clone(published));
        let cache = Self { template, published, probe_counters, place, cached_at, demands, names };
        Some((cache, CacheReplies { all, singles }))
    }

    /// The format of the route; nothing where `Accept` decides.
    pub(crate) const fn format(&self) -> Option<Format> {
        self.template.format
    }

    pub(super) const fn template(&self) -> &ReplyTemplate {
        &self.template
    }

    pub(super) const fn place(&self) -> usize {
        self.place
    }

    /// The replies of this moment, if the thread has them; otherwise they are to be read anew.
    #[inline(always)]
    pub(crate) fn known<'k>(&self, thread_replies: &'k ThreadReplies) -> Option<&'k CachedReply> {
        let number = self.published.number();
        thread_replies.0.get(self.cached_at).filter(|cached| cached.number == number)
    }

    fn ask(&self) {
        self.demands.iter().for_each(RunRequest::ask);
    }

    /// The replies of this moment, from now on known to the thread; checks that run on demand are asked.
    #[cold]
    #[inline(never)]
    pub(crate) fn read<'k>(&self, thread_replies: &'k mut ThreadReplies) -> &'k CachedReply {
        self.ask();
        let set = self.published.load();
        let replies = &set.caches[self.place].all;
        let cached =
            |number| CachedReply { number, replies: Arc::clone(replies), own: self.probe_counters.own() };
        if thread_replies.0.len() <= self.place {
            // No set has this number.
            thread_replies.0.resize_with(self.place + 1, || cached(0));
        }
        if thread_replies.0[self.place].number != set.number() {
            thread_replies.0[self.place] = cached(set.number());
        }
        &thread_replies.0[self.place]
    }

    /// Where probes of the endpoint are counted.
    pub(crate) fn probe_counters(&self) -> &ProbeCounters {
        &self.probe_counters
    }

    /// Fields of every reply.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.template.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What it answers without the checks of these names, to somebody who sees details. `None` when that has no status.
    pub(crate) fn without(
        &self,
        replies: &Replies,
        names: &[String],
        audience: Audience,
        format: Format,
    ) -> Option<Without> {
        let place_of = |name: &String| self.names.get(name.as_bytes()).copied();
        let out: Vec<usize> = names.iter().filter_map(place_of).collect();
        let mut unknown: Vec<&str> =
            names.iter().filter(|name| place_of(name).is_none()).map(String::as_str).collect();
        // As the API server lists them.
        unknown.sort_unstable();
        let mut body = Vec::new();
        let left = Left { out: &out, unknown: &unknown };
        let (state, code) = replies.snapshot.reply_without(&left, audience, format, &mut body);
        let weight = replies.snapshot.weight();
        let fields = fields_of(self.template.fields, (state, code), weight, &self.template.headers);
        Some(Without { state, status: Status::new(code)?, fields, body })
    }

    /// Gives the reply about one check of the endpoint to `found`, for a client that sees details.
    pub(crate) fn with_single<T>(
        &self,
        name: &[u8],
        format: Format,
        found: impl FnOnce(Option<&StaticReply>) -> T,
    ) -> T {
        self.ask();
        let set = self.published.load();
        let single = self.names.get(name).and_then(|&place| set.caches.get(self.place)?.singles.get(place));
        found(single.map(|single| &single[format as usize]))
    }

    /// The endpoint rendered anew, to be published. Nothing where the fields cannot be sent, which were good when the cache was made.
    pub(super) fn rendered(&self, board: &Board) -> Option<Arc<Replies>> {
        self.template.replies(board).map(Arc::new)
    }

    /// The reply about one check rendered anew.
    pub(super) fn rendered_single(&self, board: &Board, place: usize) -> Option<Single> {
        self.template.single(board, place)
    }
}
