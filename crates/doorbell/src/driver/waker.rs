//! Wake-ups of a worker by other threads, through an `eventfd(2)` that the worker's driver watches.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// A handle that wakes one worker from any thread. Cheap to clone.
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
    /// Creates a waker, and the source to pass to a driver.
    ///
    /// # Errors
    /// The errno of `eventfd(2)`, usually `EMFILE`.
    pub fn pair() -> Result<(Self, WakeSource), Errno> {
        let fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok((Self { fd: Arc::clone(&fd) }, WakeSource { fd }))
    }

    /// Makes the driver's current or next wait return.
    pub fn wake(&self) {
        // EAGAIN means that the counter is full: the worker will wake up anyway. Other errors
        // cannot occur on an open eventfd.
        let _full = rustix::io::write(&*self.fd, &1u64.to_ne_bytes());
    }
}

impl WakeSource {
    /// The descriptor to watch for readability.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Clears all earlier wake-ups, so that the descriptor is no longer readable.
    pub fn clear(&self) {
        let mut count = [0; 8];
        // EAGAIN means that there was no wake-up.
        let _empty = rustix::io::read(&*self.fd, &mut count);
    }
}
