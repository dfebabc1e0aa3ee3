//! Take-over from another server in the same process: the successor uses the same listening
//! sockets, and clients are accepted without a gap.

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};

use super::sockets::TakenListeners;
use super::{Core, Handle};
use crate::control::{Command, Successors};
use crate::time::{Clock as _, OsClock};

/// How long [`Handle::take_over`] waits for the predecessor's workers. The workers are woken at
/// once, and a turn is short.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The predecessor.
#[derive(Debug)]
pub(super) struct Predecessor {
    pub(super) core: Arc<Core>,
    pub(super) taken: TakenListeners,
    is_lent: bool,
}

impl Handle {
    /// Retires the predecessor ([`ServerBuilder::succeed`](super::ServerBuilder::succeed)). The
    /// predecessor stops accepting from the listeners that both servers share; it serves the
    /// backlogs of its other listeners and closes them. Its connections keep their timeouts: each
    /// may get one more reply, and an idle connection may wait up to `patience` for its next
    /// request. After `patience` the remaining connections are drained as by [`Handle::drain`]. A
    /// drain or stop with the predecessor's handle can end them earlier.
    ///
    /// Returns true when this server accepts all further clients, and false if a worker of the
    /// predecessor does not confirm within a second that it has stopped accepting, or if another
    /// successor has retired the predecessor. Does nothing without a predecessor.
    pub fn take_over(&self, patience: Duration) -> bool {
        let predecessor = self.core.predecessor.lock().unwrap_or_else(PoisonError::into_inner).take();
        predecessor.is_none_or(|predecessor| predecessor.retire(&self.core, patience))
    }
}

impl Core {
    /// Records that both servers accept from now on, so that neither may refuse clients.
    pub(super) fn share_predecessor_sockets(&self) {
        if let Some(predecessor) = &mut *self.predecessor.lock().unwrap_or_else(PoisonError::into_inner) {
            predecessor.is_lent = true;
            let sockets = &predecessor.core.sockets;
            sockets.lock().unwrap_or_else(PoisonError::into_inner).lend(&predecessor.taken);
        }
    }

    /// Called after all threads of this server have ended. If this server did not take over and
    /// passed no socket on, the predecessor is again the only owner of its sockets.
    pub(super) fn has_ended(&self) {
        let predecessor = self.predecessor.lock().unwrap_or_else(PoisonError::into_inner).take();
        let has_lent = self.sockets.lock().unwrap_or_else(PoisonError::into_inner).has_lent();
        if let Some(predecessor) = predecessor.filter(|_| !has_lent) {
            predecessor.take_back();
        }
    }
}

impl Predecessor {
    pub(super) const fn new(core: Arc<Core>, taken: TakenListeners) -> Self {
        Self { core, taken, is_lent: false }
    }

    /// Records that the successor has ended without taking over.
    fn take_back(self) {
        if self.is_lent {
            self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).take_back(&self.taken);
        }
    }

    fn retire(self, successor: &Core, patience: Duration) -> bool {
        let Self { core, taken, .. } = self;
        successor.server_size.settle();
        let (left, leaves) = sync_channel(core.workers.len());
        let (workers, inherited, theirs) = (successor.workers.clone(), taken.0.clone(), taken);
        let successors = Arc::new(Successors { workers, inherited, left });
        if core.workers.iter().any(|worker| worker.successors.set(Arc::clone(&successors)).is_err()) {
            // The predecessor has already retired for another successor.
            return false;
        }
        core.draining.store(true, Ordering::Release);
        core.last_call(&theirs);
        core.send(Command::Retire { patience, timeout: core.drain_timeout });
        fence(Ordering::SeqCst);
        let mut clock = OsClock;
        let until = clock.now().after(LEAVE_TIMEOUT);
        // `has_left` is also true for a worker that has ended.
        while !core.workers.iter().all(|worker| worker.has_left()) {
            if leaves.recv_timeout(until.since(clock.now())).is_err() {
                return false;
            }
        }
        true
    }
}
