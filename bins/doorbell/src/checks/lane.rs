//! The thread on which checks run: one task that knows what is due, and one for each run.
//!
//! Does not know about: what a run does, what follows from its finding; a [`Desk`] is told.
//!
//! At most as many runs at once as the configuration allows; what is due beyond that waits its turn and is counted. A check that runs is
//! not due again before its run is over, so the queue has one place for each check and never grows.

use super::demand::{Call, Calls, Demand, DemandCounters};
use super::lag::Lag;
use super::schedule::Schedule;
use super::{Connector, Finding, Runner};
use crate::config::model::Check;
use doorbell_health::{Outcome, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Threads for what cannot be waited for: looking names up, and files.
const BLOCKING_THREADS_MAX: usize = 16;

/// Descriptors of a runtime: epoll, two to wake it, and a spare one.
const FDS_A_RUNTIME: usize = 4;

/// Results that were pushed and wait to be taken in. More are refused.
const PUSHES_MAX: usize = 1024;

/// Runs that may be asked for at once beside those that are due. More are refused.
const HURRIES_MAX: usize = 16;

/// How far apart the first runs start: ten thousand checks take two seconds.
const FIRST_RUNS_APART: Duration = Duration::from_micros(200);

/// How far apart runs start that say by themselves that there is something new: a server that changes all the time keeps nobody busy.
const CHANGES_APART: Duration = Duration::from_millis(10);

/// Who wants to know.
pub(crate) trait Desk: Send + Sync + 'static {
    /// The time, from the origin of all times here.
    fn now(&self) -> Time;

    /// The moment of such a time.
    fn instant(&self, time: Time) -> Instant;

    /// Takes a finding; says after which time from the start of this run the next should start.
    fn found(&self, check: usize, finding: &Finding) -> Duration;

    /// When [`Self::tick`] wants to be called.
    fn deadline(&self) -> Time;

    /// Time has passed.
    fn tick(&self);
}

/// A check that runs.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its number, for the desk.
    check: usize,
    runner: Arc<Runner>,
    schedule: Schedule,
    /// For how long a result is new enough for whoever asks; without it nobody can.
    cache: Option<Duration>,
    is_scheduled: bool,
    is_asked: Arc<AtomicBool>,
}

