//! One server takes over from another in the same process: same listening sockets, no moment without anybody who accepts.
//!
//! Does not know about: how sockets are copied, what a retiring worker does.

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};

use super::sockets::Taken;
use super::{Core, Handle};
use crate::control::{Command, Heirs};
use crate::time::{Clock as _, OsClock};

/// How long [`Handle::take_over`] waits for the workers of the server before: they are told at once, and a turn is short.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The server before.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) core: Arc<Core>,
    pub(super) taken: Taken,
    is_lent: bool,
}

impl Handle {
    /// Lets the server before ([`ServerBuilder::succeed`](super::ServerBuilder::succeed)) retire, now that this one accepts: it accepts
    /// nothing more from the listeners that both have, empties the backlog of those that only it has, and closes them. Nobody's
    /// connection is cut before its own time: each reply that the retired server still gives is the last of its connection, and for
    /// `patience` idle connections may wait for their next request or their own timeout. Who is left then is drained as by
    /// [`Handle::drain`]. It may be asked to hurry with its own handle.
    ///
    /// Returns once every client that connects from now on is this server's; false if a worker did not say so within a second.
    /// Without a server before there is nothing to do.
    pub fn take_over(&self, patience: Duration) -> bool {
        let before = self.core.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        before.is_none_or(|before| before.retire(&self.core, patience))
    }
}

impl Core {
    /// All threads of this server have ended. If it has not taken over, and passed nothing on, the server before is alone again.
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

    /// From here on both accept, and neither may end what the other has.
    pub(super) fn lend(&mut self) {
        self.is_lent = true;
        self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).lend(&self.taken);
    }

    /// The server that follows has ended without taking over.
    fn take_back(self) {
        if self.is_lent {
            self.core.sockets.lock().unwrap_or_else(PoisonError::into_inner).take_back(&self.taken);
        }
    }

    fn retire(self, heir: &Core, patience: Duration) -> bool {
        let Self { core, taken, .. } = self;
        heir.room.settle();
        let (left, leaves) = sync_channel(core.workers.len());
        let (workers, inherited, theirs) = (heir.workers.clone(), taken.0.clone(), taken);
        let heirs = Arc::new(Heirs { workers, inherited, left });
        if core.workers.iter().any(|worker| worker.heirs.set(Arc::clone(&heirs)).is_err()) {
            // It retired for another one before.
            return false;
        }
        core.draining.store(true, Ordering::Release);
        core.last_call(&theirs);
        core.send(Command::Retire { patience, timeout: core.drain_timeout });
        fence(Ordering::SeqCst);
        let mut clock = OsClock;
        let until = clock.now().after(LEAVE_TIMEOUT);
        // One that has ended accepts nothing, too.
        while !core.workers.iter().all(|worker| worker.has_left()) {
            if leaves.recv_timeout(until.since(clock.now())).is_err() {
                return false;
            }
        }
        true
    }
}
