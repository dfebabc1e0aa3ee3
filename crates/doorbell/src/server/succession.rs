//! A server takes over from another one in the same process: it uses the same listening sockets,
//! and clients are accepted without a gap.
//!
//! Does not know about: copying sockets, the work of a retiring worker.

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};

use super::sockets::Taken;
use super::{Core, Handle};
use crate::control::{Command, Successors};
use crate::time::{Clock as _, OsClock};

/// How long [`Handle::take_over`] waits for the predecessor's workers. They are woken at once, and
/// a turn is short.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The predecessor.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) core: Arc<Core>,
    pub(super) taken: Taken,
    is_lent: bool,
}

impl Handle {
    /// Retires the predecessor ([`ServerBuilder::succeed`](super::ServerBuilder::succeed)) once
    /// this server accepts. The predecessor stops accepting from the listeners that both share; it
    /// serves the backlog of its other listeners and closes them. Its connections keep their own
    /// timeouts: each may get one more reply, and idle ones may wait up to `patience` for their
    /// next request. Then the rest is drained as by [`Handle::drain`]. The predecessor's own handle
    /// can shorten this.
    ///
    /// Returns once all clients that connect from now on belong to this server; false if a worker
    /// of the predecessor did not confirm that within a second. Without a predecessor it does
    /// nothing.
    pub fn take_over(&self, patience: Duration) -> bool {
        let before = self.core.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        before.is_none_or(|before| before.retire(&self.core, patience))
    }
}

impl Core {
    /// Called after all threads of this server have ended. If it did not take over and passed no
    /// socket on, the predecessor owns its sockets alone again.
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

    /// From now on both servers accept, and neither may turn clients away.
    pub(super) fn lend(&mut self) {
        self.is_lent = true;
        self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).lend(&self.taken);
    }

    /// The successor ended without taking over.
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
            // It has already retired for another successor.
            return false;
        }
        core.draining.store(true, Ordering::Release);
        core.last_call(&theirs);
        core.send(Command::Retire { patience, timeout: core.drain_timeout });
        fence(Ordering::SeqCst);
        let mut clock = OsClock;
        let until = clock.now().after(LEAVE_TIMEOUT);
        // A worker that ended accepts nothing either.
        while !core.workers.iter().all(|worker| worker.has_left()) {
            if leaves.recv_timeout(until.since(clock.now())).is_err() {
                return false;
            }
        }
        true
    }
}
