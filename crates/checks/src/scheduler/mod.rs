//! The thread on which checks run: one task that starts what is due, and one task for each run.
//!
//! The number of concurrent runs is limited; runs that are due beyond the limit wait and are
//! counted. A check is not due again before its run has ended, so the queue holds at most one
//! entry for each check.
//!
//! Does not know about: what a run does, and what follows from its finding, which goes to a
//! [`ResultSink`].

pub(crate) mod counters;
pub(crate) mod lag;
pub(crate) mod push;
pub(crate) mod run;
pub(crate) mod run_requests;
mod schedule;
pub(crate) mod sink;
pub(crate) mod work;

use crate::connect::connector::Connector;
use crate::connect::resolver::LOOKUPS_MAX;
use crate::finding::Finding;
use crate::kinds::blocking::BLOCKING_MAX;
use crate::runner::Runner;
use crate::runner::descriptors::Descriptors;
use crate::scheduler::counters::{SchedulerCounters, count};
use crate::scheduler::push::Push;
use crate::scheduler::run::Run;
use crate::scheduler::run_requests::{Request, RequestQueue, RunRequest};
use crate::scheduler::sink::ResultSink;
use crate::scheduler::work::Work;
use crate::stats::CheckStats;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep_until;

/// Threads for blocking calls: enough that DNS lookups never take those of files and programs.
const BLOCKING_THREADS_MAX: usize = BLOCKING_MAX + LOOKUPS_MAX;

/// Descriptors of a runtime: epoll, two to wake it, and one spare.
const FDS_PER_RUNTIME: usize = 4;

/// Immediate runs that may be pending; further requests are refused.
const RUNS_NOW_MAX: usize = 16;

/// Requests immediate runs, as an operator does.
#[derive(Clone, Debug)]
pub struct RunNow {
    sender: mpsc::Sender<usize>,
}

/// Proves that the thread makes progress: after [`Self::wake`] the number of turns rises.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat(Arc<Beat>);

#[derive(Debug, Default)]
struct Beat {
    wanted: Notify,
    turns: AtomicU64,
}

/// The running thread; stops when dropped.
#[derive(Debug)]
pub struct Scheduler {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// A thread that is ready and has started no check yet.
#[derive(Debug)]
pub struct ReadyScheduler {
    // Dropped first, or joining the thread would never end.
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
    connector: Arc<Connector>,
    pushes: mpsc::Receiver<(usize, Finding)>,
    run_now: RunNow,
    runs_now: mpsc::Receiver<usize>,
    requests: RequestQueue,
    requested: mpsc::Receiver<Request>,
    heartbeat: Heartbeat,
}

impl Heartbeat {
    /// Makes the thread turn once as soon as possible.
    pub fn wake(&self) {
        self.0.wanted.notify_one();
    }

    /// Turns since the start.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.0.turns.load(Ordering::Relaxed)
    }
}

impl RunNow {
    /// Starts a run of this check unless one is under way; false if too many are pending.
    pub fn run_now(&self, check: usize) -> bool {
        self.sender.try_send(check).is_ok()
    }
}

impl Plan {
    /// Creates a plan. `stats` is indexed by check number; `counters` may continue those of an
    /// earlier scheduler.
    #[must_use]
    pub fn new(
        runs: Vec<Run>,
        stats: Vec<Arc<CheckStats>>,
        in_flight_max: usize,
        connector: Arc<Connector>,
        counters: Arc<SchedulerCounters>,
    ) -> (Self, Push) {
        let (push, pushes) = Push::new(Arc::clone(&counters));
        let (run_now_sender, runs_now) = mpsc::channel(RUNS_NOW_MAX);
        let run_now = RunNow { sender: run_now_sender };
        let (requests, requested) = RequestQueue::new(Arc::clone(&counters));
        for (at, run) in runs.iter().enumerate() {
            run.runner.notify_changes(requests.change_notice(at));
        }
        let heartbeat = Heartbeat::default();
        let plan = Self {
            runs,
            stats,
            in_flight_max,
            counters,
            connector,
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

    /// Requests for the checks that a probe may trigger, by check number.
    pub fn run_requests(&self) -> impl Iterator<Item = (usize, RunRequest)> {
        let runs = self.runs.iter().enumerate().filter(|(_, run)| run.cache.is_some());
        runs.map(|(at, run)| (run.check, self.requests.run_request(at, &run.is_asked)))
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

    /// The connector of all checks.
    #[must_use]
    pub fn connector(&self) -> Arc<Connector> {
        Arc::clone(&self.connector)
    }

    /// Upper bound on the descriptors that the checks have open at once.
    #[must_use]
    pub fn descriptors(&self) -> u32 {
        let each = self.runs.iter().map(|run| run.runner.descriptors());
        u32::try_from(Descriptors::all(each, self.in_flight_max) + FDS_PER_RUNTIME).unwrap_or(u32::MAX)
    }

    /// Starts the thread.
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
        let run = move || {
            if goes.recv().is_ok() {
                end(runtime, |runtime| runtime.block_on(self.run(&*sink, stopped)));
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
        loop {
            count(&heartbeat.0.turns);
            work.start_due(sink);
            let wake = work.next_due().min(sink.deadline());
            tokio::select! {
                Some(joined) = work.running.join_next_with_id() => work.settle_all(joined, sink),
                Some(request) = requested.recv() => work.request(request, sink),
                Some((check, finding)) = pushes.recv() => {
                    stats.get(check).into_iter().for_each(|one| one.pushed(finding.outcome));
                    sink.found(check, &finding);
                }
                Some(check) = runs_now.recv() => work.run_now(check, sink.now()),
                () = sleep_until(sink.instant(wake)) => sink.tick(),
                () = heartbeat.0.wanted.notified() => {}
                _stopped = stopped.wait_for(|stopped| *stopped) => return,
            }
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

/// Drops a runtime without waiting for its blocking threads: a DNS lookup may hang indefinitely.
fn end(runtime: Runtime, run: impl FnOnce(&Runtime)) {
    run(&runtime);
    runtime.shutdown_background();
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
