//! The compute lane: a handler leaves a job, the ring thread goes on, and the answer is sent when it is there.
//!
//! Does not know about: connections beyond their names, protocols, which threads run the jobs (an [`Executor`] does).
//!
//! ```no_run
//! use doorbell::offload::Offload;
//! use doorbell::{Http1, Listen, Reply, Server, StaticReply, Status, service_fn};
//!
//! let jobs = Offload::builder().build()?;
//! let alive = StaticReply::text(Status::OK, "ok\n");
//! let service = service_fn(move |request, reply| match request.path() {
//!     "/sum" => jobs.run(request, reply, || {
//!         let sum: u64 = (0..1_000_000).sum();
//!         Reply::text(Status::OK, sum.to_string())
//!     }),
//!     _ => reply.send(&alive),
//! });
//! let server = Server::builder().listen(Listen::tcp(([127, 0, 0, 1], 8080).into()), Http1::new(service)).start()?;
//! # server.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a job takes with it is its own: copy what it needs of the request, or all of it with
//! [`Request::detach`](doorbell_http::Request::detach). What it gives back is a [`Reply`], or with [`Answer::then`] the
//! rest of the handler, which the ring thread then runs.
//!
//! Signed bearer tokens are verified by jobs behind one line, [`Offload::require_auth`].
//!
//! While a job waits or runs its connection answers nothing else, and no more is read than what comes next: one piece of input, to
//! see whether the client leaves. Then
//!
//! | what happens | the client sees | counted as |
//! |---|---|---|
//! | the queue of its class is full | 503 with `Retry-After`, and may go on | `jobs_refused` |
//! | its time is up, whether it runs or not | 503 with `Retry-After` and the end: nobody of ours was asked in vain, so no 504 (RFC 9110 15.6.5) | `jobs_timed_out` |
//! | it panics | 500 and the end | `jobs_panicked` |
//! | the client leaves before it starts | | `jobs_cancelled`; it never runs, and its place in the queue is free at once |
//! | the client leaves while it runs | | `answers_dropped` |
//! | the server drains | the answer, with `Connection: close`, within the drain's time | |
//! | the server stops | a close | `jobs_cancelled`, or `answers_dropped` |
//!
//! A FIN counts as leaving for a job that has not started, as elsewhere ([`OffloadBuilder::fin_cancels`] turns that off for clients that
//! close their half and listen).

mod answer;
mod auth;
mod auto;
mod job;
mod line;
#[cfg(feature = "rayon")]
mod pool;
mod queue;

use core::fmt;
use core::num::NonZeroU16;
use core::time::Duration;
use std::sync::Arc;

use doorbell_http::{Answered, Reply, Request, Responder, Status};

pub use answer::{Answer, Finish};
pub(crate) use answer::{Delivery, Inbox, Outcome};
pub use auth::{OffloadAuth, OffloadAuthService};
pub use auto::{Auto, FORGIVEN_AFTER, ROW_MAX, ROW_MIN};
pub(crate) use job::{Asker, Job, Ticket};
pub use job::{Class, StartedJob};
#[cfg(feature = "rayon")]
pub use pool::PoolError;
pub use queue::{Executor, Pump};

use self::queue::Core;

/// Jobs that may wait in one class, unless it is said otherwise.
pub const QUEUE_MAX: usize = 1_024;

/// How long a connection waits for its job, unless it is said otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// What threads are called before a number, unless it is said otherwise.
pub const THREAD_NAME: &str = "doorbell-job";

/// What is added to the nice value of the process, unless it is said otherwise. Beside a thread that never sleeps on each processor, the p99 of
/// probes of a ring thread was 3.7 ms with 0, 1.7 ms with 7 and 0.7 ms with 10, and 1.1 ms with nobody beside (Linux 6.18, two processors, medians
/// of three runs of 500 probes): from about 10 on the scheduler lets whoever wakes up run at once.
pub const NICE: u8 = 10;

/// The way to the threads that run jobs. Cheap to clone; each clone may have its own class and timeout.
#[derive(Clone)]
pub struct Offload {
    core: Arc<Core>,
    class: Class,
    timeout: Duration,
}

impl Offload {
    /// A builder with the defaults.
    pub fn builder() -> OffloadBuilder {
        OffloadBuilder::default()
    }

