//! The thread on which checks run: one task that knows what is due, and one for each run.
//!
//! Does not know about: what a run does, what follows from its finding; a [`Desk`] is told.
//!
//! At most as many runs at once as the configuration allows; what is due beyond that waits its turn and is counted. A check that runs is
//! not due again before its run is over, so the queue has one place for each check and never grows.

use super::demand::{Call, Calls, Demand};
use super::lag::Lag;
use super::names::LOOK_UPS_MAX;
use super::needs::Needs;
use super::schedule::Schedule;
use super::tally::{Tallies, Tally};
use super::work::Work;
use super::{Connector, Finding, Runner};
use crate::config::model::Check;
use arc_swap::ArcSwap;
use doorbell_health::Time;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Threads that look at files and start programs.
pub(super) const LOOKS_MAX: usize = 16;

/// Threads for what cannot be waited for. Those that look names up never take them from the others.
const BLOCKING_THREADS_MAX: usize = LOOKS_MAX + LOOK_UPS_MAX;

/// Descriptors of a runtime: epoll, two to wake it, and a spare one.
const FDS_A_RUNTIME: usize = 4;

/// Results that were pushed and wait to be taken in. More are refused.
const PUSHES_MAX: usize = 1024;

/// Runs that may be asked for at once beside those that are due. More are refused.
const HURRIES_MAX: usize = 16;

/// Who wants to know.
pub(crate) trait Desk: Send + Sync + 'static {
    /// The time, from the origin of all times here.
    fn now(&self) -> Time;

    /// The moment of such a time.
    fn instant(&self, time: Time) -> Instant;

    /// Takes a finding; says after which time from the start of this run the next should start.
    fn found(&self, check: usize, finding: &Finding) -> Duration;

    /// The last run of a check that somebody else has made; `None` where nobody has.
    fn last_run(&self, _check: usize) -> Option<LastRun> {
        None
    }

    /// When [`Self::tick`] wants to be called.
    fn deadline(&self) -> Time;

    /// Time has passed.
    fn tick(&self);
}

/// A run that was made, and when the next one should start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastRun {
    pub(crate) started: Time,
    pub(crate) next_due: Time,
}

/// A check that runs.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its number, for the desk.
    pub(super) check: usize,
    pub(super) runner: Arc<Runner>,
    pub(super) schedule: Schedule,
    /// For how long a result is new enough for whoever asks; without it nobody can.
    pub(super) cache: Option<Duration>,
    /// How old a result may be. Without an interval there is a run in that time even if nobody asks.
    pub(super) max_age: Duration,
    pub(super) is_scheduled: bool,
    pub(super) is_asked: Arc<AtomicBool>,
    pub(super) tally: Arc<Tally>,
}

/// Where results are left that somebody else found.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    way: Arc<ArcSwap<Way>>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
enum Way {
    Here(mpsc::Sender<(usize, Finding)>),
    /// Somebody else runs these checks now; by their numbers here, theirs.
    With(Arc<ArcSwap<Self>>, Vec<Option<usize>>),
}

/// Where a run is asked for that does not wait until it is due.
#[derive(Clone, Debug)]
pub(crate) struct Hurry {
    sender: mpsc::Sender<usize>,
}

/// What was done, from the start on.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Runs that are over.
    pub(crate) runs: AtomicU64,
    /// Of these, those with a finding that is no success.
    pub(crate) failed: AtomicU64,
    /// Runs that had to wait because too many others ran.
    pub(crate) waited: AtomicU64,
    /// Runs that took longer than until the next one was due.
    pub(crate) overruns: AtomicU64,
    /// How late runs started.
    pub(crate) lag: Lag,
    /// Runs that somebody asked for, many of whom are counted once.
    pub(crate) asked: AtomicU64,
    /// Calls for a run that found no place.
    pub(crate) calls_refused: AtomicU64,
    /// Results that somebody else found and left here.
    pub(crate) pushed: AtomicU64,
    /// Those that found no place.
    pub(crate) pushes_refused: AtomicU64,
    /// The same and more by check.
    pub(crate) tallies: Tallies,
}

/// Whether the thread goes on: who wants to know asks it to, and finds another number of turns a moment later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse(Arc<Beat>);

