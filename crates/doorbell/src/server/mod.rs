//! A running server: its control, its statistics and its end.

mod bindings;
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
use crate::protocol::ServerSize;
use crate::stats::{DatagramSnapshot, ListenerSnapshot, Snapshot};
use crate::worker::{Balancer, IpTable};
use sockets::{Sockets, TakenListeners};
use succession::Predecessor;

/// An event for the operator, passed to [`ServerBuilder::observer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A worker changed from io_uring to epoll at run time; its open connections were lost.
    DriverFellBack {
        /// The worker.
        worker: WorkerIndex,
        /// The failure that made io_uring unusable.
        why: String,
        /// Category of the cause.
        cause: Cause,
    },
    /// A handler's reply was invalid, and the client got a 500. Reported once per server and kind
    /// of misuse; [`Snapshot::handler_misuses`] counts every occurrence.
    HandlerMisuse {
        /// The first worker on which the misuse occurred.
        worker: WorkerIndex,
        /// The kind of misuse.
        misuse: ApiMisuse,
    },
    /// A worker failed and ended.
    WorkerFailed {
        /// The worker.
        worker: WorkerIndex,
        /// The failure of the worker.
        failure: WorkerFailure,
    },
}

/// The reason why a worker failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerFailure {
    /// The driver of the worker failed and no other driver was available.
    #[error(transparent)]
    Driver(#[from] Fault),
    /// The worker panicked, which is a bug in doorbell.
    #[error("panicked: {0}")]
    Panicked(String),
}

/// The server ended because workers failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {} failed: {failure}", worker.0)]
pub struct ServeError {
    /// The first worker that failed.
    pub worker: WorkerIndex,
    /// The failure of the worker.
    pub failure: WorkerFailure,
}

/// A running server. Dropping this value stops the server and waits for its threads.
#[derive(Debug)]
pub struct Server {
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
    local_addrs: Vec<LocalAddr>,
    datagram_addrs: Vec<core::net::SocketAddr>,
    report: DriverReport,
    notes: Vec<String>,
}

/// A handle that controls and observes a server, from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    core: Arc<Core>,
}

/// The function that receives events.
pub(crate) type Observer = Box<dyn Fn(&Event) + Send + Sync>;

/// The state that handles and worker threads share.
pub(crate) struct Core {
    pub(crate) workers: Vec<Arc<WorkerShared>>,
    pub(crate) on_failure: OnWorkerFailure,
    pub(crate) failures: Mutex<Vec<ServeError>>,
    /// The threads that replaced the first thread of a worker.
    pub(crate) replacements: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) draining: AtomicBool,
    pub(crate) drain_timeout: Duration,
    pub(crate) observer: Option<Observer>,
    /// Duplicates of the listening sockets, for a successor.
    sockets: Mutex<Sockets>,
    ip_table: Arc<IpTable>,
    balancer: Option<Arc<Balancer>>,
    server_size: ServerSize,
    /// The predecessor, until this server has taken over.
    predecessor: Mutex<Option<Predecessor>>,
    /// Kinds of misuse already reported to the observer.
    misuses_reported: AtomicU8,
}

impl Server {
    /// Creates a builder with default settings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Returns the addresses of the listeners in the order in which they were added, with the ports
    /// that the kernel chose.
    pub fn local_addrs(&self) -> &[LocalAddr] {
        &self.local_addrs
    }

    /// Returns the TCP address of the listener with this index; `None` for a Unix socket.
    pub fn tcp_addr(&self, listener: usize) -> Option<core::net::SocketAddr> {
        match self.local_addrs.get(listener)? {
            LocalAddr::Tcp(addr) => Some(*addr),
            LocalAddr::Udp(_) | LocalAddr::Unix(_) => None,
        }
    }

    /// Returns the addresses of the datagram listeners in the order in which they were added, with
    /// the ports that the kernel chose.
    pub fn datagram_addrs(&self) -> &[core::net::SocketAddr] {
        &self.datagram_addrs
    }

    /// Returns the driver in use, and the reason for the choice.
    pub const fn driver_report(&self) -> &DriverReport {
        &self.report
    }

    /// Returns the adjustments made at the start, as sentences for the log.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns a handle for other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the current counters; see [`Handle::stats`].
    pub fn stats(&self) -> Snapshot {
        self.handle.stats()
    }

    /// Drains the server as [`Handle::drain_within`] does, and returns when the server has ended.
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

