//! The compute lane: jobs of handlers on other threads, whose results become replies.
//!
//! Does not know about: protocols; connections, except their identity; the threads that run jobs,
//! which an [`Executor`] provides.
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
//! A job owns what it uses: copy the required parts of the request, or all of it with
//! [`Request::detach`](doorbell_http::Request::detach). Its result is a [`Reply`], or with
//! [`JobReply::then`] the second part of the handler, which runs on the ring thread.
//!
//! [`Offload::require_auth`] verifies signed bearer tokens in jobs.
//!
//! While a job waits or runs, its connection serves no other request, and only one more chunk of
//! input is read, to detect that the client leaves. The table lists the possible outcomes, and the
//! fields of [`Snapshot`](crate::Snapshot) that count them:
//!
//! | event | the client sees | counted as |
//! |---|---|---|
//! | the queue of the job's class is full | 503 with `Retry-After`; the connection stays open | `jobs_refused` |
//! | the timeout passed, queued or running | 503 with `Retry-After` and a close; not 504, because no upstream server is involved (RFC 9110 15.6.5) | `jobs_timed_out` |
//! | the job panics | 500 and a close | `jobs_panicked` |
//! | the client leaves before the job starts | | `jobs_cancelled`; the job never runs, and no longer counts towards the limit of the queue |
//! | the client leaves while the job runs | | `answers_dropped`; [`JobContext::is_abandoned`] is true |
//! | the server drains | the reply, with `Connection: close`, within the drain timeout | |
//! | the server stops | a close | `jobs_cancelled`, or `answers_dropped` |
//!
//! A client that closes its connection sends a FIN. By default a FIN does not count as leaving,
//! because the client may have closed only its sending side and wait for the reply: the client's
//! job continues until it is done or its timeout passes. With [`OffloadBuilder::fin_cancels`] a FIN
//! counts as leaving.

mod auth;
mod auto;
mod job;
mod line;
mod outcome;
#[cfg(feature = "rayon")]
mod pool;
mod queue;

use core::fmt;
use core::num::NonZeroU16;
use core::time::Duration;
use std::sync::Arc;

use doorbell_http::{Replied, Reply, Request, Responder, Status};

pub use auth::{OffloadAuth, OffloadAuthService};
pub use auto::{Auto, FORGIVEN_AFTER, ROW_MAX, ROW_MIN};
pub use job::{Class, JobContext, StartedJob};
pub(crate) use job::{Job, OutcomeReceiver, Ticket};
pub(crate) use outcome::{Delivery, Inbox, Outcome};
pub use outcome::{Finish, JobReply};
#[cfg(feature = "rayon")]
pub use pool::PoolError;
pub use queue::{Executor, Pump};

use self::queue::Core;
use crate::time::Time;

/// Default maximum number of waiting jobs per class.
pub const QUEUE_MAX: usize = 1_024;

/// Default time that a connection waits for its job.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Default prefix of thread names; a number follows.
pub const THREAD_NAME: &str = "doorbell-job";

/// Default increment of the nice value.
///
/// Measured while one thread per processor was always busy: the p99 of probes on a ring thread was
/// 3.7 ms with an increment of 0, 1.7 ms with 7 and 0.7 ms with 10 (Linux 6.18, two processors,
/// medians of three runs of 500 probes). From about 10 on, the scheduler runs a waking ring thread
/// at once.
pub const NICE: u8 = 10;

/// Access to the threads that run jobs.
///
/// Cheap to clone; each clone may have its own class and timeout.
#[derive(Clone)]
pub struct Offload {
    core: Arc<Core>,
    class: Class,
    timeout: Duration,
}

impl Offload {
    /// Creates a builder with default settings.
    pub fn builder() -> OffloadBuilder {
        OffloadBuilder::default()
    }

