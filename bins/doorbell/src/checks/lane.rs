//! The thread on which checks run: one task that knows what is due, and one for each run.
//!
//! Does not know about: what a run does, what follows from its finding; a [`Desk`] is told.
//!
//! At most as many runs at once as the configuration allows; what is due beyond that waits its turn and is counted. A check that runs is
//! not due again before its run is over, so the queue has one place for each check and never grows.

use super::schedule::Schedule;
use super::{Finding, Runner};
use arc_swap::ArcSwap;
use doorbell_health::{Outcome, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Who wants to know.
pub(crate) trait Desk: Send + Sync + 'static {
    /// The time, from the origin of all times here.
    fn now(&self) -> Time;

    /// The moment of such a time.
    fn instant(&self, time: Time) -> Instant;

    /// Takes a finding; says after which time from the start of this run the next should start.
    fn found(&self, check: usize, finding: &Finding) -> Duration;

    /// When the first run of a check should start that somebody else has run before; `None` where nobody has.
    fn first_due(&self, _check: usize) -> Option<Time> {
        None
    }

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
}

/// Where results are left that somebody else found.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    place: Arc<ArcSwap<Place>>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
enum Place {
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
    /// The sum of how late runs started, in microseconds.
    pub(crate) lag_us: AtomicU64,
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
    pushes: mpsc::Receiver<(usize, Finding)>,
    hurry: Hurry,
    hurries: mpsc::Receiver<usize>,
}

impl Counters {
    /// By name. How late runs started is a mean, in microseconds.
    pub(crate) fn fields(&self) -> [(&'static str, u64); 7] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let runs = read(&self.runs);
        [
            ("failed", read(&self.failed)),
            ("lag_us", read(&self.lag_us).checked_div(runs).unwrap_or(0)),
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
    pub(crate) fn new(check: usize, name: &str, instance: &str, jitter: u32, runner: Runner) -> Self {
        Self { check, runner: Arc::new(runner), schedule: Schedule::new(instance, name, jitter) }
    }
}

impl Push {
    /// Leaves a finding; false when there is no place.
    pub(crate) fn leave(&self, check: usize, finding: Finding) -> bool {
        let is_taken = self.place.load().leave(check, finding);
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
        self.place.store(Arc::new(Place::With(Arc::clone(&heir.place), numbers)));
    }
}

impl Place {
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

impl Hurry {
    /// Has a check run at once, unless it runs already; false when too much is asked for.
    pub(crate) fn run_now(&self, check: usize) -> bool {
        self.sender.try_send(check).is_ok()
    }
}

impl Plan {
    /// What is done is counted in `counters`, which may have counted before.
    pub(crate) fn new(runs: Vec<Run>, in_flight_max: usize, counters: Arc<Counters>) -> (Self, Push) {
        let (sender, pushes) = mpsc::channel(PUSHES_MAX);
        let place = Arc::new(ArcSwap::from_pointee(Place::Here(sender)));
        let push = Push { place, counters: Arc::clone(&counters) };
        let (sender, hurries) = mpsc::channel(HURRIES_MAX);
        (Self { runs, in_flight_max, counters, pushes, hurry: Hurry { sender }, hurries }, push)
    }

    pub(crate) fn hurry(&self) -> Hurry {
        self.hurry.clone()
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
        let Self { runs, in_flight_max, counters, mut pushes, hurry: _kept_open, mut hurries } = self;
        let mut work = Work::new(runs, in_flight_max, &counters, desk);
        loop {
            work.start_due(desk);
            let wake = work.next_due().min(desk.deadline());
            tokio::select! {
                Some(joined) = work.running.join_next_with_id() => work.settle(joined, desk),
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
struct Work<'a> {
    runs: Vec<Run>,
    /// One entry for each run that is not in flight.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    running: JoinSet<Finding>,
    /// Which run a task is, and when it started.
    tasks: HashMap<Id, (usize, Time)>,
    in_flight_max: usize,
    counters: &'a Counters,
    /// Whether something that is due waits for a place.
    is_full: bool,
}

impl<'a> Work<'a> {
    fn new(runs: Vec<Run>, in_flight_max: usize, counters: &'a Counters, desk: &impl Desk) -> Self {
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by_key(|&run| runs[run].schedule.phase());
        let mut at = desk.now();
        let mut due = BinaryHeap::with_capacity(runs.len());
        for run in order {
            if let Some(known) = desk.first_due(runs[run].check) {
                due.push(Reverse((known, run)));
                continue;
            }
            due.push(Reverse((at, run)));
            at = at.after(FIRST_RUNS_APART);
        }
        let running = JoinSet::new();
        Self { runs, due, running, tasks: HashMap::new(), in_flight_max, counters, is_full: false }
    }

    /// When something may start next; never while all places are taken.
    fn next_due(&self) -> Time {
        match self.due.peek() {
            Some(Reverse((at, _))) if self.running.len() < self.in_flight_max => *at,
            _ => Time::MAX,
        }
    }

    /// The run of this check is due now. One that is in flight is not in the queue.
    fn hurry(&mut self, check: usize, now: Time) {
        let Self { due, runs, .. } = self;
        let queue = std::mem::take(due).into_iter();
        *due = queue
            .map(|Reverse((at, run))| Reverse((if runs[run].check == check { at.min(now) } else { at }, run)))
            .collect();
    }

    fn start_due(&mut self, desk: &impl Desk) {
        let now = desk.now();
        while let Some(&Reverse((at, run))) = self.due.peek().filter(|Reverse((at, _))| *at <= now) {
            if self.running.len() >= self.in_flight_max {
                // Counted once for each time that all places are taken, by how much follows from the lag.
                if !std::mem::replace(&mut self.is_full, true) {
                    count(&self.counters.waited);
                }
                return;
            }
            self.due.pop();
            let lag_us = u64::try_from(now.since(at).as_micros()).unwrap_or(u64::MAX);
            self.counters.lag_us.fetch_add(lag_us, Ordering::Relaxed);
            let runner = Arc::clone(&self.runs[run].runner);
            let task = self.running.spawn(async move { runner.run().await });
            self.tasks.insert(task.id(), (run, now));
        }
        self.is_full = false;
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
        if now.since(start) > interval {
            count(&self.counters.overruns);
        }
        self.due.push(Reverse((run.schedule.next(start, interval, now), at)));
    }
}

/// A defect of ours must not end the check for good.
fn died() -> Finding {
    Finding { outcome: Outcome::Error, latency: Duration::ZERO, reason: "the run broke off".to_owned() }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
