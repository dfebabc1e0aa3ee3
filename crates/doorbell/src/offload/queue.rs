//! Queues of jobs: one bounded queue per class, and pumps that empty them, at most one per thread.
//!
//! Does not know about: threads, which an [`Executor`] provides. An executor gets one [`Pump`] for
//! a burst of jobs, not one per job. `line.rs` implements the bounded queue of a class.

use core::fmt;
use std::sync::Arc;

use super::job::{Class, Entry, StartedJob};
use super::line::{Line, TakeResult};
use crate::panics::caught;
use crate::sync::atomic::{AtomicUsize, Ordering, fence};

/// Number of consecutive high jobs after which a normal job goes first.
const HIGH_IN_ROW_MAX: u32 = 15;

/// A provider of threads for jobs.
pub trait Executor: Send + Sync {
    /// Maximum number of parallel jobs: there are never more pumps than this.
    fn threads(&self) -> usize;

    /// Calls [`Pump::run`] on another thread. Must not block, because a ring thread calls it. If
    /// this method panics, the job is refused as if the queue were full.
    fn spawn(&self, pump: Pump);
}

/// Result of submitting a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submitted {
    /// The queue of the job's class is full.
    Full,
    /// The job is queued.
    Queued,
    /// The job is queued, but the executor panicked while it started a thread.
    Stranded,
}

/// Queues and their executor, shared by all clones of an [`Offload`](super::Offload).
pub(crate) struct Core {
    high: Line,
    normal: Line,
    /// Number of pumps that were created and are not finished.
    pumps: AtomicUsize,
    threads: usize,
    executor: Box<dyn Executor>,
    /// Whether a client's FIN cancels its job.
    pub(crate) fin_cancels: bool,
}

impl Core {
    pub(super) fn new(executor: Box<dyn Executor>, queue_max: [usize; 2], fin_cancels: bool) -> Self {
        let [high, normal] = queue_max.map(Line::new);
        let threads = executor.threads().max(1);
        Self { high, normal, pumps: AtomicUsize::new(0), threads, executor, fin_cancels }
    }

    /// Puts a job into the queue of its class and ensures that a thread empties it.
    pub(super) fn submit(self: &Arc<Self>, class: Class, entry: Entry) -> Submitted {
        let queued = self.line(class).push(entry);
        // The fence ensures that this thread sees an active pump, or that the pump sees the job
        // before it finishes. The fence also covers a job that a sweep in `push` had temporarily
        // removed from the queue while a pump looked for jobs.
        fence(Ordering::SeqCst);
        if (queued || !self.is_empty()) && self.engage() {
            let pump = Pump { core: Some(Arc::clone(self)), high_in_row: 0 };
            let spawned = caught(|| self.executor.spawn(pump));
            if queued && spawned.is_err() {
                return Submitted::Stranded;
            }
        }
        if queued { Submitted::Queued } else { Submitted::Full }
    }

    /// Records that a job of this class was cancelled.
    pub(super) fn called_off(&self, class: Class) {
        self.line(class).called_off();
    }

    pub(crate) fn queued(&self, class: Class) -> usize {
        self.line(class).jobs()
    }

    pub(super) fn swept(&self) -> u64 {
        self.high.swept() + self.normal.swept()
    }

    fn is_empty(&self) -> bool {
        self.high.is_empty() && self.normal.is_empty()
    }

    const fn line(&self, class: Class) -> &Line {
        match class {
            Class::High => &self.high,
            Class::Normal => &self.normal,
        }
    }

    /// Counts one more pump. Returns false if every thread already has a pump.
    fn engage(&self) -> bool {
        let one_more = |pumps| (pumps < self.threads).then_some(pumps + 1);
        self.pumps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Subtracts one pump, which found no job, from the count. Returns false if the pump must
    /// continue, because a job has arrived in the meantime.
    fn disengage(&self) -> bool {
        self.pumps.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.is_empty() || !self.engage()
    }
}

/// A task that empties the queues. An executor calls [`Pump::run`], or takes jobs one by one with
/// [`Pump::take`].
#[must_use = "jobs wait until a pump is run"]
pub struct Pump {
    /// `None` after the pump has finished.
    core: Option<Arc<Core>>,
    high_in_row: u32,
}

impl Pump {
    /// Runs jobs until the queues are empty.
    pub fn run(mut self) {
        while let Some(job) = self.take() {
            job.run();
        }
    }

    /// Takes the next job. `None` means that the pump is finished.
    pub fn take(&mut self) -> Option<StartedJob> {
        loop {
            let core = self.core.as_ref()?;
            let normal_first = self.high_in_row >= HIGH_IN_ROW_MAX;
            let taken = if normal_first {
                core.normal.take().or_else(|| core.high.take())
            } else {
                core.high.take().inspect(|_| self.high_in_row += 1).or_else(|| {
                    self.high_in_row = 0;
                    core.normal.take()
                })
            };
            if normal_first {
                self.high_in_row = 0;
            }
            match taken {
                Some(TakeResult::Job(job)) => return Some(job),
                Some(TakeResult::CalledOff) => {}
                None if core.disengage() => self.core = None,
                None => {}
            }
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            core.pumps.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("high", &self.high.jobs())
            .field("normal", &self.normal.jobs())
            .field("pumps", &self.pumps)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump").field("core", &self.core).finish_non_exhaustive()
    }
}