    /// Waits for the end of the server: after [`Handle::drain`] or [`Handle::stop`], or because of
    /// a failure.
    ///
    /// # Errors
    /// Returns the first failure of a worker, if the failure stopped the server or no worker was
    /// left.
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

    /// Waits for the end of all threads. A handler or an observer may drop the server on a thread
    /// of the server, which cannot wait for itself: it ends later.
    fn join(&mut self) {
        let mut is_own = false;
        let mut join = |thread: JoinHandle<()>| {
            if thread.thread().id() == std::thread::current().id() {
                is_own = true;
            } else {
                // The panic of a worker is already caught and recorded.
                let _recorded = thread.join();
            }
        };
        self.threads.drain(..).for_each(&mut join);
        while let Some(thread) = self.handle.core.take_replacement() {
            join(thread);
        }
        if !is_own {
            self.handle.core.has_ended();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.handle.stop();
        self.join();
    }
}

impl Handle {
    /// Begins a drain with the [configured](ServerBuilder::drain_timeout) timeout; does not wait.
    pub fn drain(&self) {
        self.drain_within(self.core.drain_timeout);
    }

    /// Begins a drain and returns at once: the server accepts no new clients, finishes requests in
    /// progress, and closes the remaining connections after `timeout`.
    ///
    /// The files of Unix sockets are removed first. For 0.1 s TCP listeners ignore new clients,
    /// while clients that are already connecting still arrive. Then the backlog is served and the
    /// listeners close. The backlog of a socket with [duplicates](Self::listening) is left to the
    /// owner of the duplicates. Each reply is the last one of its connection.
    ///
    /// A blocking handler is not interrupted: its worker ends when the handler returns. If called
    /// again during a drain, the earlier deadline applies.
    pub fn drain_within(&self, timeout: Duration) {
        self.core.send(Command::Drain { timeout });
    }

    /// Closes all listeners and connections without a drain; does not wait for the end.
    pub fn stop(&self) {
        self.core.send(Command::Stop);
    }

    /// With `true`, TCP listeners accept clients as soon as they connect, even listeners with
    /// [deferred accept](crate::Listen::defer_accept); `false` restores the listeners' setting.
    ///
    /// A client that has connected to a deferring listener but sent nothing is not in the backlog,
    /// and is reset if it sends bytes after the listener has closed. Clients that connected before
    /// this call are accepted within the time of [`defer_accept`](crate::Listen::defer_accept), so
    /// call this method at least that long before a drain (by default three seconds). The listeners
    /// of a successor defer accept again.
    pub fn accept_at_once(&self, on: bool) {
        self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).accept_at_once(on);
    }

    /// Returns the current counters, summed over all workers.
    pub fn stats(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        self.core.workers.iter().for_each(|worker| sum.merge(&worker.snapshot()));
        sum
    }

    /// Returns the current counters of each worker.
    pub fn worker_stats(&self) -> Vec<Snapshot> {
        self.core.workers.iter().map(|worker| worker.snapshot()).collect()
    }

    /// Returns the current counters of each listener, in the order in which the listeners were
    /// added.
    pub fn listener_stats(&self) -> Vec<ListenerSnapshot> {
        let mut sums = Vec::new();
        self.core.workers.iter().for_each(|worker| worker.counters.add_listeners(&mut sums));
        sums
    }

    /// Returns the current counters of each datagram listener, in the order in which they were
    /// added.
    pub fn datagram_stats(&self) -> Vec<DatagramSnapshot> {
        let mut sums = Vec::new();
        self.core.workers.iter().for_each(|worker| worker.counters.add_datagrams(&mut sums));
        sums
    }

    /// With `true`, the kernel refuses datagrams for the datagram listener with this index: their
    /// senders get an ICMP message "port unreachable", as from a closed port. The port stays
    /// reserved. `false` undoes that. Has no effect after a drain or stop has begun. The listeners
    /// of a successor receive again.
    ///
    /// # Errors
    /// See `connect(2)`.
    pub fn refuse_datagrams(&self, listener: usize, on: bool) -> io::Result<()> {
        let sockets = self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.refuse_datagrams(listener, on)
    }

