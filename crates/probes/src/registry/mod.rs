//! The registry of checks and endpoints: takes results and commands, and publishes replies that
//! request threads read without a lock.
//!
//! One lock protects the health board; probes never take this lock.

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
    ForcedState, Reason, Target, Time,
};
pub use operate::{Subject, endpoint_target};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use succession::Predecessor;
pub use succession::SameChecks;

/// Threshold for a step of the system clock: a larger change counts as a step, gradual adjustment
/// (slewing) does not.
pub const CLOCK_STEP_MIN: Duration = Duration::from_secs(1);

/// Callback that runs after changed replies of endpoints were published.
type Follower = Box<dyn Fn(&Serving<'_>) + Send>;

/// Callback that renders the text of the endpoint at a position, for a protocol other than HTTP.
type Renderer = Box<dyn Fn(&Serving<'_>, usize) -> Vec<u8> + Send>;

/// The health of a process: its checks, its endpoints and the replies to probes. Shared by threads.
///
/// Every method that changes a state takes the current time, in nanoseconds since an origin that
/// the caller chooses. When the method returns, the next probe gets the new reply.
pub struct Registry {
    /// By position.
    checks: Vec<CheckIndex>,
    /// By position.
    endpoints: Vec<EndpointPlace>,
    prober_stats: ProberStats,
    /// The replies to all probes.
    published: Arc<Published>,
    inner: Mutex<RegistryInner>,
    /// Notified after every result.
    found: Condvar,
    /// Whether this registry reports transitions. Of the registries before and after a reload, only
    /// one does.
    reports: AtomicBool,
    /// The registries that this one replaced, newest first.
    predecessors: OnceLock<Vec<Predecessor>>,
}

/// The index of an endpoint on the board, and its options.
#[derive(Clone, Copy, Debug)]
struct EndpointPlace {
    index: EndpointIndex,
    options: EndpointOptions,
}

struct RegistryInner {
    board: Board,
    /// Unix time at [`Time::ZERO`].
    unix: Duration,
    caches: Vec<Arc<ReplyCache>>,
    /// For each check: the caches that have a reply for this single check, and the position of that
    /// reply in each cache.
    singles: Vec<Vec<(Arc<ReplyCache>, usize)>>,
    /// Renderers, in the order of their texts in a `ReplySet`.
    renderers: Vec<Renderer>,
    followers: Vec<Follower>,
    /// Triggers of on-demand checks, by position of the check.
    triggers: HashMap<usize, RunTrigger>,
    /// What checks follow, by position of the check.
    followed: HashMap<usize, Subject>,
    sinks: Vec<Arc<dyn TransitionSink>>,
}

/// The states of endpoints, for followers and renderers.
pub struct Serving<'a> {
    board: &'a Board,
    endpoints: &'a [EndpointPlace],
    /// Endpoints whose replies changed; `None` for all endpoints.
    rendered: Option<&'a [EndpointIndex]>,
}

impl RegistryInner {
    /// The triggers of the checks that the endpoint uses, directly or through checks that follow
    /// another check or endpoint.
    fn triggers_of(&self, endpoint: EndpointIndex) -> Box<[RunTrigger]> {
        let (mut checks, mut next) = (BTreeSet::new(), vec![Subject::Endpoint(endpoint)]);
        while let Some(subject) = next.pop() {
            match subject {
                Subject::All => {}
                Subject::Check(check) if checks.insert(check.as_usize()) => {
                    next.extend(self.followed.get(&check.as_usize()));
                }
                Subject::Check(_) => {}
                Subject::Endpoint(index) => {
                    let uses = self.board.endpoint(index).map(|endpoint| &endpoint.config().uses);
                    next.extend(uses.into_iter().flatten().map(|one| Subject::Check(one.check)));
                }
            }
        }
        checks.iter().filter_map(|check| self.triggers.get(check)).cloned().collect()
    }
}

impl Registry {
    /// A builder for a registry. `unix` is the Unix time at [`Time::ZERO`].
    #[must_use]
    pub fn builder(now: Time, unix: Duration) -> RegistryBuilder {
        RegistryBuilder::new(now, unix)
    }

    /// A builder for the registry that replaces this one at a reload. It uses the same origin of
    /// times, continues the prober statistics, and does not report transitions before
    /// [`Self::report_instead_of`].
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

    /// Adds triggers of on-demand checks, by position of the check. Must be called before the first
    /// [`Self::cache`]: an existing cache does not use new triggers.
    pub fn run_on_demand(&self, triggers: impl Iterator<Item = (usize, RunTrigger)>) {
        self.lock().triggers.extend(triggers);
    }

    /// Adds what checks follow, by position of the check: a probe that triggers such a check also
    /// triggers the on-demand checks behind it. Must be called before the first [`Self::cache`].
    pub fn follow_subjects(&self, followed: impl Iterator<Item = (usize, Subject)>) {
        self.lock().followed.extend(followed);
    }

    /// The triggers of the on-demand checks that the endpoint at position `endpoint` uses, also
    /// through checks that follow other checks or endpoints.
    #[must_use]
    pub fn triggers_of(&self, endpoint: usize) -> Box<[RunTrigger]> {
        let place = self.endpoints.get(endpoint);
        place.map(|place| self.lock().triggers_of(place.index)).unwrap_or_default()
    }

    /// The replies of a route. Routes with the same options share one cache. `None` if there is no
    /// such endpoint or a header field is invalid.
    pub fn cache(&self, options: ReplyOptions) -> Option<Arc<ReplyCache>> {
        let position = options.endpoint;
        let EndpointPlace { index, options: endpoint } = *self.endpoints.get(position)?;
        let has_singles = options.has_singles;
        let template = ReplyTemplate::new(index, options, endpoint.warns_kubelets, endpoint.fields);
        let mut inner = self.lock();
        if let Some(cache) = inner.caches.iter().find(|cache| *cache.template() == template) {
            return Some(Arc::clone(cache));
        }
        let probe_counters = self.prober_stats.probe_counters(position)?;
        let triggers = inner.triggers_of(index);
        let place = inner.caches.len();
        let (cache, replies) =
            ReplyCache::build(template, place, triggers, &inner.board, probe_counters, &self.published)?;
        let cache = Arc::new(cache);
        self.publish(&inner, |set| set.caches.push(replies));
        inner.caches.push(Arc::clone(&cache));
        if has_singles {
            let RegistryInner { board, singles, .. } = &mut *inner;
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

    /// Adds a text for each endpoint, rendered by `render`, to this and every later set. Returns
    /// the index of these texts for [`ReplySet::text`]. `render` must not call the registry.
    pub fn render(&self, render: impl Fn(&Serving<'_>, usize) -> Vec<u8> + Send + 'static) -> usize {
        let mut inner = self.lock();
        let serving = Serving { board: &inner.board, endpoints: &self.endpoints, rendered: None };
        let texts = (0..self.endpoints.len()).map(|at| render(&serving, at).into()).collect();
        self.publish(&inner, |set| set.texts.push(texts));
        inner.renderers.push(Box::new(render));
        inner.renderers.len() - 1
    }

    /// Publishes a copy of the set of replies, modified by `change`. The caller holds the lock, so
    /// only one thread publishes at a time.
    fn publish(&self, _held: &RegistryInner, change: impl FnOnce(&mut ReplySet)) {
        let mut set = ReplySet::clone(&self.published.load());
        change(&mut set);
        self.published.publish(set);
    }

    /// Calls `follower` now and after every change of replies of endpoints. `follower` must neither
    /// block nor call the registry.
    pub fn follow(&self, follower: impl Fn(&Serving<'_>) + Send + 'static) {
        let mut inner = self.lock();
        follower(&Serving { board: &inner.board, endpoints: &self.endpoints, rendered: None });
        inner.followers.push(Box::new(follower));
    }

    /// Calls `look` with the board. `look` must not call the registry.
    pub fn with_board<T>(&self, look: impl FnOnce(&Board) -> T) -> T {
        look(&self.lock().board)
    }

    /// Applies a result of the check at position `check` to this registry and to those that it
    /// replaced. Returns the interval from the start of this run to the start of the next run.
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
                // A target that was never up may still be starting: `fast_interval` detects its
                // first success sooner.
                let is_new = check.last_success_at().is_none();
                let fast = if is_new { check.config().fast_interval } else { Duration::MAX };
                next = check.interval().min(fast);
            }
            changed
        });
        self.found.notify_all();
        next
    }

    /// The time at which [`Self::tick`] must be called next, for this registry or one that it
    /// replaced.
    #[must_use]
    pub fn deadline(&self) -> Time {
        let own = self.lock().board.deadline();
        let predecessors = self.predecessors().map(|(predecessor, _)| predecessor.lock().board.deadline());
        predecessors.fold(own, Time::min)
    }

    /// Applies the changes that time alone causes: results become stale, maintenance and grace
    /// periods end.
    pub fn tick(&self, now: Time) {
        self.change(|board| Changed::of(&board.tick(now)));
        self.predecessors()
            .for_each(|(predecessor, _)| predecessor.change(|board| Changed::of(&board.tick(now))));
    }

    /// Corrects the times of day in replies if the system clock was set by more than
    /// [`CLOCK_STEP_MIN`]. Returns whether the clock was set. `read` returns the Unix time and the
    /// [`Time`] of the same moment, or `None` if the clock cannot be read. `read` runs under the
    /// lock, so that an older reading cannot replace a newer one.
    pub fn follow_clock(&self, read: impl FnOnce() -> Option<(Duration, Time)>) -> bool {
        let mut inner = self.lock();
        let Some((time_of_day, now)) = read() else { return false };
        let unix = time_of_day.saturating_sub(Duration::from_nanos(now.as_nanos()));
        if inner.unix.abs_diff(unix) <= CLOCK_STEP_MIN {
            return false;
        }
        inner.unix = unix;
        self.change_locked(inner, |board| Changed::of(&board.set_unix_at_zero(Some(unix), now)));
        true
    }

    /// Forces all readiness endpoints down, with `reason`, until the process ends.
    pub fn fail(&self, reason: &str, now: Time) {
        let reason = Reason::new(reason.as_bytes());
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

    /// Changes the board, publishes the replies that changed, and reports the transitions.
    fn change(&self, change: impl FnOnce(&mut Board) -> Changed) {
        self.change_locked(self.lock(), change);
    }

    fn change_locked(
        &self,
        mut inner: MutexGuard<'_, RegistryInner>,
        change: impl FnOnce(&mut Board) -> Changed,
    ) {
        let changed = change(&mut inner.board);
        self.show(&inner, &changed);
        let reports = self.reports.load(Ordering::Acquire);
        let report = if reports { Report::record(&inner, &changed.events) } else { Report::default() };
        drop(inner);
        // After the lock is released, so that a slow sink does not block other threads.
        report.write();
    }

    /// Renders the replies that changed, publishes them as one set, and calls the followers.
    fn show(&self, inner: &RegistryInner, changed: &Changed) {
        let RegistryInner { board, caches, singles, renderers, followers, .. } = inner;
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
        self.publish(inner, |set| {
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

    fn lock(&self) -> MutexGuard<'_, RegistryInner> {
        // After a panic under the lock, the board is valid: at worst its last change was not
        // published, and followers and sinks were not called.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn record(inner: &RegistryInner, events: &[Event]) -> Self {
        if events.is_empty() || inner.sinks.is_empty() {
            return Self::default();
        }
        let transitions = events.iter().filter_map(|event| Transition::of(event, &inner.board));
        let report = Self { sinks: inner.sinks.clone(), transitions: transitions.collect() };
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

/// Owned copy of [`doorbell_health::Changes`], which borrows from the board.
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

    /// The state reported to `audience`, and whether the endpoint serves traffic. Used by protocols
    /// with their own status values.
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
