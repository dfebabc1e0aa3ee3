//! State of the internal checks: the reasons of a failure, derived from heartbeats of runtimes and
//! servers and from the state that the program sets.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use crate::health::heartbeats::{HeartbeatList, HeartbeatNode, nanos_now};
use crate::waits::Waits;
use crate::workers::{LIVE_SILENCE_MIN, READY_SILENCE_MIN};

/// Number of runs of the internal checks, and of ticks of a runtime, within the shortest limit of
/// readiness.
const RUNS_PER_LIMIT: u32 = 8;

/// Shortest and longest interval of the internal checks.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_millis(250);

/// Default limit of readiness. Together with the interval, a failure is visible within 2 s.
const READY_LIMIT: Duration = Duration::from_millis(1_500);

/// Default limit of liveness: long enough that a program that recovers is not restarted.
const LIVE_LIMIT: Duration = Duration::from_secs(10);

/// How long a condition may last before an endpoint fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) ready: Duration,
    pub(crate) live: Duration,
}

/// The limits of a `Health`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchLimits {
    /// Maximum time without a tick; `None` if runtimes are not monitored.
    pub(crate) stalled_after: Option<Limit>,
    /// Maximum time that a connection waits to be accepted.
    pub(crate) accept_within: Limit,
}

/// Observes runtimes, servers and the state that the program sets.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) heartbeats: HeartbeatList,
    pub(crate) limits: WatchLimits,
    /// The program called `set_live(false)`.
    pub(crate) dead: AtomicBool,
    pub(crate) draining: AtomicBool,
    /// [`Probes`](crate::Probes) serve this health.
    pub(crate) is_on_ring: AtomicBool,
    /// A server uses or has used this health, or the health works without one.
    pub(crate) is_served: AtomicBool,
    /// Whether the internal check `accept` failed in its last run. If so, the next accepted
    /// connection starts another run.
    pub(crate) accept_failed: AtomicBool,
    /// Set by each call of `run_internal_checks`, and cleared before the checks are evaluated.
    is_due: AtomicBool,
    /// The thread that is running the internal checks now, if any.
    runner: Mutex<Option<ThreadId>>,
    /// The reasons that were reported last, by check.
    reported: Mutex<[Option<Reason>; 3]>,
}

/// Clears [`Watch::runner`] when dropped.
struct RunnerGuard<'w>(&'w Watch);

/// The reason why each internal check is down; `None` while it is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasons {
    /// The runtimes and the accepts of handed-over connections, judged by the limits of liveness,
    /// and [`Watch::dead`].
    pub(crate) alive: Option<Reason>,
    /// The runtimes, judged by the limits of readiness.
    pub(crate) runtime: Option<Reason>,
    /// The accepts of handed-over connections, judged by the limits of readiness.
    pub(crate) accept: Option<Reason>,
}

/// Why an internal check is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A connection waits too long, although others are accepted.
    Backlog,
    /// A worker does not return from a poll.
    Blocked { worker: usize },
    /// The receiver of handed-over connections was dropped.
    Dropped,
    /// Set by the program.
    NotLive,
    /// Connections wait, and none is accepted.
    NotAccepting,
    /// A runtime does not tick.
    Stuck,
    /// [`Probes`](crate::Probes) serve this health, but it monitors no server.
    Unwatched,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backlog => f.write_str("backlog: a connection waits too long to be accepted"),
            Self::Blocked { worker } => write!(f, "stalled: worker {worker} of the runtime is blocked"),
            Self::Dropped => f.write_str("not accepting: the receiver of connections was dropped"),
            Self::NotLive => f.write_str("the program has set itself to not live"),
            Self::NotAccepting => f.write_str("not accepting: connections wait, and none is accepted"),
            Self::Stuck => f.write_str("stalled: the runtime is stuck"),
            Self::Unwatched => f.write_str("not watched: Embed::health is missing"),
        }
    }
}

impl Limit {
    fn of(self, is_live: bool) -> Duration {
        if is_live { self.live } else { self.ready }
    }
}

impl Default for WatchLimits {
    fn default() -> Self {
        let limit = Limit { ready: READY_LIMIT, live: LIVE_LIMIT };
        Self { stalled_after: Some(limit), accept_within: limit }
    }
}

impl WatchLimits {
    /// Interval of the internal checks, and of the ticks of a runtime.
    pub(crate) fn interval(&self) -> Duration {
        let limits = [Some(self.accept_within.ready), self.stalled_after.map(|limit| limit.ready)];
        let shortest = limits.into_iter().flatten().min().unwrap_or(READY_LIMIT);
        (shortest / RUNS_PER_LIMIT).clamp(INTERVAL_MIN, INTERVAL_MAX)
    }
}

