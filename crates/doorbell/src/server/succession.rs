//! Take-over from another server in the same process: the successor uses the same listening
//! sockets, and clients are accepted without a gap.
//!
//! Does not know about: duplication of sockets, the work of a retiring worker.

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};

use super::sockets::Taken;
use super::{Core, Handle};
use crate::control::{Command, Successors};
use crate::time::{Clock as _, OsClock};

/// How long [`Handle::take_over`] waits for the predecessor's workers. The workers are woken at
/// once, and a turn is short.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The predecessor.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) core: Arc<Core>,
    pub(super) taken: Taken,
    is_lent: bool,
}

impl Handle {
    /// Retires the predecessor ([`ServerBuilder::succeed`](super::ServerBuilder::succeed)). The
    /// predecessor stops accepting from the listeners that both servers share; it serves the
    /// backlogs of its other listeners and closes them. Its connections keep their timeouts: each
    /// may get one more reply, and an idle connection may wait up to `patience` for its next
    /// request. Then the remaining connections are drained as by [`Handle::drain`]. A drain or stop
    /// with the predecessor's handle can end this earlier.
    ///
    /// Returns true when this server accepts all further clients, and false if a worker of the
    /// predecessor does not confirm within a second that it has stopped accepting. Does nothing
    /// without a predecessor.
    pub fn take_over(&self, patience: Duration) -> bool {
        let before = self.core.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        before.is_none_or(|before| before.retire(&self.core, patience))
    }
}

impl Core {
    /// Called after all threads of this server have ended. If this server did not take over and
    /// passed no socket on, the predecessor is again the only owner of its sockets.
    pub(super) fn has_ended(&self) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        let has_lent = self.sockets.lock().unwrap_or_else(PoisonError::into_inner).has_lent();
        if let Some(before) = before.filter(|_| !has_lent) {
            before.take_back();
        }
    }
}

impl Before {
    pub(super) const fn new(core: Arc<Core>, taken: Taken) -> Self {
        Self { core, taken, is_lent: false }
    }

    /// Records that both servers accept from now on, so that neither may refuse clients.
    pub(super) fn lend(&mut self) {
        self.is_lent = true;
        self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).lend(&self.taken);
    }

    /// Records that the successor has ended without taking over.
    fn take_back(self) {
        if self.is_lent {
            self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).take_back(&self.taken);
        }
    }

    fn retire(self, successor: &Core, patience: Duration) -> bool {
        let Self { core, taken, .. } = self;
        successor.room.settle();
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