    /// Duplicates the UDP sockets, to pass them to the next process
    /// ([`DatagramListen::receiving`](crate::datagram::DatagramListen::receiving)). The
    /// restrictions of [`Self::listening`] apply.
    ///
    /// # Errors
    /// No descriptor is available for a duplicate.
    pub fn receiving(&self) -> io::Result<Vec<Listening>> {
        self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).listening(false)
    }

    /// Makes every worker run a turn, even without events. A worker is stuck if its
    /// [`Snapshot::turns`] does not change after this call.
    pub fn wake(&self) {
        self.core.workers.iter().for_each(|worker| worker.wake());
    }

    /// Simulates a failure of a worker's driver, for drills and tests. A worker on io_uring
    /// continues with epoll, unless io_uring is [required](crate::Engine::IoUring). Any other
    /// worker ends; [`ServerBuilder::on_worker_failure`] sets the reaction of the server.
    pub fn fail_worker(&self, worker: WorkerIndex) {
        if let Some(worker) = self.core.workers.get(usize::from(worker.0)) {
            worker.send(Command::Fail);
        }
    }

    /// True while no worker has failed. A drain does not change the result.
    pub fn is_healthy(&self) -> bool {
        self.core.failures.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Duplicates the listening TCP sockets, to pass them to the next process
    /// ([`Listen::listening`](crate::Listen::listening)), which then serves the clients in the
    /// backlogs.
    ///
    /// [Inherited](crate::Listen::inherited) sockets are not included, because their owner has
    /// them. Sockets of a failed worker are not included either. After the first drain or stop, or
    /// after the take-over by a successor, [`Listening::sockets`] is empty. After the first call of
    /// this method a drain does not refuse new clients: they wait for the owner of the duplicates.
    ///
    /// # Errors
    /// No descriptor is available for a duplicate.
    pub fn listening(&self) -> io::Result<Vec<Listening>> {
        self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).listening(true)
    }

    /// True after the first drain or stop, or after the take-over by a successor.
    pub fn is_draining(&self) -> bool {
        self.core.draining.load(Ordering::Acquire)
    }
}

impl Core {
    /// Prepares listeners for their close, before the workers stop accepting. Listeners in
    /// `theirs`, which a successor also has, are left unchanged.
    fn last_call(&self, theirs: &TakenListeners) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).leave_files();
        let predecessor = self.predecessor.lock().unwrap_or_else(PoisonError::into_inner);
        // The predecessor also has these sockets, and may be the server that continues.
        if predecessor.as_ref().is_none_or(|predecessor| predecessor.core.draining.load(Ordering::Acquire)) {
            self.sockets.lock().unwrap_or_else(PoisonError::into_inner).last_call(theirs);
        }
    }

    /// Returns for each listener, then for each datagram listener, whether other servers or
    /// processes have its sockets and continue with them.
    fn lent(&self) -> Arc<[bool]> {
        let predecessor = self.predecessor.lock().unwrap_or_else(PoisonError::into_inner);
        // Before a take-over the predecessor has the datagram sockets, too.
        let has_predecessor = predecessor
            .as_ref()
            .is_some_and(|predecessor| !predecessor.core.draining.load(Ordering::Acquire));
        drop(predecessor);
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).lent(has_predecessor)
    }

    pub(crate) fn send(&self, command: Command) {
        if matches!(command, Command::Drain { .. } | Command::Stop) {
            self.draining.store(true, Ordering::Release);
        }
        if matches!(command, Command::Drain { .. }) {
            self.last_call(&TakenListeners::default());
        }
        if matches!(command, Command::Drain { .. } | Command::Stop) {
            let lent = self.lent();
            for worker in &self.workers {
                // A second drain does not change the value.
                let _known = worker.lent.set(Arc::clone(&lent));
            }
        }
        if matches!(command, Command::Drain { .. } | Command::Retire { .. } | Command::Stop) {
            self.sockets.lock().unwrap_or_else(PoisonError::into_inner).give_up();
        }
        self.workers.iter().for_each(|worker| worker.send(command));
    }

    /// Records that `thread` replaces the first thread of a worker.
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

    /// Reports the misuses that occurred in a turn of a worker.
    #[inline]
    pub(crate) fn report_misuses(&self, worker: WorkerIndex, misuses: Misuses) {
        if misuses.count() != 0 {
            misuses
                .unreported(&self.misuses_reported)
                .for_each(|misuse| self.observe(&Event::HandlerMisuse { worker, misuse }));
        }
    }

    /// Records the failure of a worker; its listeners are already closed.
    pub(crate) fn worker_failed(&self, worker: WorkerIndex, failure: WorkerFailure) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.give_up_worker(usize::from(worker.0));
        drop(sockets);
        self.balancer.iter().for_each(|balancer| balancer.fail(usize::from(worker.0)));
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
