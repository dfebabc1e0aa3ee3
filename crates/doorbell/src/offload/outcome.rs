//! Results of jobs, and the inbox through which many threads deliver them to one worker.
//!
//! A worker announces that it is about to sleep, and is woken only after that: once for all results
//! that arrive while it sleeps, and never while it is awake.

use core::fmt;

use doorbell_http::{Replied, Reply, Responder};

use crate::driver::Waker;
use crate::id::ConnId;
use crate::panics::dispose;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, PoisonError, TryLockError};

/// Result of a job.
pub enum JobReply {
    /// A complete reply.
    Reply(Reply),
    /// The second part of the handler, which runs on the ring thread. For example, a guard can run
    /// as a job, and the guarded service afterwards on the ring thread.
    Then(Box<Finish>),
}

/// The function of [`JobReply::Then`]; see [`JobReply::then`].
pub type Finish = dyn FnOnce(Responder<'_>) -> Replied<'_> + Send;

impl JobReply {
    /// Continues on the ring thread: `finish` is called there like a handler, and must be as fast
    /// as a handler.
    pub fn then(finish: impl FnOnce(Responder<'_>) -> Replied<'_> + Send + 'static) -> Self {
        Self::Then(Box::new(finish))
    }
}

impl From<Reply> for JobReply {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl fmt::Debug for JobReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(reply) => f.debug_tuple("Reply").field(reply).finish(),
            Self::Then(_) => f.debug_tuple("Then").finish_non_exhaustive(),
        }
    }
}

/// The outcome of a job, with which a waiting request continues.
#[derive(Debug)]
pub(crate) enum Outcome {
    Replied(JobReply),
    /// The queue was full.
    Busy,
    /// The job panicked, or the executor dropped it.
    Panicked,
}

/// An outcome, and the connection that waits for it.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) conn: ConnId,
    /// The job's number. A connection has at most one job at a time, and numbers are never reused.
    pub(crate) number: u64,
    pub(crate) outcome: Outcome,
}

/// The inbox of a worker. The [module](self) documents it.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Set after a delivery was added, and cleared before the deliveries are taken.
    any: AtomicBool,
    /// True from the announcement of sleep until the worker wakes up, for a delivery or for another
    /// reason.
    asleep: AtomicBool,
    deliveries: Mutex<Vec<Delivery>>,
    waker: Waker,
}

impl Inbox {
    pub(crate) fn new(waker: Waker) -> Self {
        let (any, asleep) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { any, asleep, deliveries: Mutex::new(Vec::new()), waker }
    }

    /// Delivers an outcome, and wakes the worker if it sleeps and no delivery has woken it yet.
    pub(crate) fn leave(&self, delivery: Delivery) {
        let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        deliveries.push(delivery);
        self.any.store(true, Ordering::Release);
        drop(deliveries);
        // The fence ensures that this thread sees that the worker sleeps, or that the worker sees
        // the delivery.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Called before the worker waits. Returns false if it must not wait, because there are
    /// deliveries.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let nothing = !self.any.load(Ordering::Relaxed);
        if !nothing {
            self.asleep.store(false, Ordering::Relaxed);
        }
        nothing
    }

    /// Called after the worker has waited.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Appends all deliveries to `taken`. Never blocks: if another thread holds the lock, the
    /// deliveries are taken in the next turn.
    pub(crate) fn take(&self, taken: &mut Vec<Delivery>) {
        if !self.any.load(Ordering::Relaxed) || !self.any.swap(false, Ordering::Acquire) {
            return;
        }
        match self.deliveries.try_lock() {
            Ok(mut deliveries) if taken.is_empty() => core::mem::swap(&mut *deliveries, taken),
            Ok(mut deliveries) => taken.append(&mut deliveries),
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => {
                self.any.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Each delivery is dropped separately: a second panic during unwinding would abort the
        // process.
        let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        deliveries.drain(..).for_each(dispose);
    }
}
