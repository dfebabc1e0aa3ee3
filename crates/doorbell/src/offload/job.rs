//! A job: the deferred work of a handler, from the queue to its outcome.

use core::any::Any;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::outcome::{Delivery, Inbox, JobReply, Outcome};
use super::queue::{Core, Submitted};
use crate::id::ConnId;
use crate::panics::{caught, dispose};
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Mutex, PoisonError};
use crate::time::{Clock as _, OsClock, Time};

/// Priority class of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Runs before all normal jobs, except that every sixteenth job is a normal one, so that normal
    /// jobs do not starve.
    High,
    /// Runs in order of arrival.
    #[default]
    Normal,
}

/// The deferred work of a request.
pub(crate) struct Job {
    core: Arc<Core>,
    class: Class,
    task: Arc<dyn Task>,
}

impl Job {
    /// A job whose request waits until `deadline`.
    pub(crate) fn new<A: Into<JobReply>>(
        core: Arc<Core>,
        class: Class,
        deadline: Time,
        work: impl FnOnce(&JobContext<'_>) -> A + Send + 'static,
    ) -> Self {
        let work = Mutex::new(Some(move |context: &JobContext<'_>| work(context).into()));
        Self { core, class, task: Arc::new(Cell { state: AtomicU8::new(QUEUED), deadline, work }) }
    }

    /// Returns the job in `work`, or `None` if `work` is not a job.
    pub(crate) fn from_work(work: Box<dyn Any + Send>) -> Option<Self> {
        work.downcast().ok().map(|job| *job)
    }

    /// Queues the job for a connection of a worker; the outcome is delivered to `inbox`. `None` if
    /// the job cannot be queued.
    pub(crate) fn submit(self, conn: ConnId, number: u64, inbox: &Arc<Inbox>) -> Option<Ticket> {
        self.submit_for(OutcomeReceiver::Worker { conn, number, inbox: Arc::clone(inbox) })
    }

    /// Runs the job on the calling thread, without queueing it.
    pub(crate) fn run_here(self) -> Outcome {
        if self.task.start() { self.task.run() } else { Outcome::Panicked }
    }

    /// Queues the job; `receiver` receives its outcome. `None` if the job cannot be queued.
    pub(crate) fn submit_for(self, receiver: OutcomeReceiver) -> Option<Ticket> {
        let Self { core, class, task } = self;
        let entry = Entry { task: Arc::clone(&task), receiver };
        let is_taken = match core.submit(class, entry) {
            Submitted::Full => false,
            Submitted::Queued => true,
            // The executor started no thread, so the job is cancelled, because it would never run.
            // If a running thread has already taken the job, the cancel fails and the job runs.
            Submitted::Stranded if task.cancel() => {
                core.called_off(class);
                false
            }
            Submitted::Stranded => true,
        };
        is_taken.then(|| Ticket { core, class, task })
    }
}

/// A handle to a queued job, owned by the code that waits for its outcome.
pub(crate) struct Ticket {
    core: Arc<Core>,
    class: Class,
    task: Arc<dyn Task>,
}

impl Ticket {
    /// Cancels the job. Returns false if the job has started: [`JobContext::is_abandoned`] is then
    /// true, and its outcome will be delivered.
    pub(crate) fn call_off(&self) -> bool {
        let called_off = self.task.cancel();
        if called_off {
            self.core.called_off(self.class);
        }
        called_off
    }

    /// Whether a client's FIN cancels the job.
    pub(crate) fn fin_cancels(&self) -> bool {
        self.core.fin_cancels
    }
}

/// Work that is done at most once.
pub(super) trait Task: Send + Sync {
    /// Starts the task. Returns false if it was cancelled.
    fn start(&self) -> bool;

    /// Runs the task. Call it once, after [`Task::start`].
    fn run(&self) -> Outcome;

    /// Cancels the task. Returns false if the task has started or is already cancelled.
    fn cancel(&self) -> bool;

    /// True if the task was cancelled.
    fn is_cancelled(&self) -> bool;
}

/// The states of a task.
const QUEUED: u8 = 0;
const STARTED: u8 = 1;
const CANCELLED: u8 = 2;
/// Started, and cancelled after that.
const ABANDONED: u8 = 3;

/// The request that waits for a running job.
pub struct JobContext<'j> {
    state: &'j AtomicU8,
    deadline: Time,
}

impl JobContext<'_> {
    /// Time until the wait for this job times out. Reads the clock.
    pub fn time_left(&self) -> Duration {
        self.deadline.since(OsClock.now())
    }

    /// True once no request waits: the client has left, the wait has timed out, or the server has
    /// stopped. A long job should then end early; its reply is dropped. A FIN counts as leaving
    /// only with [`OffloadBuilder::fin_cancels`](super::OffloadBuilder::fin_cancels).
    pub fn is_abandoned(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ABANDONED
    }
}

impl fmt::Debug for JobContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deadline, .. } = self;
        f.debug_struct("JobContext")
            .field("deadline", deadline)
            .field("is_abandoned", &self.is_abandoned())
            .finish()
    }
}

