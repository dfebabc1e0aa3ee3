//! A running server: what the builder starts, how it is controlled and observed, and how it ends.
//!
//! Does not know about: what a worker does in a turn.

mod builder;
mod sockets;
mod start_error;
mod succession;
mod thread;

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use doorbell_http::{ApiMisuse, Misuses};

pub use builder::{ServerBuilder, Workers};
pub use sockets::Listening;
pub use start_error::{StartError, StartErrorKind};

use crate::config::OnWorkerFailure;
use crate::control::{Command, WorkerShared};
use crate::driver::Fault;
use crate::driver::examine::Cause;
use crate::driver::select::DriverReport;
use crate::id::WorkerIndex;
use crate::net::LocalAddr;
use crate::panics::caught;
use crate::protocol::Room;
use crate::stats::{ListenerSnapshot, Snapshot};
use crate::worker::IpTable;
use sockets::{Sockets, Taken};
use succession::Before;

/// Something an operator should hear of. Given to [`ServerBuilder::observer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A worker changed from io_uring to epoll while running; its open connections were lost.
    DriverFellBack {
        /// The worker.
        worker: WorkerIndex,
        /// What made io_uring unusable.
        why: String,
        /// Whose doing that is.
        cause: Cause,
    },
    /// A handler gave a reply that cannot be sent, and its client got a 500. Reported once a server for each kind of misuse;
    /// [`Snapshot::handler_misuses`] counts all.
    HandlerMisuse {
        /// The first worker that met it.
        worker: WorkerIndex,
        /// What is wrong with the reply.
        misuse: ApiMisuse,
    },
    /// A worker ended in failure.
    WorkerFailed {
        /// The worker.
        worker: WorkerIndex,
        /// What happened.
        failure: WorkerFailure,
    },
}

/// Why a worker could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkerFailure {
    /// Its driver failed and there was no other.
    #[error(transparent)]
    Driver(#[from] Fault),
    /// It panicked: a defect of doorbell.
    #[error("panicked: {0}")]
    Panicked(String),
}

/// A server that ended because workers failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {} failed: {failure}", worker.0)]
pub struct ServeError {
    /// The first worker that failed.
    pub worker: WorkerIndex,
    /// Its failure.
    pub failure: WorkerFailure,
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
    local_addrs: Vec<LocalAddr>,
    report: DriverReport,
    notes: Vec<String>,
}

/// Controls and observes a server from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    core: Arc<Core>,
}

/// Hears of events.
pub(crate) type Observer = Box<dyn Fn(&Event) + Send + Sync>;

/// What the handle and the worker threads share.
pub(crate) struct Core {
    pub(crate) workers: Vec<Arc<WorkerShared>>,
    pub(crate) on_failure: OnWorkerFailure,
    pub(crate) failures: Mutex<Vec<ServeError>>,
    /// Threads that took over from a worker's first one.
    pub(crate) replacements: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) draining: AtomicBool,
    pub(crate) drain_timeout: Duration,
    pub(crate) observer: Option<Observer>,
    /// For a successor.
    sockets: Mutex<Sockets>,
    ip_table: Arc<IpTable>,
    room: Room,
    /// Until this server has taken over.
    before: Mutex<Option<Before>>,
    /// Kinds of misuse that the observer knows of.
    misuses_told: AtomicU8,
}

impl Server {
    /// A builder with the defaults.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Where the listeners listen, in the order they were added, with the ports that the kernel chose.
    pub fn local_addrs(&self) -> &[LocalAddr] {
        &self.local_addrs
    }

    /// The TCP address of the listener with this index.
    pub fn tcp_addr(&self, listener: usize) -> Option<core::net::SocketAddr> {
        match self.local_addrs.get(listener)? {
            LocalAddr::Tcp(addr) => Some(*addr),
            LocalAddr::Unix(_) => None,
        }
    }

    /// Which driver runs, and why.
    pub const fn driver_report(&self) -> &DriverReport {
        &self.report
    }

