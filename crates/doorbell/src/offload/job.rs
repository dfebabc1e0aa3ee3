//! A job: the work a handler leaves, from the queue to its outcome.
//!
//! Does not know about: queues, which thread runs it, connections beyond the name of the one that waits.

use core::any::Any;
use core::fmt;
use std::sync::Arc;

use super::answer::{Answer, Delivery, Inbox, Outcome};
use super::queue::{Core, Submitted};
use crate::id::ConnId;
use crate::panics::{caught, dispose};
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Mutex, PoisonError};

/// Which queue a job waits in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Before all normal jobs, but for one in sixteen: nobody starves.
    High,
    /// In order.
    #[default]
    Normal,
}

/// What a handler leaves with a request that waits.
pub(crate) struct Job {
    core: Arc<Core>,
    class: Class,
    task: Arc<dyn Task>,
}

impl Job {
    pub(crate) fn new<A: Into<Answer>>(
        core: Arc<Core>,
        class: Class,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Self {
        let work = Mutex::new(Some(move || work().into()));
        Self { core, class, task: Arc::new(Cell { state: AtomicU8::new(QUEUED), work }) }
    }

    /// The job that a handler left, if that is what it left.
    pub(crate) fn from_work(work: Box<dyn Any + Send>) -> Option<Self> {
        work.downcast().ok().map(|job| *job)
    }

    /// Has it run, and its outcome left in `inbox`. `None` when there is no place for it.
    pub(crate) fn submit(self, conn: ConnId, number: u64, inbox: &Arc<Inbox>) -> Option<Ticket> {
        self.submit_for(Asker::Worker { conn, number, inbox: Arc::clone(inbox) })
    }

    /// The same for anybody.
    pub(crate) fn submit_for(self, asker: Asker) -> Option<Ticket> {
        let Self { core, class, task } = self;
        let entry = Entry { task: Arc::clone(&task), asker };
        let is_taken = match core.submit(class, entry) {
            Submitted::Full => false,
            Submitted::Queued => true,
            // Without a thread it would wait for nothing, unless one that runs has it by now.
            Submitted::Stranded if task.cancel() => {
                core.called_off(class);
                false
            }
            Submitted::Stranded => true,
        };
        is_taken.then(|| Ticket { core, class, task })
    }
}

/// A job that was queued, in the hands of whoever waits for it.
pub(crate) struct Ticket {
    core: Arc<Core>,
    class: Class,
    task: Arc<dyn Task>,
}

impl Ticket {
    /// Calls the job off. False when it has started: then its outcome will come.
    pub(crate) fn call_off(&self) -> bool {
        let called_off = self.task.cancel();
        if called_off {
            self.core.called_off(self.class);
        }
        called_off
    }

    /// Whether a client's FIN calls it off.
    pub(crate) fn fin_cancels(&self) -> bool {
        self.core.fin_cancels
    }
}

/// Work that is done once, or not at all.
pub(super) trait Task: Send + Sync {
    /// True when it may be run now: nobody has called it off.
    fn start(&self) -> bool;

    /// Runs it; after [`Task::start`], once.
    fn run(&self) -> Outcome;

    /// Calls it off. False when it has started, or was called off before.
    fn cancel(&self) -> bool;

    /// True when it was called off.
    fn is_cancelled(&self) -> bool;
}

/// The states of a task.
const QUEUED: u8 = 0;
const STARTED: u8 = 1;
const CANCELLED: u8 = 2;

struct Cell<F> {
    state: AtomicU8,
    /// Touched by whoever changed the state from [`QUEUED`].
    work: Mutex<Option<F>>,
}

impl<F> Cell<F> {
    fn leave_queue(&self, to: u8) -> bool {
        self.state.compare_exchange(QUEUED, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn take(&self) -> Option<F> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<F> Drop for Cell<F> {
    /// What work has captured is the program's: wherever a job is given up, on a ring thread or one of a pool, its drop goes no further.
    fn drop(&mut self) {
        if let Some(work) = self.take() {
            dispose(work);
        }
    }
}

impl<F: FnOnce() -> Answer + Send> Task for Cell<F> {
    fn start(&self) -> bool {
        self.leave_queue(STARTED)
    }

    fn run(&self) -> Outcome {
        debug_assert_eq!(self.state.load(Ordering::Relaxed), STARTED, "a task is started before it is run");
        let Some(work) = self.take() else { return Outcome::Panicked };
        caught(work).map_or(Outcome::Panicked, Outcome::Answered)
    }

    fn cancel(&self) -> bool {
        let cancelled = self.leave_queue(CANCELLED);
        if cancelled {
            // What it holds is given back now, not when its turn comes.
            dispose(self.take());
        }
        cancelled
    }

    fn is_cancelled(&self) -> bool {
        self.state.load(Ordering::Acquire) == CANCELLED
    }
}

/// Who waits for a job.
pub(crate) enum Asker {
    /// Somebody who drives a protocol without a worker.
    Other(Box<dyn FnOnce(Outcome) + Send>),
    /// A worker, for a connection of its own.
    Worker { conn: ConnId, number: u64, inbox: Arc<Inbox> },
}

impl Asker {
    fn tell(self, outcome: Outcome) {
        match self {
            Self::Other(tell) => {
                // On a thread of the executor, which may not live through a panic.
                let _contained = caught(|| tell(outcome));
            }
            Self::Worker { conn, number, inbox } => inbox.leave(Delivery { conn, number, outcome }),
        }
    }
}

/// A job in a queue.
pub(super) struct Entry {
    task: Arc<dyn Task>,
    asker: Asker,
}

impl Entry {
    /// Takes it on, unless it was called off.
    pub(super) fn start(self) -> Option<StartedJob> {
        // Not `then_some`: a started job that is dropped leaves an outcome.
        if self.task.start() { Some(StartedJob { entry: Some(self) }) } else { None }
    }

    pub(super) fn is_called_off(&self) -> bool {
        self.task.is_cancelled()
    }
}

/// A job that was taken from its queue: it can no longer be called off. Thrown away, it counts as one that panicked.
#[must_use = "a job that is started has somebody waiting for it"]
pub struct StartedJob {
    entry: Option<Entry>,
}

impl StartedJob {
    /// Runs it on this thread and leaves its answer where it is awaited.
    pub fn run(mut self) {
        if let Some(entry) = self.entry.take() {
            let outcome = entry.task.run();
            let Entry { asker, task } = entry;
            // What the job holds is gone before anybody hears of its end.
            drop(task);
            asker.tell(outcome);
        }
    }
}

impl Drop for StartedJob {
    fn drop(&mut self) {
        if let Some(Entry { asker, .. }) = self.entry.take() {
            asker.tell(Outcome::Panicked);
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
        if let Asker::Worker { conn, number, .. } = &self.asker {
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
