//! The registry of checks and endpoints: results and commands go in; replies that request threads
//! read without a lock come out.
//!
//! Does not know about: how checks run, requests, clocks. One board behind one lock that no probe
//! takes.

mod build;
mod operate;
mod succession;
#[cfg(test)]
mod tests;

use crate::prober_stats::ProberStats;
use crate::replies::{Published, ReplyCache, ReplyOptions, ReplySet, ReplyTemplate};
use crate::transition::{Transition, TransitionSink};
use crate::trigger::RunTrigger;
pub use build::{EndpointOptions, RegistryBuilder};
use doorbell_health::{
    Audience, Board, CheckIndex, CheckResult, Command, Endpoint, EndpointIndex, EndpointState, Event, Forced,
    ForcedState, Note, Target, Time,
};
pub use operate::Subject;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use succession::Elder;
pub use succession::SameChecks;

/// Smallest difference between two times of day that counts as a step. Slow adjustment of a clock
/// is none.
pub const CLOCK_STEP_MIN: Duration = Duration::from_secs(1);

/// Called after changed replies of endpoints were published.
type Follower = Box<dyn Fn(&Serving<'_>) + Send>;

/// Renders the text of one endpoint, by its position, for another protocol.
type Renderer = Box<dyn Fn(&Serving<'_>, usize) -> Vec<u8> + Send>;

/// The health of a process: checks, endpoints, and the replies that probes get. Shared by threads.
///
/// Every method that changes a state takes the time, in nanoseconds since an origin of the caller's
/// choice, and returns once the next probe gets the new reply.
pub struct Registry {
    /// By position.
    checks: Vec<CheckIndex>,
    /// By position.
    endpoints: Vec<EndpointPlace>,
    prober_stats: ProberStats,
    /// The replies of all probes.
    published: Arc<Published>,
    inside: Mutex<Inside>,
    /// Notified of every result.
    found: Condvar,
    /// Whether this registry, and no other one of a succession, reports transitions.
    speaks: AtomicBool,
    /// The registries before this one, newest first.
    elders: OnceLock<Vec<Elder>>,
}

/// An endpoint on the board, and how it is served.
#[derive(Clone, Copy, Debug)]
struct EndpointPlace {
    index: EndpointIndex,
    options: EndpointOptions,
}

struct Inside {
    board: Board,
    /// The time of day at the origin of times.
    unix: Duration,
    caches: Vec<Arc<ReplyCache>>,
    /// For each check, the caches with a reply for this check alone, and its position in each.
    singles: Vec<Vec<(Arc<ReplyCache>, usize)>>,
    /// In the order of their texts in a set.
    renderers: Vec<Renderer>,
    followers: Vec<Follower>,
    /// Checks that run on demand, by position.
    triggers: HashMap<usize, RunTrigger>,
    sinks: Vec<Arc<dyn TransitionSink>>,
}

/// The states of endpoints, for followers and renderers.
pub struct Serving<'a> {
    board: &'a Board,
    endpoints: &'a [EndpointPlace],
    /// Endpoints whose replies changed; `None`: all of them.
    rendered: Option<&'a [EndpointIndex]>,
}

impl Inside {
    fn triggers_of(&self, endpoint: EndpointIndex) -> Box<[RunTrigger]> {
        let uses = self.board.endpoint(endpoint).map(|endpoint| &endpoint.config().uses);
        let triggers = uses.into_iter().flatten().filter_map(|one| self.triggers.get(&one.check.as_usize()));
        triggers.cloned().collect()
    }
}

impl Registry {
    /// An empty registry. `unix` is the time of day at the origin of times.
    #[must_use]
    pub fn builder(now: Time, unix: Duration) -> RegistryBuilder {
        RegistryBuilder::new(now, unix)
    }

    /// A registry that follows this one at a reload: with the same origin of times and the same
    /// prober statistics, and silent until [`Self::speak_after`].
    #[must_use]
    pub fn successor(&self, now: Time) -> RegistryBuilder {
        RegistryBuilder::new(now, self.lock().unix).after(self.prober_stats.clone())
    }

    /// Statistics of the probers.
    pub const fn prober_stats(&self) -> &ProberStats {
        &self.prober_stats
    }

    /// Reports transitions to `sink` from now on.
    pub fn report_to(&self, sink: Arc<dyn TransitionSink>) {
        self.lock().sinks.push(sink);
    }

    /// Adds triggers of checks that run on demand, by position. To be called before the first
    /// [`Self::cache`].
    pub fn run_on_demand(&self, triggers: impl Iterator<Item = (usize, RunTrigger)>) {
        self.lock().triggers.extend(triggers);
    }

    /// The triggers of the endpoint at this position.
    #[must_use]
    pub fn triggers_of(&self, endpoint: usize) -> Box<[RunTrigger]> {
        let place = self.endpoints.get(endpoint);
        place.map(|place| self.lock().triggers_of(place.index)).unwrap_or_default()
    }

    /// The replies of a route; routes with the same options share them. `None` if there is no such
    /// endpoint or a header field cannot be sent.
    pub fn cache(&self, options: ReplyOptions) -> Option<Arc<ReplyCache>> {
        let position = options.endpoint;
        let EndpointPlace { index, options: endpoint } = *self.endpoints.get(position)?;
        let has_singles = options.has_singles;
        let template = ReplyTemplate::new(index, options, endpoint.warns_kubelets, endpoint.fields);
        let mut inside = self.lock();
        if let Some(cache) = inside.caches.iter().find(|cache| *cache.template() == template) {
            return Some(Arc::clone(cache));
        }
        let probe_counters = self.prober_stats.probe_counters(position)?;
        let triggers = inside.triggers_of(index);
        let place = inside.caches.len();
        let (cache, replies) =
            ReplyCache::build(template, place, triggers, &inside.board, probe_counters, &self.published)?;
        let cache = Arc::new(cache);
        self.publish(&inside, |set| set.caches.push(replies));
        inside.caches.push(Arc::clone(&cache));
        if has_singles {
            let Inside { board, singles, .. } = &mut *inside;
            for (place, one) in board.endpoint(index)?.config().uses.iter().enumerate() {
                singles.get_mut(one.check.as_usize())?.push((Arc::clone(&cache), place));
            }
        }
        Some(cache)
    }

    /// Number of endpoints.
    pub(crate) const fn endpoints_len(&self) -> usize {
        self.endpoints.len()
    }

    /// The newest set of replies.
    pub const fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Adds a text for each endpoint to every set, rendered by `render`; returns its place for
    /// [`ReplySet::text`]. `render` must not call the registry.
    pub fn render(&self, render: impl Fn(&Serving<'_>, usize) -> Vec<u8> + Send + 'static) -> usize {
        let mut inside = self.lock();
        let serving = Serving { board: &inside.board, endpoints: &self.endpoints, rendered: None };
        let texts = (0..self.endpoints.len()).map(|at| render(&serving, at).into()).collect();
        self.publish(&inside, |set| set.texts.push(texts));
        inside.renderers.push(Box::new(render));
        inside.renderers.len() - 1
    }

    /// Replaces the set of replies by a copy changed by `change`. The lock is held, so that there
    /// is one change at a time.
    fn publish(&self, _held: &Inside, change: impl FnOnce(&mut ReplySet)) {
        let mut set = ReplySet::clone(&self.published.load());
        change(&mut set);
        self.published.publish(set);
    }

    /// Calls `follower` now, and whenever replies of endpoints change. It must neither wait nor
    /// call the registry.
    pub fn follow(&self, follower: impl Fn(&Serving<'_>) + Send + 'static) {
        let mut inside = self.lock();
        follower(&Serving { board: &inside.board, endpoints: &self.endpoints, rendered: None });
        inside.followers.push(Box::new(follower));
    }

    /// Reads the board. `look` must not call the registry.
    pub fn with_board<T>(&self, look: impl FnOnce(&Board) -> T) -> T {
        look(&self.lock().board)
    }

    /// Applies a result of the check at this position, here and in the registries before this one.
    /// Returns the interval from the start of this run to the next.
    pub fn found(&self, check: usize, result: &CheckResult<'_>, now: Time) -> Duration {
        let next = self.take_in(check, result, now);
        self.pass_on(check, result, now);
        next
    }

    fn take_in(&self, check: usize, result: &CheckResult<'_>, now: Time) -> Duration {
        let Some(&index) = self.checks.get(check) else { return Duration::MAX };
        let mut next = Duration::MAX;
        self.change(|board| {
            let changed = Changed::of(&board.apply(index, result, now));
            if let Some(check) = board.check(index) {
                // A check that was never up may just be starting: its success should be seen soon.
                let is_new = check.last_success_at().is_none();
                let fast = if is_new { check.config().fast_interval } else { Duration::MAX };
                next = check.interval().min(fast);
            }
            changed
        });
        self.found.notify_all();
        next
    }

    /// The time at which [`Self::tick`] is due for this registry or an earlier one.
    #[must_use]
    pub fn deadline(&self) -> Time {
        let own = self.lock().board.deadline();
        let elders = self.elders().map(|(elder, _)| elder.lock().board.deadline());
        elders.fold(own, Time::min)
    }

    /// Applies what follows from the passing of time alone: stale results, ends of maintenance,
    /// grace.
    pub fn tick(&self, now: Time) {
        self.change(|board| Changed::of(&board.tick(now)));
        self.elders().for_each(|(elder, _)| elder.change(|board| Changed::of(&board.tick(now))));
    }

    /// Shows times by the system's clock again after it was set by at least [`CLOCK_STEP_MIN`];
    /// false if it was not. `read` returns the time of day and the time now, read at one moment, or
    /// `None` if that failed. It is called under the lock, so that an older reading cannot replace
    /// a newer one.
    pub fn follow_clock(&self, read: impl FnOnce() -> Option<(Duration, Time)>) -> bool {
        let mut inside = self.lock();
        let Some((time_of_day, now)) = read() else { return false };
        let unix = time_of_day.saturating_sub(Duration::from_nanos(now.as_nanos()));
        if inside.unix.abs_diff(unix) <= CLOCK_STEP_MIN {
            return false;
        }
        inside.unix = unix;
        drop(inside);
        self.change(|board| Changed::of(&board.set_unix_at_zero(Some(unix), now)));
        true
    }

    /// Forces all readiness endpoints down, for this reason, until the process ends.
    pub fn fail(&self, reason: &str, now: Time) {
        let reason = Note::new(reason.as_bytes());
        self.change(|board| {
            let mut changed = Changed::default();
            for endpoint in self.readiness_endpoints() {
                let forced = Forced { state: ForcedState::Down, reason: reason.clone(), until: None };
                let command = Command::Force { target: Target::One(endpoint), forced: Some(forced) };
                changed.add(Changed::of(&board.command(command, now)));
            }
            changed
        });
    }

    fn readiness_endpoints(&self) -> impl Iterator<Item = EndpointIndex> {
        self.endpoints.iter().filter(|place| place.options.is_readiness).map(|place| place.index)
    }

    fn command(&self, command: Command, now: Time) {
        self.change(|board| Changed::of(&board.command(command, now)));
    }

    /// Changes the board, publishes the replies that are different now, and reports the
    /// transitions.
    fn change(&self, change: impl FnOnce(&mut Board) -> Changed) {
        let mut inside = self.lock();
        let changed = change(&mut inside.board);
        self.show(&inside, &changed);
        let speaks = self.speaks.load(Ordering::Acquire);
        let report = if speaks { Report::record(&inside, &changed.events) } else { Report::default() };
        drop(inside);
        // A sink may be slow; other threads do not wait for it.
        report.write();
    }

    /// Renders what is different, publishes all of it at once, and calls the followers.
    fn show(&self, inside: &Inside, changed: &Changed) {
        let Inside { board, caches, singles, renderers, followers, .. } = inside;
        let renewed = caches.iter().filter(|cache| changed.rendered.contains(&cache.template().endpoint));
        let replies: Vec<_> =
            renewed.filter_map(|cache| Some((cache.place(), cache.rendered(board)?))).collect();
        let alone = changed.checks.iter().filter_map(|check| singles.get(check.as_usize())).flatten();
        let views: Vec<_> = alone
            .filter_map(|(cache, place)| Some((cache.place(), *place, cache.rendered_single(board, *place)?)))
            .collect();
        if changed.rendered.is_empty() && views.is_empty() {
            return;
        }
        let serving = Serving { board, endpoints: &self.endpoints, rendered: Some(&changed.rendered) };
        let news: Vec<usize> =
            (0..self.endpoints.len()).filter(|&endpoint| serving.is_news(endpoint)).collect();
        self.publish(inside, |set| {
            for &endpoint in &news {
                set.states[endpoint] = Audience::ALL.map(|audience| serving.state(endpoint, audience));
                for (texts, render) in set.texts.iter_mut().zip(renderers) {
                    texts[endpoint] = render(&serving, endpoint).into();
                }
            }
            replies.into_iter().for_each(|(cache, replies)| set.caches[cache].all = replies);
            views.into_iter().for_each(|(cache, place, views)| set.caches[cache].singles.set(place, views));
        });
        if !changed.rendered.is_empty() {
            followers.iter().for_each(|follower| follower(&serving));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // A panic under the lock has at worst skipped followers and sinks.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Transitions of one change, and their receivers.
#[derive(Default)]
struct Report {
    sinks: Vec<Arc<dyn TransitionSink>>,
    transitions: Vec<Transition>,
}

impl Report {
    /// Allocates only if there are transitions and receivers.
    fn record(inside: &Inside, events: &[Event]) -> Self {
        if events.is_empty() || inside.sinks.is_empty() {
            return Self::default();
        }
        let transitions = events.iter().filter_map(|event| Transition::of(event, &inside.board));
        let report = Self { sinks: inside.sinks.clone(), transitions: transitions.collect() };
        report.each(|sink, transition| sink.record(transition));
        report
    }

    fn write(&self) {
        self.each(|sink, transition| sink.write(transition));
    }

    fn each(&self, call: impl Fn(&dyn TransitionSink, &Transition)) {
        for transition in &self.transitions {
            self.sinks.iter().for_each(|sink| call(&**sink, transition));
        }
    }
}

/// The changes of one call, kept beyond it.
#[derive(Debug, Default)]
struct Changed {
    events: Vec<Event>,
    rendered: Vec<EndpointIndex>,
    checks: Vec<CheckIndex>,
}

impl Changed {
    /// Allocates only if something changed.
    fn of(changes: &doorbell_health::Changes<'_>) -> Self {
        Self {
            events: changes.events.to_vec(),
            rendered: changes.rendered.to_vec(),
            checks: changes.checks.to_vec(),
        }
    }

    fn add(&mut self, more: Self) {
        let Self { events, mut rendered, mut checks } = more;
        rendered.retain(|one| !self.rendered.contains(one));
        checks.retain(|one| !self.checks.contains(one));
        self.events.extend(events);
        self.rendered.extend(rendered);
        self.checks.extend(checks);
    }
}

impl Serving<'_> {
    /// The endpoint at this position.
    #[must_use]
    pub fn endpoint(&self, endpoint: usize) -> Option<&Endpoint> {
        self.endpoints.get(endpoint).and_then(|place| self.board.endpoint(place.index))
    }

    /// Whether the replies of the endpoint at this position changed.
    #[must_use]
    pub fn is_news(&self, endpoint: usize) -> bool {
        let is_rendered = |those: &[EndpointIndex]| {
            self.endpoints.get(endpoint).is_some_and(|place| those.contains(&place.index))
        };
        self.rendered.is_none_or(is_rendered)
    }

    /// The name of a check.
    #[must_use]
    pub fn check_name(&self, check: CheckIndex) -> Option<&str> {
        self.board.check_name(check)
    }

    /// The state that an audience gets by a protocol with words of its own, and whether the
    /// endpoint serves.
    #[must_use]
    pub fn state(&self, endpoint: usize, audience: Audience) -> (EndpointState, bool) {
        let Some(endpoint) = self.endpoint(endpoint) else { return (EndpointState::Down, false) };
        let (verdict, code) = endpoint.answer(audience);
        (verdict.state, code < 400 && matches!(verdict.state, EndpointState::Degraded | EndpointState::Up))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("checks", &self.checks)
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Serving<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("rendered", &self.rendered).finish_non_exhaustive()
    }
}
