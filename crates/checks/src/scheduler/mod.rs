//! The thread on which checks run: one task that starts due runs, and one task for each run.
//!
//! The number of concurrent runs is limited. Due runs beyond the limit wait and are counted. A
//! check is not due again before its run has ended, so the queue contains at most one valid entry
//! for each check.
//!
//! Does not know about: the kinds of checks, and the effect of a finding, which goes to a
//! [`ResultSink`].

pub(crate) mod counters;
pub(crate) mod lag;
pub(crate) mod push;
pub(crate) mod run;
pub(crate) mod run_requests;
mod schedule;
pub(crate) mod sink;
pub(crate) mod work;

#[cfg(feature = "kinds")]
use crate::connect::connector::Connector;
use crate::finding::Finding;
use crate::limits::{BLOCKING_MAX, LOOKUPS_MAX};
use crate::runner::Runner;
use crate::runner::descriptors::Descriptors;
use crate::scheduler::counters::{SchedulerCounters, count};
use crate::scheduler::push::Push;
use crate::scheduler::run::Run;
#[cfg(feature = "kinds")]
use crate::scheduler::run_requests::RunStart;
use crate::scheduler::run_requests::{Request, RequestQueue, RunRequest};
use crate::scheduler::sink::{PanicSafe, ResultSink};
use crate::scheduler::work::Work;
use crate::stats::CheckStats;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep_until;

/// Maximum number of threads for blocking calls: the sum of two limits, so that DNS lookups cannot
/// use up the threads for files and programs.
const BLOCKING_THREADS_MAX: usize = BLOCKING_MAX + LOOKUPS_MAX;

/// Descriptors of a runtime: epoll, two to wake it, and one spare.
const FDS_PER_RUNTIME: usize = 4;

/// Maximum number of pending immediate runs; further requests are refused.
const RUNS_NOW_MAX: usize = 16;

/// Handle to request immediate runs, for example by an operator.
#[derive(Clone, Debug)]
pub struct RunNow {
    sender: mpsc::Sender<usize>,
}

/// Shows whether the thread makes progress: after [`Self::wake`], the number of turns increases.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat(Arc<HeartbeatInner>);

#[derive(Debug, Default)]
struct HeartbeatInner {
    wanted: Notify,
    turns: AtomicU64,
}

/// The running scheduler thread. Dropping it stops the thread.
#[derive(Debug)]
pub struct Scheduler {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// A scheduler thread that is ready but has not started any check.
#[derive(Debug)]
pub struct ReadyScheduler {
    // The first field, because it must be dropped first: joining the thread would otherwise block
    // forever.
    go: SyncSender<()>,
    scheduler: Scheduler,
}

/// A scheduler before its thread is started.
#[derive(Debug)]
pub struct Plan {
    runs: Vec<Run>,
    /// Counters by check number.
    stats: Vec<Arc<CheckStats>>,
    in_flight_max: usize,
    counters: Arc<SchedulerCounters>,
    #[cfg(feature = "kinds")]
    connector: Option<Arc<Connector>>,
    pushes: mpsc::Receiver<(usize, Finding)>,
    run_now: RunNow,
    runs_now: mpsc::Receiver<usize>,
    requests: RequestQueue,
    requested: mpsc::Receiver<Request>,
    heartbeat: Heartbeat,
}

impl Heartbeat {
    /// Wakes the thread for one turn of its loop.
    pub fn wake(&self) {
        self.0.wanted.notify_one();
    }

    /// Number of turns of the thread's loop since its start.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.0.turns.load(Ordering::Relaxed)
    }
}

impl RunNow {
    /// Requests an immediate run of `check`, unless a run is in progress. Returns `false` if too
    /// many requests are pending.
    pub fn run_now(&self, check: usize) -> bool {
        self.sender.try_send(check).is_ok()
    }
}

impl Plan {
    /// Creates a plan. `stats` is indexed by check number; `in_flight_max` is the maximum number of
    /// concurrent runs, where 0 counts as 1; `counters` may continue those of an earlier scheduler.
    #[must_use]
    pub fn new(
        runs: Vec<Run>,
        stats: Vec<Arc<CheckStats>>,
        in_flight_max: usize,
        counters: Arc<SchedulerCounters>,
    ) -> (Self, Push) {
        let (push, pushes) = Push::new(Arc::clone(&counters));
        let (run_now_sender, runs_now) = mpsc::channel(RUNS_NOW_MAX);
        let run_now = RunNow { sender: run_now_sender };
        let (requests, requested) = RequestQueue::new(Arc::clone(&counters));
        #[cfg(feature = "kinds")]
        for (at, run) in runs.iter().enumerate() {
            run.runner.notify_changes(requests.change_notice(at, &run.is_changed));
        }
        let heartbeat = Heartbeat::default();
        let plan = Self {
            runs,
            stats,
            in_flight_max: in_flight_max.max(1),
            counters,
            #[cfg(feature = "kinds")]
            connector: None,
            pushes,
            run_now,
            runs_now,
            requests,
            requested,
            heartbeat,
        };
        (plan, push)
    }

    /// A handle for immediate runs.
    #[must_use]
    pub fn run_now_handle(&self) -> RunNow {
        self.run_now.clone()
    }