impl Watch {
    pub(crate) fn new(limits: WatchLimits) -> Self {
        Self {
            heartbeats: HeartbeatList::default(),
            is_served: AtomicBool::new(limits.stalled_after.is_none()),
            limits,
            dead: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            is_on_ring: AtomicBool::new(false),
            accept_failed: AtomicBool::new(false),
            is_due: AtomicBool::new(false),
            runner: Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// Runs the internal checks and calls `report` for each whose reason changed, in the order of
    /// [`Reasons`]. Concurrent calls wait for each other. If `report` itself calls this method, the
    /// checks run again after `report` has returned.
    pub(crate) fn run_internal_checks(&self, report: impl Fn(usize, Option<Reason>)) {
        self.is_due.store(true, Ordering::SeqCst);
        let this = std::thread::current().id();
        if *locked(&self.runner) == Some(this) {
            return;
        }
        let mut reported = locked(&self.reported);
        *locked(&self.runner) = Some(this);
        let _guard = RunnerGuard(self);
        while self.is_due.swap(false, Ordering::SeqCst) {
            let reasons = self.reasons(nanos_now());
            self.accept_failed.store(reasons.accept.is_some(), Ordering::Relaxed);
            for (check, (reason, reported)) in reasons.by_check().into_iter().zip(&mut *reported).enumerate()
            {
                if reason != *reported {
                    report(check, reason);
                    // Set after `report`, so that the reason is reported again if `report` panics.
                    *reported = reason;
                }
            }
        }
    }

    /// `now` is a time of the ring threads' clock.
    fn reasons(&self, now: u64) -> Reasons {
        let is_dead = self.dead.load(Ordering::Relaxed);
        let alive = self.runtime(now, true).or_else(|| self.accept(now, true));
        Reasons {
            alive: alive.or_else(|| is_dead.then_some(Reason::NotLive)),
            runtime: self.runtime(now, false),
            accept: self.accept(now, false),
        }
    }

    fn runtime(&self, now: u64, is_live: bool) -> Option<Reason> {
        let limit = self.limits.stalled_after?.of(is_live);
        if self.heartbeats.iter().any(|beat| beat.since_tick(now).is_some_and(|time| time > limit)) {
            return Some(Reason::Stuck);
        }
        let silences = self.heartbeats.iter().filter_map(|beat| beat.silence(now));
        let longest = silences.max_by_key(|silence| silence.time)?;
        let shortest = if is_live { LIVE_SILENCE_MIN } else { READY_SILENCE_MIN };
        (longest.time > limit.max(shortest)).then_some(Reason::Blocked { worker: longest.worker })
    }

    fn accept(&self, now: u64, is_live: bool) -> Option<Reason> {
        if self.is_on_ring.load(Ordering::Relaxed) && !self.is_served.load(Ordering::Relaxed) {
            return Some(Reason::Unwatched);
        }
        // A program may stop accepting while it drains.
        if self.draining.load(Ordering::Relaxed) {
            return None;
        }
        let limit = self.limits.accept_within.of(is_live);
        let is_over = |since: fn(&Waits) -> u64| {
            let over = |nanos: u64| nanos != 0 && Duration::from_nanos(now.saturating_sub(nanos)) > limit;
            self.heartbeats.iter().map(HeartbeatNode::waits).any(|waits| over(since(waits)))
        };
        if self.heartbeats.iter().any(|beat| beat.waits().is_gone()) {
            return Some(Reason::Dropped);
        }
        if is_over(Waits::idle) {
            return Some(Reason::NotAccepting);
        }
        (!is_live && is_over(Waits::oldest)).then_some(Reason::Backlog)
    }
}

impl Drop for RunnerGuard<'_> {
    fn drop(&mut self) {
        *locked(&self.0.runner) = None;
    }
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reasons {
    const fn by_check(self) -> [Option<Reason>; 3] {
        [self.alive, self.runtime, self.accept]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::heartbeats::Heartbeat;

    const LIMIT: Duration = Duration::from_secs(5);

    fn watch() -> Watch {
        let limit = Limit { ready: LIMIT, live: LIMIT };
        Watch::new(WatchLimits { stalled_after: Some(limit), accept_within: limit })
    }

    /// A heartbeat with a runtime of one worker.
    fn begin(watch: &Watch) -> Heartbeat {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        watch.heartbeats.begin(Some(runtime.metrics()))
    }

    fn after(time: Duration) -> u64 {
        nanos_now() + u64::try_from(time.as_nanos()).unwrap()
    }

    const LATE: Duration = Duration::from_millis(5_100);

    #[test]
    fn without_a_tick_for_the_limit_it_is_stuck_and_a_tick_heals_it() {
        let watch = watch();
        let heartbeat = begin(&watch);
        assert_eq!(watch.reasons(after(LIMIT - Duration::from_millis(100))), Reasons::default());
        let late = watch.reasons(after(LATE));
        assert_eq!((late.alive, late.runtime), (Some(Reason::Stuck), Some(Reason::Stuck)));
        assert!(heartbeat.beat(nanos_now()));
        assert_eq!(watch.reasons(nanos_now()), Reasons::default());
        heartbeat.end();
        assert!(!heartbeat.beat(nanos_now()));
        assert_eq!(watch.reasons(after(LIMIT * 9)), Reasons::default(), "its server is gone");
    }

    /// Readiness fails first, with the default limits within 2 s.
    #[test]
    fn default_limits() {
        let limits = WatchLimits::default();
        let watch = Watch::new(limits);
        let heartbeat = begin(&watch);
        let soon = after(Duration::from_secs(2) - limits.interval());
        assert_eq!((watch.reasons(soon).alive, watch.reasons(soon).runtime), (None, Some(Reason::Stuck)));
        assert_eq!(watch.reasons(after(LIVE_LIMIT * 2)).alive, Some(Reason::Stuck));
        assert!(READY_SILENCE_MIN + limits.interval() < Duration::from_secs(2), "also for one worker");
        heartbeat.waits().unwrap().begin(nanos_now());
        assert_eq!(watch.reasons(soon).accept, Some(Reason::NotAccepting));
    }

    /// Simulates a runtime that stopped this long ago.
    fn stop(heartbeat: &Heartbeat, ago: Duration) {
        let ago = u64::try_from(ago.as_nanos()).unwrap();
        assert!(heartbeat.beat(nanos_now().saturating_sub(ago).max(1)));
    }

    #[test]
    fn one_stuck_runtime_of_several_is_detected() {
        let watch = watch();
        let heartbeats = [(); 3].map(|()| begin(&watch));
        let is_stuck = || watch.reasons(nanos_now()).runtime == Some(Reason::Stuck);
        for (at, stuck) in heartbeats.iter().enumerate() {
            stop(stuck, LATE);
            for (_, other) in heartbeats.iter().enumerate().filter(|(other, _)| *other != at) {
                assert!(other.beat(nanos_now()) && is_stuck());
            }
            assert!(stuck.beat(nanos_now()) && !is_stuck());
        }
        // A place is reused, and its previous owner no longer affects it.
        heartbeats[1].end();
        let next = begin(&watch);
        stop(&next, LATE);
        heartbeats[1].end();
        assert!(!heartbeats[1].beat(nanos_now()) && is_stuck());
        assert_eq!(watch.heartbeats.iter().count(), 3);
    }

    #[test]
    fn unaccepted_connections_fail_readiness_first() {
        let watch = watch();
        let heartbeat = begin(&watch);
        let waits = heartbeat.waits().unwrap();
        let at = |time| {
            assert!(heartbeat.beat(after(time)));
            let reasons = watch.reasons(after(time));
            (reasons.alive, reasons.accept)
        };
        waits.begin(nanos_now());
        assert_eq!(at(LIMIT / 2), (None, None));
        assert_eq!(at(LATE), (Some(Reason::NotAccepting), Some(Reason::NotAccepting)));
        // A connection is accepted, but another one has waited longer than the limit.
        waits.accepted(Some(nanos_now().saturating_sub(u64::try_from(LATE.as_nanos()).unwrap()).max(1)));
        assert_eq!(at(LIMIT / 2), (None, Some(Reason::Backlog)));
        waits.accepted(None);
        assert_eq!(at(LATE), (None, None));
        waits.leave();
        assert_eq!(at(LIMIT / 2), (Some(Reason::Dropped), Some(Reason::Dropped)));
        watch.draining.store(true, Ordering::Relaxed);
        assert_eq!(at(LIMIT / 2), (None, None));
    }

    #[test]
    fn a_missing_server_and_a_dead_program_are_reported_once() {
        let watch = watch();
        let reported = Mutex::new(Vec::new());
        let run = || {
            watch.run_internal_checks(|check, reason| reported.lock().unwrap().push((check, reason)));
            std::mem::take(&mut *reported.lock().unwrap())
        };
        assert_eq!(run(), []);
        watch.is_on_ring.store(true, Ordering::Relaxed);
        let unwatched = Some(Reason::Unwatched);
        assert_eq!((run(), run()), (vec![(0, unwatched), (2, unwatched)], vec![]));
        watch.is_served.store(true, Ordering::Relaxed);
        watch.dead.store(true, Ordering::Relaxed);
        assert_eq!(run(), [(0, Some(Reason::NotLive)), (2, None)]);
    }

    #[test]
    fn a_receiver_may_change_what_it_is_told_about() {
        let watch = watch();
        let told = Mutex::new(Vec::new());
        let report = |check, reason| {
            told.lock().unwrap().push((check, reason));
            watch.dead.store(false, Ordering::Relaxed);
            watch.run_internal_checks(|_, _| panic!("the outer call reports"));
        };
        watch.dead.store(true, Ordering::Relaxed);
        watch.run_internal_checks(report);
        assert_eq!(*told.lock().unwrap(), [(0, Some(Reason::NotLive)), (0, None)]);
    }

    #[test]
    fn a_receiver_that_panics_loses_no_change() {
        let watch = watch();
        let look = |fails: bool| {
            let told = Mutex::new(Vec::new());
            let report = |check, _| {
                told.lock().unwrap().push(check);
                assert!(!fails, "it panics");
            };
            let looked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| watch.run_internal_checks(report)));
            (looked.is_err(), told.into_inner().unwrap())
        };
        watch.is_on_ring.store(true, Ordering::Relaxed);
        assert_eq!(look(true), (true, vec![0]));
        assert_eq!(look(false), (false, vec![0, 2]));
    }
}
