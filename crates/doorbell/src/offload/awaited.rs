//! A request whose job is awaited by somebody who drives a protocol without a worker: a runtime beside the ring threads, for one.
//!
//! Does not know about: who that is, and how it waits.

use core::fmt;
use std::sync::Arc;

use doorbell_http::Later;

use super::answer::Outcome;
use super::job::{Asker, Job, Task};
use crate::protocol::Answer;
use crate::time::Time;

/// What a job came to. For [`Awaited::answer`].
#[derive(Debug)]
pub struct Told(Outcome);

/// A request after [`Next::Wait`](doorbell_http::Next::Wait), with its job under way. Dropped, the request gets no answer, and a job that has
/// not started never will.
#[must_use = "a job that nobody awaits is called off"]
pub struct Awaited {
    later: Box<Later>,
    _task: CalledOff,
}

/// Calls a job off when nobody waits for it any more.
struct CalledOff(Arc<dyn Task>);

impl Awaited {
    /// Begins the job that came with `later` out of [`Out::take_later`](doorbell_http::Out::take_later). `tell` is called on the job's thread,
    /// once at most.
    ///
    /// # Errors
    /// The answer, where it is there already: the queue of the job's class is full, or there is no job.
    pub fn begin(mut later: Box<Later>, tell: impl FnOnce(Told) + Send + 'static) -> Result<Self, Answer> {
        let Some(job) = later.take_work().and_then(Job::from_work) else {
            return Err(Answer { later, outcome: Outcome::Panicked });
        };
        let task = CalledOff(Arc::clone(&job.task));
        if job.submit_for(Asker::Other(Box::new(|outcome| tell(Told(outcome))))) {
            Ok(Self { later, _task: task })
        } else {
            Err(Answer { later, outcome: Outcome::Busy })
        }
    }

    /// When the request waits no longer.
    pub const fn deadline(&self) -> Time {
        self.later.deadline()
    }

    /// What the protocol is to be given ([`Protocol::handle_answer`](crate::protocol::Protocol::handle_answer)) when `tell` was called.
    pub fn answer(self, told: Told) -> Answer {
        Answer { later: self.later, outcome: told.0 }
    }

    /// The protocol was told that the time is up, and said so ([`Protocol::handle_timeout`](crate::protocol::Protocol::handle_timeout)).
    pub fn timed_out(mut self) {
        self.later.timed_out();
    }
}

impl Drop for CalledOff {
    fn drop(&mut self) {
        // One that has started is past being called off.
        let _started = self.0.cancel();
    }
}

impl Answer {
    /// True when the job's queue was full.
    pub const fn is_busy(&self) -> bool {
        matches!(self.outcome, Outcome::Busy)
    }

    /// True when the job panicked.
    pub const fn is_panic(&self) -> bool {
        matches!(self.outcome, Outcome::Panicked)
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaited").field("later", &self.later).finish_non_exhaustive()
    }
}