/// Where results are left that somebody else found.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    sender: mpsc::Sender<(usize, Finding)>,
    counters: Arc<Counters>,
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
    /// Results that somebody else found and left here.
    pub(crate) pushed: AtomicU64,
    /// Those that found no place.
    pub(crate) pushes_refused: AtomicU64,
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct Lane {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Everything before the thread.
#[derive(Debug)]
pub(crate) struct Plan {
    runs: Vec<Run>,
    in_flight_max: usize,
    counters: Arc<Counters>,
    connector: Arc<Connector>,
    pushes: mpsc::Receiver<(usize, Finding)>,
    hurry: Hurry,
    hurries: mpsc::Receiver<usize>,
    calls: Calls,
    heard: mpsc::Receiver<Call>,
}

impl Counters {
    /// By name. How late runs started is a mean, in microseconds.
    pub(crate) fn fields(&self) -> [(&'static str, u64); 7] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let runs = read(&self.runs);
        [
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
    /// `instance` tells replicas apart.
    pub(crate) fn new(position: usize, check: &Check, instance: &str, runner: Runner) -> Self {
        Self {
            check: position,
            runner: Arc::new(runner),
            schedule: Schedule::new(instance, &check.name, check.pace.jitter),
            cache: check.pace.cache,
            is_scheduled: check.pace.is_scheduled,
            is_asked: Arc::default(),
        }
    }
}

impl Push {
    /// Leaves a finding; false when there is no place.
    pub(crate) fn leave(&self, check: usize, finding: Finding) -> bool {
        let is_taken = self.sender.try_send((check, finding)).is_ok();
        count(if is_taken { &self.counters.pushed } else { &self.counters.pushes_refused });
        is_taken
    }
}

impl Hurry {
    /// Has a check run at once, unless it runs already; false when too much is asked for.
    pub(crate) fn run_now(&self, check: usize) -> bool {
        self.sender.try_send(check).is_ok()
    }
}

impl Plan {
    pub(crate) fn new(runs: Vec<Run>, in_flight_max: usize, connector: Arc<Connector>) -> (Self, Push) {
        let (sender, pushes) = mpsc::channel(PUSHES_MAX);
        let counters = Arc::new(Counters::default());
        let push = Push { sender, counters: Arc::clone(&counters) };
        let (sender, hurries) = mpsc::channel(HURRIES_MAX);
        let hurry = Hurry { sender };
        let (calls, heard) = Calls::new();
        for (at, run) in runs.iter().enumerate() {
            run.runner.tell(calls.teller(at));
        }
        (Self { runs, in_flight_max, counters, connector, pushes, hurry, hurries, calls, heard }, push)
    }

    pub(crate) fn hurry(&self) -> Hurry {
        self.hurry.clone()
    }

    /// Checks that run when somebody asks, by their number.
    pub(crate) fn demands(&self) -> impl Iterator<Item = (usize, Demand)> {
        let runs = self.runs.iter().enumerate().filter(|(_, run)| run.cache.is_some());
        runs.map(|(at, run)| (run.check, self.calls.demand(at, &run.is_asked)))
    }

    pub(crate) fn demand_counters(&self) -> Arc<DemandCounters> {
        self.calls.counters()
    }

    /// What runs, by the number of its check.
    pub(crate) fn runners(&self) -> impl Iterator<Item = (usize, Arc<Runner>)> {
        self.runs.iter().map(|run| (run.check, Arc::clone(&run.runner)))
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Through which all connections go.
    pub(crate) fn connector(&self) -> Arc<Connector> {
        Arc::clone(&self.connector)
    }

    /// Descriptors that the checks may have open at once. Names are looked up and files read with two each at most.
    pub(crate) fn descriptors(&self) -> u32 {
        let runs = self.runs.len().min(self.in_flight_max) + 2 * BLOCKING_THREADS_MAX + FDS_A_RUNTIME;
        u32::try_from(runs).unwrap_or(u32::MAX)
    }

    /// Starts the thread.
    pub(crate) fn start(self, desk: Arc<impl Desk>) -> io::Result<Lane> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let run = move || end(runtime, |runtime| runtime.block_on(self.run(&*desk, stopped)));
        let thread = std::thread::Builder::new().name("checks".into()).spawn(run)?;
        Ok(Lane { stop, thread: Some(thread) })
    }

    async fn run(self, desk: &impl Desk, mut stopped: watch::Receiver<bool>) {
        // Whoever asks must never find that nobody listens.
        let Self { runs, in_flight_max, counters, mut pushes, hurry: _hurry, mut hurries, .. } = self;
        let (_calls, mut heard) = (self.calls, self.heard);
        let mut work = Work::new(runs, in_flight_max, counters, desk);
        loop {
            work.start_due(desk);
            let wake = work.next_due().min(desk.deadline());
            tokio::select! {
                Some(joined) = work.running.join_next_with_id() => work.settle_all(joined, desk),
                Some(call) = heard.recv() => work.hear(call, desk),
                Some((check, finding)) = pushes.recv() => {
                    desk.found(check, &finding);
                }
                Some(check) = hurries.recv() => work.hurry(check, desk.now()),
                () = sleep_until(desk.instant(wake)) => desk.tick(),
                _stopped = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
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

/// What is due and what runs.
struct Work {
    runs: Vec<Run>,
    places: Vec<Place>,
    /// When runs may start; of a run only the entry with the time of its place counts.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    running: JoinSet<Finding>,
    /// Which run a task is, and when it started.
    tasks: HashMap<Id, (usize, Time)>,
    in_flight_max: usize,
    counters: Arc<Counters>,
    /// Whether something that is due waits for a place.
    is_full: bool,
}

/// Where a run is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Nothing while it runs, or while nobody asks.
    due: Option<Time>,
    started: Time,
    is_running: bool,
    /// Who called while it ran.
    called: Option<Called>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Called {
    Asked,
    Changed,
}

impl Work {
    fn new(runs: Vec<Run>, in_flight_max: usize, counters: Arc<Counters>, desk: &impl Desk) -> Self {
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by_key(|&run| runs[run].schedule.phase());
        let never = Place { due: None, started: Time::ZERO, is_running: false, called: None };
        let mut work = Self {
            places: vec![never; runs.len()],
            due: BinaryHeap::with_capacity(runs.len()),
            runs,
            running: JoinSet::new(),
            tasks: HashMap::new(),
            in_flight_max,
            counters,
            is_full: false,
        };
        let mut at = desk.now();
        for run in order {
            work.schedule(run, at);
            at = at.after(FIRST_RUNS_APART);
        }
        work
    }

    fn schedule(&mut self, run: usize, at: Time) {
        self.places[run].due = Some(at);
        self.due.push(Reverse((at, run)));
    }

    /// The entry that is due first, without those that were moved.
    fn first_due(&mut self) -> Option<(Time, usize)> {
        loop {
            let &Reverse((at, run)) = self.due.peek()?;
            if self.places[run].due == Some(at) {
                return Some((at, run));
            }
            self.due.pop();
        }
    }

    /// When something may start next; never while all places are taken.
    fn next_due(&mut self) -> Time {
        if self.running.len() >= self.in_flight_max {
            return Time::MAX;
        }
        self.first_due().map_or(Time::MAX, |(at, _)| at)
    }

    /// The run of this check is due now, unless it runs already.
    fn hurry(&mut self, check: usize, now: Time) {
        let run = self.runs.iter().position(|run| run.check == check);
        if let Some(run) = run.filter(|&run| !self.places[run].is_running) {
            self.schedule(run, now);
        }
    }

    fn start_due(&mut self, desk: &impl Desk) {
        let now = desk.now();
        while let Some((at, run)) = self.first_due().filter(|(at, _)| *at <= now) {
            if self.running.len() >= self.in_flight_max {
                // Counted once for each time that all places are taken, by how much follows from the lag.
                if !std::mem::replace(&mut self.is_full, true) {
                    count(&self.counters.waited);
                }
                return;
            }
            self.due.pop();
            self.places[run] = Place { due: None, started: now, is_running: true, called: None };
            // Whoever asks from now on wants to know more than this run will find.
            self.runs[run].is_asked.store(false, Ordering::Release);
            let (due, counters) = (desk.instant(at), Arc::clone(&self.counters));
            let runner = Arc::clone(&self.runs[run].runner);
            let task = self.running.spawn(async move {
                counters.lag.add(due.elapsed());
                runner.run().await
            });
            self.tasks.insert(task.id(), (run, now));
        }
        self.is_full = false;
    }

    /// Takes in what is over, and whatever else is by now.
    fn settle_all(&mut self, first: Result<(Id, Finding), JoinError>, desk: &impl Desk) {
        let mut next = Some(first);
        while let Some(joined) = next {
            self.settle(joined, desk);
            next = self.running.try_join_next_with_id();
        }
    }

    fn settle(&mut self, joined: Result<(Id, Finding), JoinError>, desk: &impl Desk) {
        let (id, finding) = joined.unwrap_or_else(|error| (error.id(), died()));
        let Some((at, start)) = self.tasks.remove(&id) else { return };
        count(&self.counters.runs);
        if finding.outcome.is_success() == Some(false) {
            count(&self.counters.failed);
        }
        let run = &mut self.runs[at];
        let interval = desk.found(run.check, &finding);
        let now = desk.now();
        if run.is_scheduled && now.since(start) > interval {
            count(&self.counters.overruns);
        }
        let next = run.is_scheduled.then(|| run.schedule.next(start, interval, now));
        let place = &mut self.places[at];
        place.is_running = false;
        let called = place.called.take();
        if let Some(next) = next {
            self.schedule(at, next);
        }
        match called {
            Some(Called::Asked) => self.hear(Call::Asked(at), desk),
            Some(Called::Changed) => self.hear(Call::Changed(at), desk),
            None => {}
        }
    }

    /// Lets a run start before its time, but not while it runs, and not before what is known is old.
    fn hear(&mut self, call: Call, desk: &impl Desk) {
        let (at, called) = match call {
            Call::Asked(at) => (at, Called::Asked),
            Call::Changed(at) => (at, Called::Changed),
        };
        let (Some(run), Some(place)) = (self.runs.get(at), self.places.get_mut(at)) else { return };
        if place.is_running {
            place.called = place.called.max(Some(called));
            return;
        }
        let apart = match called {
            Called::Asked => run.cache.unwrap_or_default(),
            Called::Changed => CHANGES_APART,
        };
        let next = place.started.after(apart).max(desk.now());
        if place.due.is_none_or(|due| next < due) {
            self.schedule(at, next);
        }
    }
}

/// A defect of ours must not end the check for good.
fn died() -> Finding {
    Finding { outcome: Outcome::Error, latency: Duration::ZERO, reason: "the run broke off".to_owned() }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