    /// The same threads and queues, for jobs of this class.
    #[must_use]
    pub const fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// The same threads and queues, for jobs that are awaited for so long. Default 10 s.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Has `job` run elsewhere and its answer sent on the connection of `request`.
    pub fn run<'a, A: Into<Answer>>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        job: impl FnOnce() -> A + Send + 'static,
    ) -> Answered<'a> {
        let job = Job::new(Arc::clone(&self.core), self.class, job);
        reply.later(request.now().after(self.timeout), Box::new(job))
    }

    /// Has `work` done elsewhere, in turn with the jobs of its class; no request waits for it, and nothing calls it off. False when the
    /// queue is full: then it is not done.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let job = Job::new(Arc::clone(&self.core), self.class, || {
            work();
            Reply::new(Status::NO_CONTENT)
        });
        job.submit_for(Asker::Other(Box::new(drop))).is_some()
    }

    /// Jobs of a class that wait now.
    pub fn queued(&self, class: Class) -> usize {
        self.core.queued(class)
    }

    /// What jobs left in the queues that were called off, so far as it was cleared before their turn came.
    pub fn swept(&self) -> u64 {
        self.core.swept()
    }
}

impl fmt::Debug for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offload")
            .field("core", &self.core)
            .field("class", &self.class)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// Builds an [`Offload`]. Each method names its default.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct OffloadBuilder {
    threads: Option<NonZeroU16>,
    name: Arc<str>,
    cpus: Vec<usize>,
    stack_size: Option<usize>,
    nice: u8,
    queue_max: [usize; 2],
    timeout: Duration,
    fin_cancels: bool,
}

impl Default for OffloadBuilder {
    fn default() -> Self {
        Self {
            threads: None,
            name: THREAD_NAME.into(),
            cpus: Vec::new(),
            stack_size: None,
            nice: NICE,
            queue_max: [QUEUE_MAX; 2],
            timeout: TIMEOUT,
            fin_cancels: false,
        }
    }
}

impl OffloadBuilder {
    /// How many threads. Default: one for each processor this process may use but one, and at least one.
    pub const fn threads(mut self, threads: NonZeroU16) -> Self {
        self.threads = Some(threads);
        self
    }

    /// What the threads are called, before a number. Default `doorbell-job`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Thread i runs on the i-th of these processors, beginning again at their end. One that this process may not use, or that no machine has,
    /// is passed over. Default, and if none is left: the system decides.
    pub fn cpus(mut self, cpus: &[usize]) -> Self {
        self.cpus = cpus.to_vec();
        self
    }

    /// Bytes of stack for each thread. Default: rayon's, which is the standard library's.
    pub const fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Added to the nice value that the process has (0 to 19, `setpriority(2)`), so that a ring thread which wakes up on the processor of a job runs at once.
    /// Default [`NICE`]. Where other programs keep all processors busy, jobs get less of them by as much; 0 is an equal share.
    pub const fn nice(mut self, nice: u8) -> Self {
        self.nice = nice;
        self
    }

    /// Jobs of a class that may wait; one more is answered by a 503. One that is called off makes room at once. Default 1,024, at least 1.
    pub const fn queue_max(mut self, class: Class, jobs: usize) -> Self {
        self.queue_max[class as usize] = jobs;
        self
    }

    /// How long a connection waits for its job, in the queue and running. Default 10 s.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether a client's FIN calls off a job that has not started, and ends the connection without an answer. Default false: a client may
    /// close its half and wait for the answer. True where clients that give up are many and none closes its half.
    pub const fn fin_cancels(mut self, on: bool) -> Self {
        self.fin_cancels = on;
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The system's, when a thread cannot be started.
    #[cfg(feature = "rayon")]
    pub fn build(self) -> Result<Offload, PoolError> {
        let pool = pool::Pool::start(&self)?;
        Ok(self.build_on(pool))
    }

    /// With threads of your own; what was said about threads here is not used then.
    pub fn build_on(self, executor: impl Executor + 'static) -> Offload {
        let core = Core::new(Box::new(executor), self.queue_max, self.fin_cancels);
        Offload { core: Arc::new(core), class: Class::Normal, timeout: self.timeout }
    }
}

#[cfg(test)]
mod tests;
