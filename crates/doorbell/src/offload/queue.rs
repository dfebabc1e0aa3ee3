//! Where jobs wait: a bounded queue for each class, and pumps that empty them on as many threads as there are.
//!
//! Does not know about: threads. An [`Executor`] brings them; what it is given is a [`Pump`], once for a burst of jobs and not for
//! each of them. How a class keeps its bound is `line.rs`.

use core::fmt;
use std::sync::Arc;

use super::job::{Class, Entry, StartedJob};
use super::line::{Line, Taken};
use crate::panics::caught;
use crate::sync::atomic::{AtomicUsize, Ordering, fence};

/// A normal job goes first after so many high ones.
const HIGH_IN_ROW_MAX: u32 = 15;

/// Threads for jobs.
pub trait Executor: Send + Sync {
    /// How many jobs run at once: no more pumps than this are given out.
    fn threads(&self) -> usize;

    /// Has [`Pump::run`] called on a thread of its own. Must not wait: a ring thread calls it. If it panics the job is refused as by a full queue.
    fn spawn(&self, pump: Pump);
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submitted {
    /// The queue of its class is full.
    Full,
    /// It waits.
    Queued,
    /// Queued, but the executor panicked while it started a thread.
    Stranded,
}

/// Queues and their executor; what all clones of an [`Offload`](super::Offload) share.
pub(crate) struct Core {
    high: Line,
    normal: Line,
    /// Pumps that were given out and are not done.
    pumps: AtomicUsize,
    threads: usize,
    executor: Box<dyn Executor>,
    /// A client that has finished sending counts as one that left.
    pub(crate) fin_cancels: bool,
}

impl Core {
    pub(super) fn new(executor: Box<dyn Executor>, queue_max: [usize; 2], fin_cancels: bool) -> Self {
        let [high, normal] = queue_max.map(Line::new);
        let threads = executor.threads().max(1);
        Self { high, normal, pumps: AtomicUsize::new(0), threads, executor, fin_cancels }
    }

    /// Puts a job in the queue of its class, and sees to it that a thread empties that.
    pub(super) fn submit(self: &Arc<Self>, class: Class, entry: Entry) -> Submitted {
        let queued = self.line(class).push(entry);
        // Either this sees a pump that goes on, or the pump sees the job before it goes. Also for jobs of others, which `push` may have had
        // in hand when a pump looked for them.
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

    /// A job of this class was called off.
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

    /// Counts one more pump in, unless each thread has one.
    fn engage(&self) -> bool {
        let one_more = |pumps| (pumps < self.threads).then_some(pumps + 1);
        self.pumps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Counts a pump out that found nothing. False when it must go on, because something came meanwhile.
    fn disengage(&self) -> bool {
        self.pumps.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.is_empty() || !self.engage()
    }
}

/// Empties the queues. An executor calls [`Pump::run`], or takes jobs one by one.
#[must_use = "jobs wait until a pump is run"]
pub struct Pump {
    /// `None` once it is counted out.
    core: Option<Arc<Core>>,
    high_in_row: u32,
}

impl Pump {
    /// Runs jobs until there are none.
    pub fn run(mut self) {
        while let Some(job) = self.take() {
            job.run();
        }
    }

    /// The next job, if there is one; else the pump is done.
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
                Some(Taken::Job(job)) => return Some(job),
                Some(Taken::CalledOff) => {}
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