#[derive(Debug, Default)]
struct Beat {
    wanted: Notify,
    turns: AtomicU64,
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct Lane {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// A thread that waits for the word to begin. Without it nothing was done.
#[derive(Debug)]
pub(crate) struct Held {
    // Goes first, or the end of the thread would be waited for in vain.
    go: SyncSender<()>,
    lane: Lane,
}

/// Everything before the thread.
#[derive(Debug)]
pub(crate) struct Plan {
    runs: Vec<Run>,
    /// Of all checks, by their number.
    tallies: Vec<Arc<Tally>>,
    in_flight_max: usize,
    counters: Arc<Counters>,
    connector: Arc<Connector>,
    pushes: mpsc::Receiver<(usize, Finding)>,
    hurry: Hurry,
    hurries: mpsc::Receiver<usize>,
    calls: Calls,
    heard: mpsc::Receiver<Call>,
    pulse: Pulse,
}

impl Counters {
    /// By name. How late runs started is a mean, in microseconds.
    pub(crate) fn fields(&self) -> [(&'static str, u64); 9] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let runs = read(&self.runs);
        [
            ("asked", read(&self.asked)),
            ("calls_refused", read(&self.calls_refused)),
            ("failed", read(&self.failed)),
            ("lag_us", self.lag.counts().mean_us()),
            ("overruns", read(&self.overruns)),
            ("pushed", read(&self.pushed)),
            ("pushes_refused", read(&self.pushes_refused)),
            ("runs", runs),
            ("waited", read(&self.waited)),
        ]
    }
}

impl Run {
    /// The start of the next run if nobody asks before: one that began at `start` is over at `now`, and by what it found `interval` is due.
    pub(super) fn next(&mut self, start: Time, interval: Duration, now: Time) -> Time {
        if self.is_scheduled {
            return self.schedule.next(start, interval, now);
        }
        // Who asks less often than that must not find what is too old to mean anything, each time again.
        let earliest = start.after(self.cache.unwrap_or_default()).max(now);
        self.schedule.renew(start, self.max_age).max(earliest)
    }

    /// `instance` tells replicas apart.
    pub(crate) fn new(
        position: usize,
        check: &Check,
        instance: &str,
        runner: Arc<Runner>,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            check: position,
            runner,
            schedule: Schedule::new(instance, &check.name, check.pace.jitter),
            cache: check.pace.cache,
            max_age: check.pace.max_age,
            is_scheduled: check.pace.is_scheduled,
            is_asked: Arc::default(),
            tally,
        }
    }
}

impl Push {
    /// Leaves a finding; false when there is no place.
    pub(crate) fn leave(&self, check: usize, finding: Finding) -> bool {
        let is_taken = self.way.load().leave(check, finding);
        count(if is_taken { &self.counters.pushed } else { &self.counters.pushes_refused });
        is_taken
    }

    /// From now on results are left with `heir`, whose checks were here at `places`, if they were.
    pub(crate) fn redirect(&self, heir: &Self, places: &[Option<usize>]) {
        let mut numbers = vec![None; places.iter().flatten().max().map_or(0, |last| last + 1)];
        for (now, before) in places.iter().enumerate() {
            if let Some(number) = before.and_then(|before| numbers.get_mut(before)) {
                *number = Some(now);
            }
        }
        self.way.store(Arc::new(Way::With(Arc::clone(&heir.way), numbers)));
    }
}

impl Way {
    /// As many steps as there are servers that follow each other and still live.
    fn leave(&self, check: usize, finding: Finding) -> bool {
        match self {
            Self::Here(sender) => sender.try_send((check, finding)).is_ok(),
            Self::With(heir, numbers) => {
                let there = numbers.get(check).copied().flatten();
                there.is_some_and(|check| heir.load().leave(check, finding))
            }
        }
    }
}

impl Pulse {
    /// Has the thread turn once, as soon as it can.
    pub(crate) fn wake(&self) {
        self.0.wanted.notify_one();
    }

    /// How often it has turned.
    pub(crate) fn turns(&self) -> u64 {
        self.0.turns.load(Ordering::Relaxed)
    }
}

impl Hurry {
    /// Has a check run at once, unless it runs already; false when too much is asked for.
    pub(crate) fn run_now(&self, check: usize) -> bool {
        self.sender.try_send(check).is_ok()
    }
}

impl Plan {
    /// What is done is counted in `counters`, which may have counted before.
    pub(crate) fn new(
        runs: Vec<Run>,
        tallies: Vec<Arc<Tally>>,
        in_flight_max: usize,
        connector: Arc<Connector>,
        counters: Arc<Counters>,
    ) -> (Self, Push) {
        let (sender, pushes) = mpsc::channel(PUSHES_MAX);
        let way = Arc::new(ArcSwap::from_pointee(Way::Here(sender)));
        let push = Push { way, counters: Arc::clone(&counters) };
        let (hurry_sender, hurries) = mpsc::channel(HURRIES_MAX);
        let hurry = Hurry { sender: hurry_sender };
        let (calls, heard) = Calls::new(Arc::clone(&counters));
        for (at, run) in runs.iter().enumerate() {
            run.runner.tell(calls.teller(at));
        }
        let pulse = Pulse::default();
        let plan = Self {
            runs,
            tallies,
            in_flight_max,
            counters,
            connector,
            pushes,
            hurry,
            hurries,
            calls,
            heard,
            pulse,
        };
        (plan, push)
    }

    pub(crate) fn hurry(&self) -> Hurry {
        self.hurry.clone()
    }

    pub(crate) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Checks that run when somebody asks, by their number.
    pub(crate) fn demands(&self) -> impl Iterator<Item = (usize, Demand)> {
        let runs = self.runs.iter().enumerate().filter(|(_, run)| run.cache.is_some());
        runs.map(|(at, run)| (run.check, self.calls.demand(at, &run.is_asked)))
    }

    /// What runs, by the number of its check.
    pub(crate) fn runners(&self) -> impl Iterator<Item = (usize, &Arc<Runner>)> {
        self.runs.iter().map(|run| (run.check, &run.runner))
    }

    /// What is counted of all checks, by their number.
    pub(crate) fn tallies(&self) -> &[Arc<Tally>] {
        &self.tallies
    }

    /// Through which all connections go.
    pub(crate) fn connector(&self) -> Arc<Connector> {
        Arc::clone(&self.connector)
    }

    /// Descriptors that the checks may have open at once.
    pub(crate) fn descriptors(&self) -> u32 {
        let needs = self.runs.iter().map(|run| run.runner.needs());
        u32::try_from(Needs::all(needs, self.in_flight_max) + FDS_A_RUNTIME).unwrap_or(u32::MAX)
    }

    /// Starts the thread.
    pub(crate) fn start(self, desk: Arc<impl Desk>) -> io::Result<Held> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let (go, goes) = sync_channel(1);
        let run = move || {
            if goes.recv().is_ok() {
                end(runtime, |runtime| runtime.block_on(self.run(&*desk, stopped)));
            }
        };
        let thread = std::thread::Builder::new().name("checks".into()).spawn(run)?;
        Ok(Held { go, lane: Lane { stop, thread: Some(thread) } })
    }

    async fn run(self, desk: &impl Desk, mut stopped: watch::Receiver<bool>) {
        // Whoever asks must never find that nobody listens.
        let Self {
            runs,
            tallies,
            in_flight_max,
            counters,
            mut pushes,
            hurry: _hurry,
            mut hurries,
            pulse,
            ..
        } = self;
        let (_calls, mut heard) = (self.calls, self.heard);
        let mut work = Work::new(runs, in_flight_max, counters, desk);
        loop {
            count(&pulse.0.turns);
            work.start_due(desk);
            let wake = work.next_due().min(desk.deadline());
            tokio::select! {
                Some(joined) = work.running.join_next_with_id() => work.settle_all(joined, desk),
                Some(call) = heard.recv() => work.hear(call, desk),
                Some((check, finding)) = pushes.recv() => {
                    tallies.get(check).into_iter().for_each(|tally| tally.told(finding.outcome));
                    desk.found(check, &finding);
                }
                Some(check) = hurries.recv() => work.hurry(check, desk.now()),
                () = sleep_until(desk.instant(wake)) => desk.tick(),
                () = pulse.0.wanted.notified() => {}
                _stopped = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
    }
}

impl Held {
    /// From now on checks run.
    pub(crate) fn go(self) -> Lane {
        let _begins = self.go.send(());
        self.lane
    }
}

/// A thread that looks a name up may hang for as long as the system likes; nobody waits for it.
fn end(runtime: Runtime, run: impl FnOnce(&Runtime)) {
    run(&runtime);
    runtime.shutdown_background();
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
