//! What is due and what runs: a heap of times, a set of tasks, and the place of each run.
//!
//! Does not know about: threads, what follows from a finding.

use super::Finding;
use super::demand::Call;
use super::lane::{Counters, Desk, LastRun, Run, count};
use doorbell_health::{Outcome, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::{Id, JoinError, JoinSet};

/// How far apart the first runs start: ten thousand checks take two seconds.
const FIRST_RUNS_APART: Duration = Duration::from_micros(200);

/// How long it takes until the first run of each of so many checks has started.
pub(crate) fn first_runs(checks: usize) -> Duration {
    FIRST_RUNS_APART * u32::try_from(checks).unwrap_or(u32::MAX)
}

/// How far apart runs start that say by themselves that there is something new: a server that changes all the time keeps nobody busy.
const CHANGES_APART: Duration = Duration::from_millis(10);

/// What is due and what runs.
pub(super) struct Work {
    runs: Vec<Run>,
    places: Vec<Place>,
    /// When runs may start; of a run only the entry with the time of its place counts.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    pub(super) running: JoinSet<Finding>,
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
    /// Nothing while it runs.
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
    pub(super) fn new(
        runs: Vec<Run>,
        in_flight_max: usize,
        counters: Arc<Counters>,
        desk: &impl Desk,
    ) -> Self {
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
            if let Some(LastRun { started, next_due }) = desk.last_run(work.runs[run].check) {
                let one = &mut work.runs[run];
                let due =
                    if one.is_scheduled { next_due } else { one.next(started, Duration::ZERO, started) };
                work.places[run].started = started;
                work.schedule(run, due);
                continue;
            }
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
    pub(super) fn next_due(&mut self) -> Time {
        if self.running.len() >= self.in_flight_max {
            return Time::MAX;
        }
        self.first_due().map_or(Time::MAX, |(at, _)| at)
    }

    /// The run of this check is due now, unless it runs already.
    pub(super) fn hurry(&mut self, check: usize, now: Time) {
        let run = self.runs.iter().position(|run| run.check == check);
        if let Some(run) = run.filter(|&run| !self.places[run].is_running) {
            self.schedule(run, now);
        }
    }

    pub(super) fn start_due(&mut self, desk: &impl Desk) {
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
            let (runner, tally) = (Arc::clone(&self.runs[run].runner), Arc::clone(&self.runs[run].tally));
            let task = self.running.spawn(async move {
                counters.lag.add(due.elapsed());
                runner.run_counted(&tally).await
            });
            self.tasks.insert(task.id(), (run, now));
        }
        self.is_full = false;
    }

    /// Takes in what is over, and whatever else is by now.
    pub(super) fn settle_all(&mut self, first: Result<(Id, Finding), JoinError>, desk: &impl Desk) {
        let mut next = Some(first);
        while let Some(joined) = next {
            self.settle(joined, desk);
            next = self.running.try_join_next_with_id();
        }
    }

    fn settle(&mut self, joined: Result<(Id, Finding), JoinError>, desk: &impl Desk) {
        let has_died = joined.is_err();
        let (id, finding) = joined.unwrap_or_else(|error| (error.id(), died()));
        let Some((at, start)) = self.tasks.remove(&id) else { return };
        count(&self.counters.runs);
        if has_died {
            self.runs[at].tally.told(finding.outcome);
        }
        if finding.outcome.is_success() == Some(false) {
            count(&self.counters.failed);
        }
        let run = &mut self.runs[at];
        let interval = desk.found(run.check, &finding);
        let now = desk.now();
        if run.is_scheduled && now.since(start) > interval {
            count(&self.counters.overruns);
            run.tally.overran();
        }
        let next = run.next(start, interval, now);
        let place = &mut self.places[at];
        place.is_running = false;
        let called = place.called.take();
        self.schedule(at, next);
        match called {
            Some(Called::Asked) => self.hear(Call::Asked(at), desk),
            Some(Called::Changed) => self.hear(Call::Changed(at), desk),
            None => {}
        }
    }

    /// Lets a run start before its time, but not while it runs, and not before what is known is old.
    pub(super) fn hear(&mut self, call: Call, desk: &impl Desk) {
        let (at, called) = match call {
            Call::Asked(at) => (at, Called::Asked),
            Call::Changed(at) => (at, Called::Changed),
        };
        let (Some(run), Some(place)) = (self.runs.get(at), self.places.get_mut(at)) else { return };
        if place.is_running {
            run.tally.coalesced();
            place.called = place.called.max(Some(called));
            return;
        }
        let apart = match called {
            Called::Asked => run.cache.unwrap_or_default(),
            Called::Changed => CHANGES_APART,
        };
        let now = desk.now();
        let next = place.started.after(apart).max(now);
        if called == Called::Asked && next > now {
            run.tally.was_known();
        }
        if place.due.is_none_or(|due| next < due) {
            self.schedule(at, next);
        }
    }
}

/// A defect of ours must not end the check for good.
fn died() -> Finding {
    Finding { outcome: Outcome::Error, latency: Duration::ZERO, reason: "the run broke off".to_owned() }
}
