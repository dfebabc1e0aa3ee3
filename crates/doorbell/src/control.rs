//! Commands from other threads to workers.

use core::time::Duration;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};

use crate::driver::Waker;
use crate::stats::Counters;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, PoisonError};

/// A command to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve the connections that other workers have accepted for this worker.
    Adopt,
    /// Deliver the messages that other threads have pushed to connections.
    Deliver,
    /// Accept the clients that are in the backlogs, then close the listeners; finish requests in
    /// progress; end when all connections have ended or after `timeout`.
    Drain {
        /// Maximum time for requests in progress.
        timeout: Duration,
    },
    /// Simulate a failure of the driver, for drills and tests.
    Fail,
    /// Arm accept again on every listener. The kernel may have woken a retiring worker for a client
    /// in the backlog of a shared listener, and that worker no longer accepts.
    Relisten,
    /// Stop accepting: at once on listeners that a successor has inherited, on others when their
    /// backlog is empty. Each reply is the last one of its connection. No timeout is shortened.
    Retire {
        /// How long connections may stay open; after that the remaining connections are drained.
        patience: Duration,
        /// Timeout of that drain.
        timeout: Duration,
    },
    /// End now: close all listeners and connections.
    Stop,
}

/// Commands waiting for one worker. Identical commands are stored once, so the queue is short.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: AtomicBool,
    commands: Mutex<Vec<Command>>,
}

impl Inbox {
    pub(crate) fn leave(&self, command: Command) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        if !commands.contains(&command) {
            commands.push(command);
        }
        self.waiting.store(true, Ordering::Release);
    }

    /// Takes the commands that arrived since the last call. Costs one relaxed load if there are no
    /// commands.
    pub(crate) fn take(&self) -> Vec<Command> {
        if !self.waiting.load(Ordering::Relaxed) || !self.waiting.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        core::mem::take(&mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The successors of the workers of a retiring server.
#[derive(Debug)]
pub(crate) struct Successors {
    /// All workers of the successor server, because workers may share a listener.
    pub(crate) workers: Vec<Arc<WorkerShared>>,
    /// By listener of the retiring server, then by datagram listener: true if the successors also
    /// have its sockets.
    pub(crate) inherited: Vec<bool>,
    /// Notified by each worker of the retiring server once it no longer accepts on the inherited
    /// listeners.
    pub(crate) left: SyncSender<()>,
}

/// The part of a worker that is shared with threads that control and observe it.
#[derive(Debug)]
pub struct WorkerShared {
    pub(crate) inbox: Inbox,
    pub(crate) counters: Counters,
    /// Set before [`Command::Retire`] is sent.
    pub(crate) successors: OnceLock<Arc<Successors>>,
    /// Set before [`Command::Drain`] or [`Command::Stop`] is sent. By listener, then by datagram
    /// listener: true if another process or server also has the socket, and will serve the clients
    /// in its queue.
    pub(crate) lent: OnceLock<Arc<[bool]>>,
    /// True once the worker has stopped accepting on the listeners that the successors have
    /// inherited, or has ended.
    has_left: AtomicBool,
    waker: Waker,
}

impl Successors {
    /// Makes the successors arm accept again. If a successor has also retired, the command goes to
    /// its successors too.
    pub(crate) fn wake(&self) {
        let mut successors = Some(self);
        while let Some(Self { workers, .. }) = successors {
            workers.iter().for_each(|successor| successor.send(Command::Relisten));
            successors = workers
                .first()
                .and_then(|successor| successor.successors.get())
                .map(|successors| &**successors);
        }
    }
}

impl WorkerShared {
    /// Creates the shared part of a worker whose driver watches the source of `waker`.
    pub fn new(waker: Waker) -> Self {
        Self {
            inbox: Inbox::default(),
            counters: Counters::default(),
            successors: OnceLock::new(),
            lent: OnceLock::new(),
            has_left: AtomicBool::new(false),
            waker,
        }
    }

    /// Records that the worker no longer accepts on the listeners that the successors have
    /// inherited, and notifies the thread that waits for this. If the successors are set later,
    /// that thread finds the record.
    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::Relaxed);
        // Either this thread sees the successors, or the thread that sets them sees the stored
        // value.
        fence(Ordering::SeqCst);
        if let Some(successors) = self.successors.get() {
            // The receiver also wakes up if the channel is already full.
            let _sent = successors.left.try_send(());
        }
    }

    /// Whether [`Self::leave`] was called. The caller must first set the successors and then
    /// execute a [`fence`].
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Sends a command and wakes the worker.
    pub fn send(&self, command: Command) {
        self.inbox.leave(command);
        self.waker.wake();
    }

    /// Returns a function that makes the worker deliver messages.
    pub(crate) fn delivery(self: &Arc<Self>) -> Arc<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(self);
        Arc::new(move || shared.send(Command::Deliver))
    }

    /// Makes the worker run a turn.
    pub fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The worker's current counters of each datagram listener.
    pub fn datagrams(&self) -> Vec<crate::stats::DatagramSnapshot> {
        let mut sums = Vec::new();
        self.counters.add_datagrams(&mut sums);
        sums
    }

    /// The worker's current counters.
    pub fn snapshot(&self) -> crate::stats::Snapshot {
        self.counters.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_once_and_kept_once() {
        let inbox = Inbox::default();
        assert!(inbox.take().is_empty());
        inbox.leave(Command::Stop);
        inbox.leave(Command::Stop);
        assert_eq!(inbox.take(), [Command::Stop]);
        assert!(inbox.take().is_empty());
    }
}