    /// Returns a handle to the same threads and queues, for jobs of this class.
    #[must_use]
    pub const fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Returns a handle to the same threads and queues, for jobs with this timeout. Default 10 s.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs `job` on another thread and sends its result as the reply to `request`.
    pub fn run<'a, A: Into<JobReply>>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        job: impl FnOnce() -> A + Send + 'static,
    ) -> Replied<'a> {
        self.run_with(request, reply, |_| job())
    }

    /// Runs a long `job` like [`Self::run`]; the job can query how much time is left, and whether a
    /// request still waits for its result.
    ///
    /// ```
    /// # use doorbell::offload::Offload;
    /// # use doorbell::{Replied, Reply, Request, Responder, Status};
    /// # fn digest<'a>(jobs: &Offload, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
    /// jobs.run_with(request, reply, |job| {
    ///     let mut rounds = 0_u64;
    ///     while rounds < 1_000_000 && !job.is_abandoned() {
    ///         rounds += 1;
    ///     }
    ///     Reply::text(Status::OK, rounds.to_string())
    /// })
    /// # }
    /// ```
    pub fn run_with<'a, A: Into<JobReply>>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        job: impl FnOnce(&JobContext<'_>) -> A + Send + 'static,
    ) -> Replied<'a> {
        let deadline = request.now().after(self.timeout);
        let job = Job::new(Arc::clone(&self.core), self.class, deadline, job);
        reply.later(deadline, Box::new(job))
    }

    /// Queues `work` for another thread, in order with the jobs of its class. No request waits for
    /// it, and it is never cancelled. Returns false if the queue is full; `work` is then dropped.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let job = Job::new(Arc::clone(&self.core), self.class, Time::MAX, |_| {
            work();
            Reply::new(Status::NO_CONTENT)
        });
        job.submit_for(OutcomeReceiver::Other(Box::new(drop))).is_some()
    }

    /// Creates a job whose result does not become a reply. Also returns the deadline until which
    /// the connection waits for it.
    pub(crate) fn job(&self, now: Time, work: impl FnOnce(&JobContext<'_>) + Send + 'static) -> (Job, Time) {
        let deadline = now.after(self.timeout);
        let job = Job::new(Arc::clone(&self.core), self.class, deadline, |context| {
            work(context);
            Reply::new(Status::NO_CONTENT)
        });
        (job, deadline)
    }

    /// Number of waiting jobs of a class.
    pub fn queued(&self, class: Class) -> usize {
        self.core.queued(class)
    }

    /// Number of queue entries of cancelled jobs that were removed before a thread took them.
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

/// A builder of an [`Offload`]. The documentation of each method names the default.
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
    /// Sets the number of threads. Default: one less than the number of processors that this
    /// process may use, and at least one.
    pub const fn threads(mut self, threads: NonZeroU16) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets the prefix of thread names; a number follows. Default `doorbell-job`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Pins thread i to the i-th of these processors, starting over at the end of the list.
    ///
    /// Processors that do not exist or that this process may not use are skipped. If none is left,
    /// threads are not pinned. Default: no pinning.
    pub fn cpus(mut self, cpus: &[usize]) -> Self {
        self.cpus = cpus.to_vec();
        self
    }

    /// Sets the stack size of each thread in bytes. Default: the default of the standard library.
    pub const fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Sets the increment of the nice value (0 to 19, `setpriority(2)`), so that a ring thread runs
    /// at once when it wakes up on a processor that is running a job. Default [`NICE`]. If other
    /// programs keep all processors busy, jobs get less time than these programs; 0 gives jobs an
    /// equal share.
    pub const fn nice(mut self, nice: u8) -> Self {
        self.nice = nice;
        self
    }

    /// Sets the maximum number of waiting jobs of a class; further requests get a 503. Cancelled
    /// jobs do not count. Default 1,024, at least 1.
    pub const fn queue_max(mut self, class: Class, jobs: usize) -> Self {
        self.queue_max[class as usize] = jobs;
        self
    }

    /// Sets how long a connection waits for its job, queued or running. Default 10 s.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets whether a client's FIN counts as leaving: it cancels a job that has not started, makes
    /// [`JobContext::is_abandoned`] true for a running one, and ends the connection without a
    /// reply. Default false: a client may close its sending side and wait for the reply.
    /// True is useful if many clients give up and none half-closes.
    pub const fn fin_cancels(mut self, on: bool) -> Self {
        self.fin_cancels = on;
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The error of the operating system, if a thread cannot be started.
    #[cfg(feature = "rayon")]
    pub fn build(self) -> Result<Offload, PoolError> {
        let pool = pool::Pool::start(&self)?;
        Ok(self.build_on(pool))
    }

    /// Builds an [`Offload`] on a custom executor; the thread settings of this builder are ignored.
    pub fn build_on(self, executor: impl Executor + 'static) -> Offload {
        let core = Core::new(Box::new(executor), self.queue_max, self.fin_cancels);
        Offload { core: Arc::new(core), class: Class::Normal, timeout: self.timeout }
    }
}

#[cfg(test)]
mod tests;