    /// What was adjusted at start: sentences for the log.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A handle for other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// As [`Handle::stats`].
    pub fn stats(&self) -> Snapshot {
        self.handle.stats()
    }

    /// Finishes what is in progress, for at most `timeout`, and returns when the server has ended.
    ///
    /// # Errors
    /// As [`Server::wait`].
    pub fn drain(self, timeout: Duration) -> Result<(), ServeError> {
        self.handle.drain_within(timeout);
        self.wait()
    }

    /// Closes listeners and connections and returns when the server has ended.
    ///
    /// # Errors
    /// As [`Server::wait`].
    pub fn stop(self) -> Result<(), ServeError> {
        self.handle.stop();
        self.wait()
    }

    /// Returns when the server has ended: after [`Handle::drain`] or [`Handle::stop`], or because of a failure.
    ///
    /// # Errors
    /// The first failure of a worker, if the server was to stop then or if no worker was left.
    pub fn wait(mut self) -> Result<(), ServeError> {
        self.join();
        let failures = self.handle.core.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let ended_by_failure = match self.handle.core.on_failure {
            OnWorkerFailure::Stop => !failures.is_empty(),
            OnWorkerFailure::Degrade => failures.len() == self.handle.core.workers.len(),
        };
        match failures.first() {
            Some(failure) if ended_by_failure => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A panic inside a worker was caught and recorded there.
            let _recorded = thread.join();
        }
        while let Some(thread) = self.handle.core.take_replacement() {
            let _recorded = thread.join();
        }
        self.handle.core.has_ended();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.handle.stop();
        self.join();
    }
}

impl Handle {
    /// Finishes what is in progress within the configured drain timeout.
    pub fn drain(&self) {
        self.drain_within(self.core.drain_timeout);
    }

    /// Finishes what is in progress within `timeout`. A handler that blocks is not interrupted: its worker ends when it returns, however long that
    /// takes. For a tenth of a second nobody new gets in at a TCP address and those who were on their way arrive, then the
    /// backlog is served, unless copies of the socket are [out](Self::listening): then it is left to their owner, then the listeners close; files of sockets are removed before that. Each reply is the last of its connection.
    /// Asked again while it goes on, it ends at the earlier of both times.
    pub fn drain_within(&self, timeout: Duration) {
        self.core.draining.store(true, Ordering::Release);
        self.core.send(Command::Drain { timeout });
    }

    /// Closes listeners and connections now.
    pub fn stop(&self) {
        self.core.draining.store(true, Ordering::Release);
        self.core.send(Command::Stop);
    }

    /// Has clients accepted as soon as they connect, also on TCP listeners that [defer](crate::Listen::defer_accept) it, or with `false` again as
    /// listeners say. For the time before a drain: who has connected and said nothing yet is in no backlog, and is reset if he speaks when the listeners
    /// are closed. Those who had connected before come out within three seconds. A successor's listeners defer again.
    pub fn accept_at_once(&self, on: bool) {
        self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).accept_at_once(on);
    }

    /// The sum of all workers' counters now.
    pub fn stats(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        self.core.workers.iter().for_each(|worker| sum.merge(&worker.snapshot()));
        sum
    }

    /// Each worker's counters now.
    pub fn worker_stats(&self) -> Vec<Snapshot> {
        self.core.workers.iter().map(|worker| worker.snapshot()).collect()
    }

    /// The counters of each listener now, in the order in which they were given to the builder.
    pub fn listener_stats(&self) -> Vec<ListenerSnapshot> {
        let mut sums = Vec::new();
        self.core.workers.iter().for_each(|worker| worker.counters.add_listeners(&mut sums));
        sums
    }

    /// Has every worker turn, also one that has nothing to do: those whose [`Snapshot::turns`] does not move then are stuck.
    pub fn wake(&self) {
        self.core.workers.iter().for_each(|worker| worker.wake());
    }

    /// Makes one worker act as if its driver had failed, to see what follows: on io_uring it goes on with epoll, on epoll it
    /// ends as [`ServerBuilder::on_worker_failure`] says. For drills and tests.
    pub fn fail_worker(&self, worker: WorkerIndex) {
        if let Some(worker) = self.core.workers.get(usize::from(worker.0)) {
            worker.send(Command::Fail);
        }
    }

    /// True while every worker runs. A drain does not change it.
    pub fn is_healthy(&self) -> bool {
        self.core.failures.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Copies of the sockets that accept at TCP addresses, so that they can be handed to the process after this one
    /// ([`Listen::listening`](crate::Listen::listening)): who waits in a backlog is served by that one. Without those of
    /// [inherited](crate::Listen::inherited) sockets, which whoever passed them has. None from the first drain or stop on, and without those of a worker
    /// that failed. From the first call on a drain turns nobody away: whoever comes waits for the owner of the copies.
    ///
    /// # Errors
    /// When the kernel has no descriptor for a copy.
    pub fn listening(&self) -> io::Result<Vec<Listening>> {
        self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).listening()
    }

    /// True from the first drain or stop on.
    pub fn is_draining(&self) -> bool {
        self.core.draining.load(Ordering::Acquire)
    }
}

