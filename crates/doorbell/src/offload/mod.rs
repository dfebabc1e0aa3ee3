//! The compute lane: jobs of handlers on other threads, whose results become replies.
//!
//! Does not know about: connections except their identity, protocols, the threads that run jobs (an
//! [`Executor`] provides them).
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
//! [`Answer::then`] the rest of the handler, which then runs on the ring thread.
//!
//! [`Offload::require_auth`] verifies signed bearer tokens in jobs.
//!
//! While a job waits or runs, its connection serves no other request, and only one more piece of
//! input is read, to detect that the client leaves. These are the possible outcomes:
//!
//! | event | the client sees | counted as |
//! |---|---|---|
//! | the queue of its class is full | 503 with `Retry-After`; the connection stays open | `jobs_refused` |
//! | the timeout passed, queued or running | 503 with `Retry-After` and a close; not 504, because no upstream server is involved (RFC 9110 15.6.5) | `jobs_timed_out` |
//! | it panics | 500 and a close | `jobs_panicked` |
//! | the client leaves before it starts | | `jobs_cancelled`; it never runs, and its place in the queue is free at once |
//! | the client leaves while it runs | | `answers_dropped` |
//! | the server drains | the reply, with `Connection: close`, within the drain timeout | |
//! | the server stops | a close | `jobs_cancelled`, or `answers_dropped` |
//!
//! For a job that has not started, a FIN does not count as leaving unless
//! [`OffloadBuilder::fin_cancels`] is set: a client may close its sending side and wait for the
//! reply.

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

/// Default maximum number of waiting jobs per class.
pub const QUEUE_MAX: usize = 1_024;

/// Default time that a connection waits for its job.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Default prefix of thread names; a number follows.
pub const THREAD_NAME: &str = "doorbell-job";

/// Default increment of the nice value.
///
/// With a thread that never sleeps on each processor, the p99 of probes on a ring thread was 3.7 ms
/// with 0, 1.7 ms with 7 and 0.7 ms with 10, and 1.1 ms on an idle machine (Linux 6.18, two
/// processors, medians of three runs of 500 probes): from about 10 on, the scheduler runs a waking
/// thread at once.
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
    /// A builder with default settings.
    pub fn builder() -> OffloadBuilder {
        OffloadBuilder::default()
    }

    /// Uses the same threads and queues, for jobs of this class.
    #[must_use]
    pub const fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Uses the same threads and queues, with this timeout for jobs. Default 10 s.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs `job` on another thread and sends its result as the reply to `request`.
    pub fn run<'a, A: Into<Answer>>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        job: impl FnOnce() -> A + Send + 'static,
    ) -> Answered<'a> {
        let job = Job::new(Arc::clone(&self.core), self.class, job);
        reply.later(request.now().after(self.timeout), Box::new(job))
    }

    /// Queues `work` for another thread, in order with the jobs of its class. No request waits for
    /// it, and it is never cancelled. False if the queue is full; then it is not run.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let job = Job::new(Arc::clone(&self.core), self.class, || {
            work();
            Reply::new(Status::NO_CONTENT)
        });
        job.submit_for(Asker::Other(Box::new(drop))).is_some()
    }

    /// Number of waiting jobs of a class.
    pub fn queued(&self, class: Class) -> usize {
        self.core.queued(class)
    }

    /// Number of queue entries of cancelled jobs that were removed before their turn.
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

/// Builds an [`Offload`]. The documentation of each method names the default.
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
    /// Number of threads. Default: the number of processors this process may use minus one, at
    /// least one.
    pub const fn threads(mut self, threads: NonZeroU16) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Prefix of thread names; a number follows. Default `doorbell-job`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Pins thread i to the i-th of these processors, starting over at the end of the list.
    ///
    /// Processors that this process may not use, or that do not exist, are skipped. Default, and if
    /// none is left: no pinning.
    pub fn cpus(mut self, cpus: &[usize]) -> Self {
        self.cpus = cpus.to_vec();
        self
    }

    /// Stack size of each thread in bytes. Default: that of rayon, which is that of the standard
    /// library.
    pub const fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Increment of the nice value (0 to 19, `setpriority(2)`), so that a ring thread that wakes up
    /// on the processor of a job runs at once. Default [`NICE`]. If other programs keep all
    /// processors busy, jobs get correspondingly less time; 0 gives an equal share.
    pub const fn nice(mut self, nice: u8) -> Self {
        self.nice = nice;
        self
    }

    /// Maximum number of waiting jobs of a class; further requests get a 503. A cancelled job frees
    /// its place at once. Default 1,024, at least 1.
    pub const fn queue_max(mut self, class: Class, jobs: usize) -> Self {
        self.queue_max[class as usize] = jobs;
        self
    }

    /// How long a connection waits for its job, queued or running. Default 10 s.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether a client's FIN cancels a job that has not started, and ends the connection without a
    /// reply. Default false: a client may close its sending side and wait for the reply. Useful if
    /// many clients give up and none half-closes.
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

    /// Uses your own executor; thread settings of this builder are ignored.
    pub fn build_on(self, executor: impl Executor + 'static) -> Offload {
        let core = Core::new(Box::new(executor), self.queue_max, self.fin_cancels);
        Offload { core: Arc::new(core), class: Class::Normal, timeout: self.timeout }
    }
}

#[cfg(test)]
mod tests;