struct Cell<F> {
    state: AtomicU8,
    deadline: Time,
    /// Taken only by the thread that changed the state from [`QUEUED`].
    work: Mutex<Option<F>>,
}

impl<F> Cell<F> {
    fn leave_queue(&self, to: u8) -> bool {
        self.change(QUEUED, to)
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn take(&self) -> Option<F> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<F> Drop for Cell<F> {
    /// A job may be dropped on any thread, and its captured values come from the application. So a
    /// panic of their destructors is caught.
    fn drop(&mut self) {
        if let Some(work) = self.take() {
            dispose(work);
        }
    }
}

impl<F: FnOnce(&JobContext<'_>) -> JobReply + Send> Task for Cell<F> {
    fn start(&self) -> bool {
        self.leave_queue(STARTED)
    }

    fn run(&self) -> Outcome {
        debug_assert!(
            matches!(self.state.load(Ordering::Relaxed), STARTED | ABANDONED),
            "a task is started before it is run"
        );
        let Some(work) = self.take() else { return Outcome::Panicked };
        let context = JobContext { state: &self.state, deadline: self.deadline };
        caught(|| work(&context)).map_or(Outcome::Panicked, Outcome::Replied)
    }

    fn cancel(&self) -> bool {
        let cancelled = self.leave_queue(CANCELLED);
        if cancelled {
            // Drops the captured values now, because the entry may stay in the queue for longer.
            dispose(self.take());
        } else {
            self.change(STARTED, ABANDONED);
        }
        cancelled
    }

    fn is_cancelled(&self) -> bool {
        self.state.load(Ordering::Acquire) == CANCELLED
    }
}

/// The receiver of a job's outcome.
pub(crate) enum OutcomeReceiver {
    /// Code that drives a protocol without a worker.
    Other(Box<dyn FnOnce(Outcome) + Send>),
    /// A worker, for one of its connections.
    Worker { conn: ConnId, number: u64, inbox: Arc<Inbox> },
}

impl OutcomeReceiver {
    fn notify(self, outcome: Outcome) {
        match self {
            Self::Other(notify) => {
                // This code runs on a thread of the executor, which a panic could end.
                let _contained = caught(|| notify(outcome));
            }
            Self::Worker { conn, number, inbox } => inbox.leave(Delivery { conn, number, outcome }),
        }
    }
}

/// An entry of a queue.
pub(super) struct Entry {
    task: Arc<dyn Task>,
    receiver: OutcomeReceiver,
}

impl Entry {
    /// Starts the job, unless it was cancelled.
    pub(super) fn start(self) -> Option<StartedJob> {
        // `then_some` would create the job even for a cancelled task, and dropping the job would
        // deliver an outcome.
        if self.task.start() { Some(StartedJob { entry: Some(self) }) } else { None }
    }

    pub(super) fn is_called_off(&self) -> bool {
        self.task.is_cancelled()
    }
}

/// A job that was taken from its queue and can no longer be cancelled.
///
/// Dropping it without running counts as a panic.
#[must_use = "a started job must be run: a request waits for it"]
pub struct StartedJob {
    entry: Option<Entry>,
}

impl StartedJob {
    /// Runs the job on this thread and delivers its result.
    pub fn run(mut self) {
        if let Some(entry) = self.entry.take() {
            let outcome = entry.task.run();
            let Entry { receiver, task } = entry;
            // The captured values of the job are dropped before its outcome is delivered.
            drop(task);
            receiver.notify(outcome);
        }
    }
}

impl Drop for StartedJob {
    fn drop(&mut self) {
        if let Some(Entry { receiver, .. }) = self.entry.take() {
            receiver.notify(Outcome::Panicked);
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("class", &self.class).finish_non_exhaustive()
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("class", &self.class).finish_non_exhaustive()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Entry");
        if let OutcomeReceiver::Worker { conn, number, .. } = &self.receiver {
            shown.field("conn", conn).field("number", number);
        }
        shown.finish_non_exhaustive()
    }
}

impl fmt::Debug for StartedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedJob").field("entry", &self.entry).finish()
    }
}
