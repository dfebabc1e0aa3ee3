//! The health of a running server: what checks and the life cycle say goes in, and replies that ring threads read without a lock come
//! out.
//!
//! Does not know about: running checks, requests. One board behind one lock, which nobody takes who answers a request.

pub(crate) mod agent;
mod build;
mod events;
mod fields;
mod log_lines;
mod operate;
mod published;
mod reply_cache;
mod succession;
#[cfg(test)]
mod tests;
mod view;
mod warning;

use crate::config::model::{Config, DegradedVia, Health, HealthRoute, StateFields};
use crate::operator::{EventLog, Window, time_of_day};
use crate::workers;
use doorbell_checks::{CheckStats, Finding, LastRun, ResultSink, RunRequest};
use doorbell_health::{
    Audience, Board, CheckIndex, CheckResult, Command, Endpoint, EndpointIndex, EndpointState, Event, Forced,
    ForcedState, Note, Target, Time,
};
use doorbell_probes::ProberStats;
use events::happening;
use log_lines::Line;
pub(crate) use operate::Subject;
pub(crate) use published::Published;
use published::ReplySet;
use reply_cache::ReplyTemplate;
pub(crate) use reply_cache::{CachedReply, ReplyCache, ThreadReplies};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use succession::Elder;
pub(crate) use succession::Same;
use tokio::time::Instant;

/// How far the system's clock may be off before that is a step: what adjusts it slowly is none.
const CLOCK_STEP_MIN: Duration = Duration::from_secs(1);