impl Core {
    /// Before workers are told to stop listening, for what no heir has.
    fn last_call(&self, theirs: &Taken) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).leave_files();
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        // The server before has these sockets too, and may be the one that stays.
        if before.as_ref().is_none_or(|before| before.core.draining.load(Ordering::Acquire)) {
            self.sockets.lock().unwrap_or_else(PoisonError::into_inner).last_call(theirs);
        }
    }

    pub(crate) fn send(&self, command: Command) {
        if matches!(command, Command::Drain { .. }) {
            self.last_call(&Taken::default());
            let lent = self.sockets.lock().unwrap_or_else(PoisonError::into_inner).lent();
            for worker in &self.workers {
                // A second drain has nothing new to say.
                let _known = worker.lent.set(Arc::clone(&lent));
            }
        }
        if matches!(command, Command::Drain { .. } | Command::Retire { .. } | Command::Stop) {
            self.sockets.lock().unwrap_or_else(PoisonError::into_inner).give_up();
        }
        self.workers.iter().for_each(|worker| worker.send(command));
    }

    /// `thread` goes on where a worker's first thread ends.
    pub(crate) fn replaced(&self, thread: JoinHandle<()>) {
        self.replacements.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    fn take_replacement(&self) -> Option<JoinHandle<()>> {
        self.replacements.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(crate) fn observe(&self, event: &Event) {
        if let Some(observer) = &self.observer {
            let _contained = caught(|| observer(event));
        }
    }

    /// What a worker met in a turn.
    #[inline]
    pub(crate) fn report_misuses(&self, worker: WorkerIndex, misuses: Misuses) {
        if misuses.count() != 0 {
            misuses
                .untold(&self.misuses_told)
                .for_each(|misuse| self.observe(&Event::HandlerMisuse { worker, misuse }));
        }
    }

    /// A worker ended in failure: its listeners are closed by now.
    pub(crate) fn worker_failed(&self, worker: WorkerIndex, failure: WorkerFailure) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.give_up_worker(usize::from(worker.0));
        drop(sockets);
        if let Some(worker) = self.workers.get(usize::from(worker.0)) {
            worker.leave();
        }
        let error = ServeError { worker, failure };
        let event = Event::WorkerFailed { worker, failure: error.failure.clone() };
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(error);
        self.observe(&event);
        if self.on_failure == OnWorkerFailure::Stop {
            self.send(Command::Stop);
        }
    }
}

impl core::fmt::Debug for Core {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Core")
            .field("workers", &self.workers.len())
            .field("on_failure", &self.on_failure)
            .field("failures", &self.failures)
            .field("draining", &self.draining)
            .finish_non_exhaustive()
    }
}
