//! Programs started by checks: only the check that started a program waits for it, even if this
//! process is a child subreaper.

use rustix::process::{Pid, WaitOptions, waitpid};
use std::collections::BTreeSet;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

/// The programs of all checks of this process.
pub static CHILDREN: Children = Children::new();

/// Programs started by checks, which a reaper must not wait for.
#[derive(Debug)]
pub struct Children {
    /// Read-locked while a program starts, because the program may exit before its process ID is
    /// recorded.
    starting: RwLock<()>,
    own: Mutex<BTreeSet<i32>>,
}

/// A child that a check waits for.
#[derive(Debug)]
pub(crate) struct Own {
    child: Child,
    all: &'static Children,
}

impl Children {
    const fn new() -> Self {
        Self { starting: RwLock::new(()), own: Mutex::new(BTreeSet::new()) }
    }

    pub(crate) fn start(&'static self, spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Own> {
        let _starting = self.starting.read().unwrap_or_else(PoisonError::into_inner);
        let own = Own { child: spawn()?, all: self };
        self.own().insert(own.pid().as_raw_nonzero().get());
        Ok(own)
    }

    /// Calls `take_in` with a predicate that is true for processes started by checks. Returns
    /// `None` immediately while a program is being started.
    pub fn with_children<T>(&self, take_in: impl FnOnce(&dyn Fn(Pid) -> bool) -> T) -> Option<T> {
        let _none_starts = match self.starting.try_write() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(take_in(&|pid| self.own().contains(&pid.as_raw_nonzero().get())))
    }

    fn own(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Own {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }
}

impl Drop for Own {
    /// Waits for the child on a thread of its own if the check has not, as when its runtime ends
    /// before the child does.
    fn drop(&mut self) {
        let (pid, all) = (self.pid(), self.all);
        let forget = move || {
            all.own().remove(&pid.as_raw_nonzero().get());
        };
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return forget();
        }
        let wait = move || {
            let _status = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
            forget();
        };
        // Without a thread, the entry stays, and a zombie remains.
        let _started = std::thread::Builder::new().name("exec-wait".into()).spawn(wait);
    }
}