/// Told of endpoints that answer something new, once it is published.
type Follower = Box<dyn Fn(&Serving<'_>) + Send>;

/// Renders what one endpoint says in words of another protocol, by its position.
type Renderer = Box<dyn Fn(&Serving<'_>, usize) -> Vec<u8> + Send>;

/// The board and everybody who is to know.
pub(crate) struct HealthRegistry {
    origin: Instant,
    places: Places,
    prober_stats: ProberStats,
    /// Of endpoints that are about taking traffic.
    readiness: Vec<EndpointIndex>,
    /// Of endpoints of which a kubelet is warned when they are degraded.
    warned: Vec<EndpointIndex>,
    /// What each endpoint says in header fields, by its position.
    fields: Vec<StateFields>,
    /// What every probe is answered from.
    published: Arc<Published>,
    inside: Mutex<Inside>,
    /// Told of every result.
    found: Condvar,
    /// Maintenance that comes again and again.
    windows: Mutex<Vec<Window>>,
    /// Where transitions are written down, once somebody wants that.
    event_log: OnceLock<Arc<EventLog>>,
    /// Whether this board is the one of which log and event log tell.
    speaks: AtomicBool,
    /// The boards before this one, newest first.
    elders: OnceLock<Vec<Elder>>,
}

/// By the position in the configuration.
#[derive(Debug, Default)]
struct Places {
    checks: Vec<CheckIndex>,
    endpoints: Vec<EndpointIndex>,
}

struct Inside {
    board: Board,
    /// The time of day at the origin.
    unix: Duration,
    caches: Vec<Arc<ReplyCache>>,
    /// For each check, the caches that answer for it alone, and its place there.
    singles: Vec<Vec<(Arc<ReplyCache>, usize)>>,
    /// By their place among the texts of a set.
    renderers: Vec<Renderer>,
    followers: Vec<Follower>,
    /// Checks that run when somebody asks, by their position.
    demands: HashMap<usize, RunRequest>,
    /// Where transitions of checks are counted, by their position.
    check_stats: Vec<Arc<CheckStats>>,
}

/// Which endpoints serve.
pub(crate) struct Serving<'a> {
    board: &'a Board,
    places: &'a Places,
    /// Those that answer something new; all of them for whoever asks for the first time.
    rendered: Option<&'a [EndpointIndex]>,
}

impl Inside {
    fn demands_of(&self, endpoint: EndpointIndex) -> Box<[RunRequest]> {
        let uses = self.board.endpoint(endpoint).map(|endpoint| &endpoint.config().uses);
        let demands = uses.into_iter().flatten().filter_map(|one| self.demands.get(&one.check.as_usize()));
        demands.cloned().collect()
    }
}

impl HealthRegistry {
    /// A board as the configuration says, and nothing known yet.
    pub(crate) fn build(config: &Config) -> Result<Arc<Self>, String> {
        Self::build_at(config, (Instant::now(), time_of_day()), None)
    }

    /// The same for a server that follows another one: with the same origin of times, and silent until it is told to
    /// [speak](Self::speak).
    pub(crate) fn build_after(config: &Config, before: &Self) -> Result<Arc<Self>, String> {
        Self::build_at(config, (before.origin, before.lock().unix), Some(&before.prober_stats))
    }

    fn build_at(
        config: &Config,
        (origin, unix): (Instant, Duration),
        before: Option<&ProberStats>,
    ) -> Result<Arc<Self>, String> {
        let (board, places) = build::build(config, Time::ZERO.after(origin.elapsed()), unix)?;
        let those = |is: fn(&Health) -> bool| {
            let endpoints = config.health.iter().zip(&places.endpoints);
            endpoints.filter(|(health, _)| is(health)).map(|(_, &index)| index).collect()
        };
        let serving = Serving { board: &board, places: &places, rendered: None };
        let told = (0..places.endpoints.len()).map(|at| Audience::ALL.map(|to| serving.told(at, to)));
        let published = Published::new(ReplySet::of(told));
        let names = config.health.iter().map(|health| health.name.as_str());
        let mut prober_stats = ProberStats::new(names, workers::count(config));
        before.into_iter().for_each(|before| prober_stats.go_on_with(before));
        Ok(Arc::new(Self {
            origin,
            prober_stats,
            readiness: those(|health| Health::is_readiness(&health.name)),
            warned: those(|health| health.degraded_via == DegradedVia::KubeWarning),
            fields: config.health.iter().map(Health::fields).collect(),
            published,
            inside: Mutex::new(Inside {
                board,
                unix,
                caches: Vec::new(),
                singles: vec![Vec::new(); places.checks.len()],
                renderers: Vec::new(),
                followers: Vec::new(),
                demands: HashMap::new(),
                check_stats: Vec::new(),
            }),
            places,
            found: Condvar::new(),
            windows: Mutex::new(Window::all(config)),
            event_log: OnceLock::new(),
            speaks: AtomicBool::new(before.is_none()),
            elders: OnceLock::new(),
        }))
    }

    /// Who asks for the health of endpoints.
    pub(crate) const fn prober_stats(&self) -> &ProberStats {
        &self.prober_stats
    }

    /// Has transitions written down from now on; the first event log stays.
    pub(crate) fn report_to(&self, event_log: &Arc<EventLog>) {
        self.event_log.get_or_init(|| Arc::clone(event_log));
    }

    /// The windows of the configuration, for whoever looks at clocks; once.
    pub(crate) fn take_windows(&self) -> Vec<Window> {
        std::mem::take(&mut *self.windows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has these checks run when somebody asks. Before the first cache is made.
    pub(crate) fn run_on_demand(&self, demands: impl Iterator<Item = (usize, RunRequest)>) {
        self.lock().demands.extend(demands);
    }

    /// Has transitions of checks counted here, by their position.
    pub(crate) fn count_in(&self, check_stats: &[Arc<CheckStats>]) {
        self.lock().check_stats = check_stats.to_vec();
    }

    /// What runs when somebody asks for an endpoint, by its position.
    pub(crate) fn demands_of(&self, endpoint: usize) -> Box<[RunRequest]> {
        let index = self.places.endpoints.get(endpoint);
        index.map(|&index| self.lock().demands_of(index)).unwrap_or_default()
    }

    /// The replies of a route, one cache for all who answer with the same. `None` when its fields cannot be sent.
    pub(crate) fn cache(
        &self,
        route: &HealthRoute,
        headers: &[(String, String)],
        allow: &str,
        has_singles: bool,
    ) -> Option<Arc<ReplyCache>> {
        let endpoint = *self.places.endpoints.get(route.endpoint)?;
        let warns = self.warned.contains(&endpoint);
        let fields = self.fields.get(route.endpoint).copied().unwrap_or_default();
        let template = ReplyTemplate::of(route, endpoint, headers, allow, has_singles, warns, fields);
        let mut inside = self.lock();
        if let Some(cache) = inside.caches.iter().find(|cache| *cache.template() == template) {
            return Some(Arc::clone(cache));
        }
        let probe_counters = self.prober_stats.probe_counters(route.endpoint)?;
        let demands = inside.demands_of(endpoint);
        let place = inside.caches.len();
        let (cache, replies) =
            ReplyCache::build(template, place, demands, &inside.board, probe_counters, &self.published)?;
        let cache = Arc::new(cache);
        self.publish(&inside, |set| set.caches.push(replies));
        inside.caches.push(Arc::clone(&cache));
        if has_singles {
            let Inside { board, singles, .. } = &mut *inside;
            for (place, one) in board.endpoint(endpoint)?.config().uses.iter().enumerate() {
                singles.get_mut(one.check.as_usize())?.push((Arc::clone(&cache), place));
            }
        }
        Some(cache)
    }

    /// What probes are answered from.
    pub(crate) const fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Has a text for each endpoint in every set, made by `render`; its place there.
    pub(crate) fn render(&self, render: impl Fn(&Serving<'_>, usize) -> Vec<u8> + Send + 'static) -> usize {
        let mut inside = self.lock();
        let serving = Serving { board: &inside.board, places: &self.places, rendered: None };
        let texts = (0..self.places.endpoints.len()).map(|at| render(&serving, at).into()).collect();
        self.publish(&inside, |set| set.texts.push(texts));
        inside.renderers.push(Box::new(render));
        inside.renderers.len() - 1
    }

    /// Replaces the set of replies by one that `change` makes of it. The lock is held, so that there is one at a time.
    fn publish(&self, _held: &Inside, change: impl FnOnce(&mut ReplySet)) {
        let mut set = ReplySet::clone(&self.published.load());
        change(&mut set);
        self.published.publish(set);
    }

    /// Calls `follower` now and whenever an endpoint answers something new.
    pub(crate) fn follow(&self, follower: impl Fn(&Serving<'_>) + Send + 'static) {
        let mut inside = self.lock();
        follower(&Serving { board: &inside.board, places: &self.places, rendered: None });
        inside.followers.push(Box::new(follower));
    }

    /// Nothing is ready any more, for this reason.
    pub(crate) fn fail(&self, reason: &str) {
        let now = self.now();
        let reason = Note::new(reason.as_bytes());
        self.change(|board| {
            let mut changed = Changed::default();
            for &endpoint in &self.readiness {
                let forced = Forced { state: ForcedState::Down, reason: reason.clone(), until: None };
                let command = Command::Force { target: Target::One(endpoint), forced: Some(forced) };
                changed.add(Changed::of(&board.command(command, now)));
            }
            changed
        });
    }

    /// Puts a finding on this board; says after which time the next run should start.
    fn take_in(&self, check: usize, finding: &Finding) -> Duration {
        let Some(&index) = self.places.checks.get(check) else { return Duration::MAX };
        let result = CheckResult::new(finding.outcome, finding.latency, finding.reason.as_bytes());
        let now = self.now();
        let mut next = Duration::MAX;
        self.change(|board| {
            let changed = Changed::of(&board.apply(index, &result, now));
            if let Some(check) = board.check(index) {
                // What never was up may just be starting: who waits for it wants to know soon.
                let is_new = check.last_success_at().is_none();
                let fast = if is_new { check.config().fast_interval } else { Duration::MAX };
                next = check.interval().min(fast);
            }
            changed
        });
        self.found.notify_all();
        next
    }

    /// Has everything shown by the time of day that is now, where somebody has set the clock.
    fn look_at_clock(&self, time_of_day: impl FnOnce() -> Duration) {
        // Read under the lock: what another thread read before the clock was set must not come in afterwards.
        let mut inside = self.lock();
        let (before, time_of_day, now) = (self.now(), time_of_day(), self.now());
        // Who was stopped between two clocks does not know which of them went on. There is a next time.
        if now.since(before) > CLOCK_STEP_MIN / 2 {
            return;
        }
        let unix = time_of_day.saturating_sub(Duration::from_nanos(now.as_nanos()));
        if inside.unix.abs_diff(unix) <= CLOCK_STEP_MIN {
            return;
        }
        inside.unix = unix;
        drop(inside);
        tracing::info!("the system's clock was set: times are shown by it from now on");
        self.change(|board| Changed::of(&board.set_unix_at_zero(Some(unix), now)));
    }

    fn command(&self, command: Command) {
        let now = self.now();
        self.change(|board| Changed::of(&board.command(command, now)));
    }

    /// Lets something happen on the board, and has everybody told.
    fn change(&self, happen: impl FnOnce(&mut Board) -> Changed) {
        let mut inside = self.lock();
        let changed = happen(&mut inside.board);
        let lines = self.tell(&inside, &changed);
        drop(inside);
        // Whoever reads the log may be slow; nobody else waits for that.
        lines.iter().for_each(Line::write);
    }

    fn tell(&self, inside: &Inside, changed: &Changed) -> Vec<Line> {
        self.show(inside, changed);
        if self.speaks.load(Ordering::Acquire) { self.report(inside, &changed.events) } else { Vec::new() }
    }

    /// Counts transitions and writes them into the event log; the lines of the log are still to be written.
    fn report(&self, inside: &Inside, events: &[Event]) -> Vec<Line> {
        let board = &inside.board;
        for event in events {
            if let Event::Check { check, moved, .. } = event
                && let Some(stats) = inside.check_stats.get(check.as_usize())
            {
                stats.moved_to(moved.to);
            }
        }
        if let Some(event_log) = self.event_log.get() {
            let happenings = events.iter().filter_map(|event| happening(event, board));
            happenings.for_each(|happening| event_log.record(happening));
        }
        events.iter().filter_map(|event| Line::of(event, board)).collect()
    }

    /// Renders what is different, publishes all of it at once, and wakes those that wait for it.
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
        let serving = Serving { board, places: &self.places, rendered: Some(&changed.rendered) };
        let news: Vec<usize> =
            (0..self.places.endpoints.len()).filter(|&endpoint| serving.is_news(endpoint)).collect();
        self.publish(inside, |set| {
            for &endpoint in &news {
                set.told[endpoint] = Audience::ALL.map(|audience| serving.told(endpoint, audience));
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
        // Whoever panicked in here has at worst not told everybody.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a call changed, kept beyond it.
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

impl ResultSink for HealthRegistry {
    fn now(&self) -> Time {
        Time::ZERO.after(self.origin.elapsed())
    }

    fn instant(&self, time: Time) -> Instant {
        // Nobody waits for longer than a day at once.
        let since =
            Duration::from_nanos(time.as_nanos()).min(self.origin.elapsed() + Duration::from_secs(86_400));
        self.origin + since
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        self.look_at_clock(time_of_day);
        let next = self.take_in(check, finding);
        self.pass_on(check, finding);
        next
    }

    fn last_run(&self, check: usize) -> Option<LastRun> {
        self.last_run_of(check)
    }

    fn deadline(&self) -> Time {
        let own = self.lock().board.deadline();
        let elders = self.elders().map(|(elder, _)| elder.lock().board.deadline());
        elders.fold(own, Time::min)
    }

    fn tick(&self) {
        self.look_at_clock(time_of_day);
        let now = self.now();
        self.change(|board| Changed::of(&board.tick(now)));
        self.elders().for_each(|(elder, _)| elder.change(|board| Changed::of(&board.tick(now))));
    }
}

impl Serving<'_> {
    /// The endpoint at this position.
    pub(crate) fn endpoint(&self, endpoint: usize) -> Option<&Endpoint> {
        self.places.endpoints.get(endpoint).and_then(|&index| self.board.endpoint(index))
    }

    /// Whether the endpoint at this position answers something new.
    pub(crate) fn is_news(&self, endpoint: usize) -> bool {
        let is_rendered = |those: &[EndpointIndex]| {
            self.places.endpoints.get(endpoint).is_some_and(|index| those.contains(index))
        };
        self.rendered.is_none_or(is_rendered)
    }

    pub(crate) fn check_name(&self, check: CheckIndex) -> Option<&str> {
        self.board.check_name(check)
    }

    /// What those are told who ask by words of their own protocol: the state, and whether it serves.
    pub(crate) fn told(&self, endpoint: usize, audience: Audience) -> (EndpointState, bool) {
        let Some(endpoint) = self.endpoint(endpoint) else { return (EndpointState::Down, false) };
        let (verdict, code) = endpoint.answer(audience);
        (verdict.state, code < 400 && matches!(verdict.state, EndpointState::Degraded | EndpointState::Up))
    }
}

impl fmt::Debug for HealthRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthRegistry").field("places", &self.places).finish_non_exhaustive()
    }
}
