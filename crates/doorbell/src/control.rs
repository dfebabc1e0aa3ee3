//! Commands from other threads to workers: how they are left and how the worker hears of them.
//!
//! Does not know about: what a worker does with them.

use core::time::Duration;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};

use crate::driver::Waker;
use crate::stats::Counters;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, PoisonError};

/// What another thread may ask of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Stop accepting, finish what is in progress, end after `timeout` at the latest.
    Drain {
        /// How long connections in progress may take.
        timeout: Duration,
    },
    /// Act as if the driver had failed: a drill for what follows, and for tests of it.
    Fail,
    /// Ask the kernel anew on every listener: somebody who accepted beside this worker may have been woken for a client that he left.
    Relisten,
    /// Stop accepting what a successor accepts now. Each reply is the last of its connection; nobody is cut before his own time.
    Retire {
        /// How long connections may stay; what is left then is drained.
        patience: Duration,
        /// How long that drain may take.
        timeout: Duration,
    },
    /// End now: listeners and connections are closed.
    Stop,
}

/// Commands waiting for one worker. At most a handful: each kind is kept once.
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

    /// The commands left since the last time; one relaxed load when there are none.
    pub(crate) fn take(&self) -> Vec<Command> {
        if !self.waiting.load(Ordering::Relaxed) || !self.waiting.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        core::mem::take(&mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Who goes on with the listeners of a server that retires.
#[derive(Debug)]
pub(crate) struct Heirs {
    /// All of them: a listener may be shared.
    pub(crate) workers: Vec<Arc<WorkerShared>>,
    /// By listener of the retiring server: true when the heirs accept from it too.
    pub(crate) inherited: Vec<bool>,
    /// Woken by each worker that accepts nothing more that an heir could take.
    pub(crate) left: SyncSender<()>,
}

/// What a worker shares with the threads that control and observe it.
#[derive(Debug)]
pub struct WorkerShared {
    pub(crate) inbox: Inbox,
    pub(crate) counters: Counters,
    /// Set before [`Command::Retire`] is sent.
    pub(crate) heirs: OnceLock<Arc<Heirs>>,
    /// Set before [`Command::Drain`] is sent. By listener: true when others have its socket, too, so that clients in the backlog are theirs.
    pub(crate) lent: OnceLock<Arc<[bool]>>,
    /// It accepts nothing more that an heir could take, or has ended.
    has_left: AtomicBool,
    waker: Waker,
}

impl Heirs {
    /// They ask the kernel anew; those that retired since leave it to theirs.
    pub(crate) fn wake(&self) {
        let mut heirs = Some(self);
        while let Some(Self { workers, .. }) = heirs {
            workers.iter().for_each(|heir| heir.send(Command::Relisten));
            heirs = workers.first().and_then(|heir| heir.heirs.get()).map(|heirs| &**heirs);
        }
    }
}

impl WorkerShared {
    /// The shared part of a worker whose driver was given the source of `waker`.
    pub fn new(waker: Waker) -> Self {
        Self {
            inbox: Inbox::default(),
            counters: Counters::default(),
            heirs: OnceLock::new(),
            lent: OnceLock::new(),
            has_left: AtomicBool::new(false),
            waker,
        }
    }

    /// From here on an heir may have every client. Heirs that come later find it said.
    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::Relaxed);
        // Either this thread sees the heirs, or they see what was stored.
        fence(Ordering::SeqCst);
        if let Some(heirs) = self.heirs.get() {
            // A full channel wakes as well.
            let _heard = heirs.left.try_send(());
        }
    }

    /// Whether it left. To be asked behind a [`fence`] once its heirs are set.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Leaves a command and wakes the worker.
    pub fn send(&self, command: Command) {
        self.inbox.leave(command);
        self.waker.wake();
    }

    /// Makes the worker turn.
    pub fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The worker's counters now.
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
