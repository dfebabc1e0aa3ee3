//! What a job comes to, and the inbox in which a worker finds it: many threads leave answers, one takes them.
//!
//! Does not know about: jobs, what an answer is for. A worker that may sleep says so, and only then is it woken: one wake-up for
//! all answers that come while it sleeps, and none while it is awake.

use core::fmt;

use doorbell_http::{Answered, Reply, Responder};

use crate::driver::Waker;
use crate::id::ConnId;
use crate::panics::dispose;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, PoisonError, TryLockError};

/// What a job gives back.
pub enum Answer {
    /// This reply.
    Reply(Reply),
    /// The ring thread answers, with what the job found out: so that a guard may be a job and the service behind it none.
    Then(Box<Finish>),
}

/// See [`Answer::then`].
pub type Finish = dyn FnOnce(Responder<'_>) -> Answered<'_> + Send;

impl Answer {
    /// Has the ring thread answer. `finish` is called there like a handler, and must be as quick.
    pub fn then(finish: impl FnOnce(Responder<'_>) -> Answered<'_> + Send + 'static) -> Self {
        Self::Then(Box::new(finish))
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(reply) => f.debug_tuple("Reply").field(reply).finish(),
            Self::Then(_) => f.debug_tuple("Then").finish_non_exhaustive(),
        }
    }
}

/// How a request that waits goes on.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answered(Answer),
    /// The queue was full.
    Busy,
    /// The job panicked, or was thrown away by its executor.
    Panicked,
}

/// An outcome on its way to the connection that asked.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) conn: ConnId,
    /// The job's number: a connection has at most one at a time, and a number is never used twice.
    pub(crate) number: u64,
    pub(crate) outcome: Outcome,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Inbox {
    /// True exactly while something may be in `deliveries`.
    any: AtomicBool,
    /// True from the moment the worker may sleep until it is woken, or wakes by itself.
    asleep: AtomicBool,
    deliveries: Mutex<Vec<Delivery>>,
    waker: Waker,
}

impl Inbox {
    pub(crate) fn new(waker: Waker) -> Self {
        let (any, asleep) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { any, asleep, deliveries: Mutex::new(Vec::new()), waker }
    }

    /// Leaves an outcome, and wakes the worker if it sleeps and nobody else has.
    pub(crate) fn leave(&self, delivery: Delivery) {
        let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        deliveries.push(delivery);
        self.any.store(true, Ordering::Release);
        drop(deliveries);
        // Either this sees that the worker sleeps, or the worker sees that there is something.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// The worker is about to wait. False when it must not, because there is something.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let nothing = !self.any.load(Ordering::Relaxed);
        if !nothing {
            self.asleep.store(false, Ordering::Relaxed);
        }
        nothing
    }

    /// The worker has waited.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Moves what there is behind what is in `taken`. Never waits: while somebody is leaving something, it comes with the next turn.
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
        // One by one: a second panic while the first one unwinds would abort the process.
        let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        deliveries.drain(..).for_each(dispose);
    }
}