    /// A heartbeat for a watchdog.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat.clone()
    }

    /// Handles to request runs of the checks that probes may trigger, by check number.
    pub fn run_requests(&self) -> impl Iterator<Item = (usize, RunRequest)> {
        let runs = self.runs.iter().enumerate().filter(|(_, run)| run.cache.is_some());
        runs.map(|(at, run)| (run.check, self.requests.run_request(at, &run.is_asked)))
    }

    /// Handles to start runs of the checks that instances share, by check number. A check whose
    /// handle was taken has no schedule: it runs through the handle, or on request of an operator.
    #[cfg(feature = "kinds")]
    pub fn run_starts(&mut self) -> impl Iterator<Item = (usize, RunStart)> {
        let requests = &self.requests;
        let runs = self.runs.iter_mut().enumerate().filter(|(_, run)| run.is_shared);
        runs.map(|(at, run)| {
            run.is_started = true;
            (run.check, requests.run_start(at, &run.is_changed))
        })
    }

    /// All runners, by check number.
    pub fn runners(&self) -> impl Iterator<Item = (usize, &Arc<Runner>)> {
        self.runs.iter().map(|run| (run.check, &run.runner))
    }

    /// Counters by check number.
    #[must_use]
    pub fn stats(&self) -> &[Arc<CheckStats>] {
        &self.stats
    }

    /// Stores the connector of all checks, for [`Self::connector`].
    #[cfg(feature = "kinds")]
    #[must_use]
    pub fn with_connector(self, connector: Arc<Connector>) -> Self {
        Self { connector: Some(connector), ..self }
    }

    /// The connector of all checks, if stored.
    #[cfg(feature = "kinds")]
    #[must_use]
    pub const fn connector(&self) -> Option<&Arc<Connector>> {
        self.connector.as_ref()
    }

    /// Upper bound on the descriptors that the checks have open at once.
    #[must_use]
    pub fn descriptors(&self) -> u32 {
        let each = self.runs.iter().map(|run| run.runner.descriptors());
        u32::try_from(Descriptors::all(each, self.in_flight_max) + FDS_PER_RUNTIME).unwrap_or(u32::MAX)
    }

    /// Starts the thread. If the scheduler panics, the thread continues to call
    /// [`ResultSink::tick`], so that results become stale.
    ///
    /// # Errors
    /// The system refuses a thread or an epoll descriptor.
    pub fn start(self, sink: Arc<impl ResultSink>) -> io::Result<ReadyScheduler> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let (go, goes) = sync_channel(1);
        let sink = PanicSafe(sink);
        let run = move || {
            if goes.recv().is_ok() {
                end(runtime, |runtime| {
                    let run = AssertUnwindSafe(|| runtime.block_on(self.run(&sink, stopped.clone())));
                    if catch_unwind(run).is_err() {
                        runtime.block_on(expire(&sink, stopped));
                    }
                });
            }
        };
        let thread = std::thread::Builder::new().name("checks".into()).spawn(run)?;
        Ok(ReadyScheduler { go, scheduler: Scheduler { stop, thread: Some(thread) } })
    }

    async fn run(self, sink: &impl ResultSink, mut stopped: watch::Receiver<bool>) {
        // Both ends of each channel live as long as the task, so a request is never refused for
        // lack of a receiver.
        let Self {
            runs,
            stats,
            in_flight_max,
            counters,
            mut pushes,
            run_now: _run_now,
            mut runs_now,
            heartbeat,
            ..
        } = self;
        let (_requests, mut requested) = (self.requests, self.requested);
        let mut work = Work::new(runs, in_flight_max, counters, sink);
        let pushed = |check: usize, finding: &Finding| {
            stats.get(check).into_iter().for_each(|one| one.pushed(finding.outcome, finding.latency));
            sink.pushed(check, finding);
        };
        loop {
            count(&heartbeat.0.turns);
            work.start_due(sink);
            let wake = work.next_due().min(sink.deadline());
            tokio::select! {
                Some(joined) = work.running.join_next_with_id() => work.settle_all(joined, sink),
                Some(request) = requested.recv() => work.request(request, sink),
                Some((check, finding)) = pushes.recv() => pushed(check, &finding),
                Some(check) = runs_now.recv() => work.run_now(check, sink.now()),
                () = sleep_until(sink.instant(wake)) => sink.tick(),
                () = heartbeat.0.wanted.notified() => {}
                _stopped = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        // The results in the queue were acknowledged to their senders, so they must be handled.
        pushes.close();
        while let Ok((check, finding)) = pushes.try_recv() {
            pushed(check, &finding);
        }
    }
}

/// Continues after a panic without checks: their results become stale, instead of being reported as
/// current until the process ends. The heartbeat stops, so that a watchdog can restart the process.
async fn expire(sink: &impl ResultSink, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = sleep_until(sink.instant(sink.deadline())) => sink.tick(),
            _stopped = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

impl ReadyScheduler {
    /// Starts the checks.
    pub fn go(self) -> Scheduler {
        let _begins = self.go.send(());
        self.scheduler
    }
}

/// Calls `run`, then drops the runtime without waiting for its blocking threads: a DNS lookup may
/// hang indefinitely.
fn end(runtime: Runtime, run: impl FnOnce(&Runtime)) {
    run(&runtime);
    runtime.shutdown_background();
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        // A sink may drop the scheduler on the scheduler's own thread, which cannot join itself.
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(is_other) {
            let _panicked = thread.join();
        }
    }
}
