//! Due and running checks: a heap of times, a set of tasks, and the state of each check.

use crate::finding::Finding;
use crate::scheduler::counters::{SchedulerCounters, count};
use crate::scheduler::run::Run;
use crate::scheduler::run_requests::Request;
use crate::scheduler::sink::{LastRun, ResultSink};
use doorbell_health::{Outcome, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::{Id, JoinError, JoinSet};

/// Interval between the first runs of two consecutive checks, so that the first runs of ten
/// thousand checks start within two seconds.
const FIRST_RUNS_APART: Duration = Duration::from_micros(200);

/// Time in which this number of checks start their first runs.
#[must_use]
pub fn first_runs(checks: usize) -> Duration {
    FIRST_RUNS_APART * u32::try_from(checks).unwrap_or(u32::MAX)
}

/// Minimum interval between runs caused by reported changes. Limits the load that a target
/// causes by changing constantly.
const CHANGES_APART: Duration = Duration::from_millis(10);

/// Replaced entries stay in the queue of due runs until their time. They are removed earlier if the
/// queue has more than this number of entries for each check, plus [`DUE_MORE_MAX`].
const DUE_PER_RUN_MAX: usize = 4;
const DUE_MORE_MAX: usize = 64;

/// Due and running checks.
pub(crate) struct Work {
    runs: Vec<Run>,
    states: Vec<RunState>,
    /// Due times; an entry that differs from its check's due time is stale.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    pub(crate) running: JoinSet<Finding>,
    /// The run and start time of each task.
    tasks: HashMap<Id, (usize, Time)>,
    in_flight_max: usize,
    counters: Arc<SchedulerCounters>,
    /// Whether a due run waits because of the limit.
    is_full: bool,
}

/// State of one check.
#[derive(Clone, Copy, Debug)]
struct RunState {
    /// `None` while a run is in progress, or if no run is scheduled.
    due: Option<Time>,
    started: Time,
    is_running: bool,
    /// A request made during a run.
    requested: Option<Requested>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Requested {
    Probe,
    Change,
}

impl Work {
    pub(crate) fn new(
        runs: Vec<Run>,
        in_flight_max: usize,
        counters: Arc<SchedulerCounters>,
        sink: &impl ResultSink,
    ) -> Self {
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by_key(|&run| runs[run].schedule.phase());
        let never = RunState { due: None, started: Time::ZERO, is_running: false, requested: None };
        let mut work = Self {
            states: vec![never; runs.len()],
            due: BinaryHeap::with_capacity(runs.len()),
            runs,
            running: JoinSet::new(),
            tasks: HashMap::new(),
            in_flight_max,
            counters,
            is_full: false,
        };
        let mut at = sink.now();
        for run in order {
            if work.runs[run].is_started {
                continue;
            }
            if let Some(LastRun { started, next_due }) = sink.last_run(work.runs[run].check) {
                let one = &mut work.runs[run];
                let due =
                    if one.is_scheduled { next_due } else { one.next(started, Duration::ZERO, started) };
                work.states[run].started = started;
                work.schedule(run, due);
                continue;
            }
            work.schedule(run, at);
            at = at.after(FIRST_RUNS_APART);
        }
        work
    }

    fn schedule(&mut self, run: usize, at: Time) {
        self.states[run].due = Some(at);
        self.due.push(Reverse((at, run)));
        if self.due.len() > DUE_PER_RUN_MAX * self.states.len() + DUE_MORE_MAX {
            let due = self.states.iter().enumerate();
            self.due = due.filter_map(|(run, state)| Some(Reverse((state.due?, run)))).collect();
        }
    }

    /// The earliest entry of `due` that is not stale. Stale entries before it are removed.
    fn first_due(&mut self) -> Option<(Time, usize)> {
        loop {
            let &Reverse((at, run)) = self.due.peek()?;
            if self.states[run].due == Some(at) {
                return Some((at, run));
            }
            self.due.pop();
        }
    }

    /// The time at which the next run may start; [`Time::MAX`] while the limit is reached.
    pub(crate) fn next_due(&mut self) -> Time {
        if self.running.len() >= self.in_flight_max {
            return Time::MAX;
        }
        self.first_due().map_or(Time::MAX, |(at, _)| at)
    }

    /// Makes the next run of `check` due now, unless a run is in progress.
    pub(crate) fn run_now(&mut self, check: usize, now: Time) {
        let run = self.runs.iter().position(|run| run.check == check);
        if let Some(run) = run.filter(|&run| !self.states[run].is_running) {
            self.schedule(run, now);
        }
    }

    pub(crate) fn start_due(&mut self, sink: &impl ResultSink) {
        let now = sink.now();
        while let Some((at, run)) = self.first_due().filter(|(at, _)| *at <= now) {
            if self.running.len() >= self.in_flight_max {
                // Counted once each time the limit is reached. The histogram of lags shows how
                // late the runs start.
                if !std::mem::replace(&mut self.is_full, true) {
                    count(&self.counters.waited);
                }
                return;
            }
            self.due.pop();
            self.states[run] = RunState { due: None, started: now, is_running: true, requested: None };
            // A request made from now on needs a result newer than that of this run.
            self.runs[run].is_asked.store(false, Ordering::Release);
            let (due, counters) = (sink.instant(at), Arc::clone(&self.counters));
            let (runner, stats) = (Arc::clone(&self.runs[run].runner), Arc::clone(&self.runs[run].stats));
            let task = self.running.spawn(async move {
                counters.lag.add(due.elapsed());
                runner.run_counted(&stats).await
            });
            self.tasks.insert(task.id(), (run, now));
        }
        self.is_full = false;
    }

    /// Handles the ended run and all others that have ended by now.
    pub(crate) fn settle_all(&mut self, first: Result<(Id, Finding), JoinError>, sink: &impl ResultSink) {
        let mut next = Some(first);
        while let Some(joined) = next {
            self.settle(joined, sink);
            next = self.running.try_join_next_with_id();
        }
    }

    fn settle(&mut self, joined: Result<(Id, Finding), JoinError>, sink: &impl ResultSink) {
        let is_aborted = joined.is_err();
        let (id, finding) = joined.unwrap_or_else(|error| (error.id(), aborted_finding()));
        let Some((at, start)) = self.tasks.remove(&id) else { return };
        count(&self.counters.runs);
        if is_aborted {
            self.runs[at].stats.aborted(finding.outcome);
        }
        if finding.outcome.is_success() == Some(false) {
            count(&self.counters.failed);
        }
        let run = &mut self.runs[at];
        let interval = sink.found(run.check, &finding);
        let now = sink.now();
        if run.is_scheduled && now.since(start) > interval {
            count(&self.counters.overruns);
            run.stats.overran();
        }
        let next = run.next(start, interval, now);
        let state = &mut self.states[at];
        state.is_running = false;
        let requested = state.requested.take();
        self.schedule(at, next);
        match requested {
            Some(Requested::Probe) => self.request(Request::Probe(at), sink),
            Some(Requested::Change) => self.request(Request::Change(at), sink),
            None => {}
        }
    }

    /// Makes the next run due as early as permitted: for a probe, when the last run is older than
    /// `cache`; for a change, [`CHANGES_APART`] after the last start. While a run is in progress,
    /// records the request.
    pub(crate) fn request(&mut self, request: Request, sink: &impl ResultSink) {
        let (at, requested) = match request {
            Request::Probe(at) => (at, Requested::Probe),
            Request::Change(at) => (at, Requested::Change),
        };
        let (Some(run), Some(state)) = (self.runs.get(at), self.states.get_mut(at)) else { return };
        if requested == Requested::Change {
            run.is_changed.store(false, Ordering::Release);
        }
        if state.is_running {
            run.stats.coalesced();
            state.requested = state.requested.max(Some(requested));
            return;
        }
        let apart = match requested {
            Requested::Probe => run.cache.unwrap_or_default(),
            Requested::Change => CHANGES_APART,
        };
        let now = sink.now();
        let next = state.started.after(apart).max(now);
        if requested == Requested::Probe && next > now {
            run.stats.cache_hit();
        }
        if state.due.is_none_or(|due| next < due) {
            self.schedule(at, next);
        }
    }
}

/// The finding of a run that panicked. The check continues with its next run.
fn aborted_finding() -> Finding {
    Finding { outcome: Outcome::Error, latency: Duration::ZERO, reason: "the run was aborted".to_owned() }
}
