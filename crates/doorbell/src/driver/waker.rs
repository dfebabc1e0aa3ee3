//! Waking a worker from another thread through an `eventfd(2)` that its driver watches.
//!
//! Does not know about: the reason for a wake-up.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Wakes one worker from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

/// The driver's side of a [`Waker`].
#[derive(Clone, Debug)]
pub struct WakeSource {
    fd: Arc<OwnedFd>,
}

impl Waker {
    /// A waker and the source to pass to a driver.
    ///
    /// # Errors
    /// The errno of `eventfd(2)`, usually `EMFILE`.
    pub fn pair() -> Result<(Self, WakeSource), Errno> {
        let fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok((Self { fd: Arc::clone(&fd) }, WakeSource { fd }))
    }

    /// Makes the driver's current or next wait return.
    pub fn wake(&self) {
        // EAGAIN means that the counter is full: the worker will wake up anyway. Other errors are
        // impossible on an eventfd that we own.
        let _full = rustix::io::write(&*self.fd, &1u64.to_ne_bytes());
    }
}

impl WakeSource {
    /// The descriptor to watch for readability.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Clears the wake-ups so far.
    pub fn clear(&self) {
        let mut count = [0; 8];
        // EAGAIN: nothing to take.
        let _empty = rustix::io::read(&*self.fd, &mut count);
    }
}
