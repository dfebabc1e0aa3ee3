//! Jobs of requests whose protocol is driven without a worker, for example by an async runtime.

use core::fmt;

use doorbell_http::Later;

use super::JobResult;
use crate::offload::{Job, Outcome, OutcomeReceiver, Ticket};
use crate::time::Time;

/// The result of a job, for [`Awaited::answer`].
#[derive(Debug)]
pub struct JobOutcome(Outcome);

/// A request after [`Next::Wait`](doorbell_http::Next::Wait) whose job is queued or running.
///
/// Dropping this value cancels a job that has not started; the request then gets no reply.
#[must_use = "dropping it cancels the job"]
pub struct Awaited {
    later: Box<Later>,
    _task: CalledOff,
}

/// A queued job that is cancelled when this value is dropped.
struct CalledOff(Ticket);

impl Awaited {
    /// Begins the job in `later`, which comes from
    /// [`Out::take_later`](doorbell_http::Out::take_later). `done` is called at most once, on the
    /// job's thread.
    ///
    /// # Errors
    /// The result, if it is already known: the queue of the job's class is full, or `later` has no
    /// job.
    pub fn begin(
        mut later: Box<Later>,
        done: impl FnOnce(JobOutcome) + Send + 'static,
    ) -> Result<Self, JobResult> {
        let Some(job) = later.take_work().and_then(Job::from_work) else {
            return Err(JobResult { later, outcome: Outcome::Panicked });
        };
        match job.submit_for(OutcomeReceiver::Other(Box::new(|outcome| done(JobOutcome(outcome))))) {
            Some(ticket) => Ok(Self { later, _task: CalledOff(ticket) }),
            None => Err(JobResult { later, outcome: Outcome::Busy }),
        }
    }

    /// Returns the deadline of the request.
    pub const fn deadline(&self) -> Time {
        self.later.deadline()
    }

    /// Converts the value passed to `done` into the input of
    /// [`Protocol::handle_answer`](super::Protocol::handle_answer).
    pub fn answer(self, outcome: JobOutcome) -> JobResult {
        JobResult { later: self.later, outcome: outcome.0 }
    }

    /// Records that the request timed out. Call it after
    /// [`Protocol::handle_timeout`](super::Protocol::handle_timeout) has ended the wait.
    pub fn timed_out(mut self) {
        self.later.timed_out();
    }
}

impl Drop for CalledOff {
    fn drop(&mut self) {
        // A job that has started cannot be cancelled.
        let _started = self.0.call_off();
    }
}

impl JobResult {
    /// True if the job's queue was full.
    pub const fn is_busy(&self) -> bool {
        matches!(self.outcome, Outcome::Busy)
    }

    /// True if the job panicked, or was dropped without running.
    pub const fn is_panic(&self) -> bool {
        matches!(self.outcome, Outcome::Panicked)
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaited").field("later", &self.later).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::{self, Class, Executor, Offload, Pump, TIMEOUT};
    use doorbell_http::{Client, Conn, Date, Io, Limits, Next, Out, Reply, Status, service_fn};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    /// An executor that stores pumps, so that the test can run them.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<Pump>>>);

    impl Executor for Kept {
        fn threads(&self) -> usize {
            1
        }

        fn spawn(&self, pump: Pump) {
            self.0.lock().unwrap().push(pump);
        }
    }

    /// Creates a request that waits for a job, as a protocol returns it.
    fn later(offload: &Offload, job: impl FnOnce() -> Reply + Send + 'static) -> Box<Later> {
        let (mut out, date) = (Out::new(), Date::new(0));
        let job = Mutex::new(Some(job));
        let service =
            service_fn(|request, reply| offload.run(request, reply, job.lock().unwrap().take().unwrap()));
        let limits = Limits::default();
        let io = Io {
            now: Time::ZERO,
            date: &date,
            limits: &limits,
            carry: &mut Vec::new(),
            out: &mut out,
            closing: false,
            client: &Client::UNKNOWN,
        };
        let mut conn = Conn::new(Time::ZERO, &limits);
        let next = conn.handle_input(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", io, &service);
        assert_eq!(next, Next::Wait);
        out.take_later().unwrap()
    }

    #[test]
    fn a_job_awaited_without_a_worker_reports_once_or_is_cancelled() {
        let kept = Kept::default();
        let offload =
            Offload::builder().queue_max(Class::Normal, 2).timeout(TIMEOUT / 2).build_on(kept.clone());
        let ran = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = std::sync::mpsc::sync_channel(4);
        let begin = |panics: bool| {
            let (ran, sender) = (Arc::clone(&ran), sender.clone());
            let job = move || {
                ran.fetch_add(1, Ordering::Relaxed);
                assert!(!panics, "a job that panics");
                Reply::text(Status::OK, "done")
            };
            Awaited::begin(later(&offload, job), move |outcome| sender.send(outcome).unwrap())
        };
        let (first, second) = (begin(false).unwrap(), begin(false).unwrap());
        assert_eq!(first.deadline(), Time::ZERO.after(TIMEOUT / 2));
        assert!(begin(false).is_err_and(|answer| answer.is_busy()), "the queue is full");
        drop(second);
        let run = || core::mem::take(&mut *kept.0.lock().unwrap()).into_iter().for_each(Pump::run);
        run();
        assert_eq!(ran.load(Ordering::Relaxed), 1, "a cancelled job does not run");
        let answer = first.answer(receiver.try_recv().unwrap());
        assert!(!answer.is_busy() && matches!(answer.outcome, Outcome::Replied(offload::JobReply::Reply(_))));
        assert!(receiver.try_recv().is_err());
        let panicking = begin(true).unwrap();
        run();
        assert!(panicking.answer(receiver.try_recv().unwrap()).is_panic());
    }
}
