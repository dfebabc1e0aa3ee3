//! Owns submission: pushing one entry, entering the kernel, and handling its refusals.
#![expect(unsafe_code, reason = "pushing an entry is unsafe in the io-uring crate")]

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::Fd;
use rustix::io::fcntl_dupfd_cloexec;

use super::Ring;
use super::reap::Cqe;
use crate::token::Tag;
use crate::{Errno, Step, Token, sys};

/// The ring is unusable: tear it down.
///
/// Operations whose final event has not arrived yet never get one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnterError {
    /// The error of `io_uring_enter(2)`.
    pub errno: Errno,
}

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.errno.0 {
            libc::EBADR => "the kernel dropped completions for lack of memory",
            libc::EPERM | libc::ENOSYS | libc::EACCES => {
                "a filter installed after set-up most likely forbids it"
            }
            _ => "the ring is unusable",
        };
        write!(f, "io_uring_enter returned {}: {why}", self.errno)
    }
}

impl std::error::Error for EnterError {}

/// Maximum number of calls of [`Ring::enter`] that a push makes to empty the queue; after that the
/// operation or the ring fails.
const FULL_RETRIES_MAX: u32 = 64;

impl Ring {
    /// Submits pushed entries, lets the kernel run deferred work, and waits until `wait_for`
    /// completions are available or `timeout` has passed (`None`: no limit). A signal or a busy
    /// kernel may end the wait early, so the caller must read the clock to know whether `timeout`
    /// has passed. Does not wait while completions that were already removed from the queue are
    /// unread.
    ///
    /// # Errors
    /// The ring is permanently broken.
    pub fn enter(&mut self, wait_for: u32, timeout: Option<Duration>) -> Result<(), EnterError> {
        if let Some(errno) = self.fatal {
            return Err(EnterError { errno });
        }
        let wait_for = if self.has_unread() { 0 } else { wait_for };
        match self.enter_once(wait_for, timeout) {
            Err(Errno(libc::EBUSY)) => {
                // The kernel's overflowed completions must be flushed first, and the queue has no
                // room for them.
                self.counters.enters_busy += 1;
                self.spill_queue();
                match self.enter_once(0, None) {
                    Err(Errno(libc::EBUSY)) => self.counters.enters_busy += 1,
                    Err(errno) => return Err(self.break_down(errno)),
                    Ok(()) => {}
                }
            }
            Err(errno) => return Err(self.break_down(errno)),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Makes one system call. Every returned error except `EBUSY` is fatal.
    #[inline]
    fn enter_once(&mut self, wait_for: u32, timeout: Option<Duration>) -> Result<(), Errno> {
        self.setup.check_fault(Step::EnterLater)?;
        let submit =
            u32::try_from(self.parts.io.submission().len()).expect("a queue has at most 32,768 entries");
        let result = sys::enter(self.parts.ring_fd, submit, wait_for, timeout);
        self.counters.enters += 1;
        match result {
            Ok(consumed) => {
                self.counters.sqes += u64::from(consumed);
                self.counters.submits_short += u64::from(consumed < submit);
                if consumed == submit && !self.named.is_empty() {
                    self.named.drain(..).for_each(sys::close);
                }
            }
            // EAGAIN: the kernel submitted nothing for lack of memory. The entries stay in the
            // queue for the next call.
            Err(Errno(libc::EAGAIN)) => self.counters.enters_busy += 1,
            Err(Errno(libc::EINTR | libc::ETIME)) => {}
            Err(errno) => return Err(errno),
        }
        if self.parts.io.submission().cq_overflow() {
            self.note_overflow();
        }
        Ok(())
    }

    #[cold]
    fn note_overflow(&mut self) {
        self.counters.cq_overflows += 1;
        self.counters.cqes_dropped = u64::from(self.parts.io.completion().overflow());
    }

    /// Pushes an entry that names a duplicate of `fd`, which stays open until the kernel has
    /// consumed the entry.
    #[inline]
    pub(super) fn push_of(
        &mut self,
        tag: Tag,
        token: Token,
        fd: BorrowedFd<'_>,
        entry: impl FnOnce(Fd) -> Entry,
    ) {
        match fcntl_dupfd_cloexec(fd, 0) {
            Ok(own) => {
                self.push(tag, token, entry(Fd(own.as_raw_fd())));
                self.named.push(own);
            }
            Err(_) => self.push_at_once(tag, token, entry(Fd(fd.as_raw_fd()))),
        }
    }

    /// Fallback if a descriptor cannot be duplicated: makes the kernel consume the entry before the
    /// borrow ends. If the entry stays queued, the ring is broken and never entered again.
    #[cold]
    pub(super) fn push_at_once(&mut self, tag: Tag, token: Token, entry: Entry) {
        self.push(tag, token, entry);
        for _ in 0..FULL_RETRIES_MAX {
            // `enter` also stores the error in `fatal`.
            let _ = self.enter(0, None);
            if self.fatal.is_some() || self.parts.io.submission().is_empty() {
                return;
            }
        }
        self.break_down(Errno(libc::EMFILE));
    }

    #[inline]
    pub(super) fn push_entry(&mut self, user_data: u64, entry: &Entry) {
        if !self.try_push(entry) {
            self.push_into_full(user_data, entry);
        }
    }

    #[inline]
    fn try_push(&mut self, entry: &Entry) -> bool {
        let mut queue = self.parts.io.submission();
        // SAFETY, the entry has no address, the address of a payload that stays
        // in the send table until its completion, or the address of the header for datagrams.
        unsafe { queue.push(entry) }.is_ok()
    }

    /// Makes room by submitting. If the kernel accepts nothing, the operation gets an error event,
    /// so that a push itself never fails.
    #[cold]
    fn push_into_full(&mut self, user_data: u64, entry: &Entry) {
        for _ in 0..FULL_RETRIES_MAX {
            if self.fatal.is_some() {
                break;
            }
            // A short submit also makes room. An error is stored in `fatal`, and the caller's next
            // `enter` returns it.
            let _ = self.enter(0, None);
            if self.try_push(entry) {
                return;
            }
        }
        let errno = self.fatal.unwrap_or(Errno(libc::EBUSY));
        self.spill.push_back(Cqe { user_data, result: -errno.0, flags: 0 });
    }

    fn break_down(&mut self, errno: Errno) -> EnterError {
        self.fatal = Some(errno);
        self.counters.cqes_dropped = u64::from(self.parts.io.completion().overflow());
        EnterError { errno }
    }
}
