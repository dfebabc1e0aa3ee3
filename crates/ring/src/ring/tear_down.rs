//! Owns the tear-down of a ring: cancel, reap until nothing is in flight, close, free. Memory that
//! the kernel may still use is leaked.

use std::time::{Duration, Instant};

use super::{Parts, Ring};
use crate::Step;
use crate::sys::{self, RingFd};

/// The result of a tear-down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TearDown {
    /// Events dropped during tear-down. Connections accepted by these events are closed.
    pub events_dropped: u64,
    /// Operations that had not ended at the deadline.
    pub in_flight: u64,
    /// Whether memory was leaked because the kernel may still access it.
    pub leaked: bool,
}

/// Deadline for a ring that is dropped without a tear-down.
const DROP_DEADLINE: Duration = Duration::from_millis(50);
/// Upper limit for deadlines.
const DEADLINE_MAX: Duration = Duration::from_secs(3_600);
/// Interval at which operations that are still in flight are cancelled again.
const CANCEL_EVERY: Duration = Duration::from_millis(5);

impl Ring {
    /// Cancels all operations, waits for every final completion, closes the ring and frees its
    /// memory. If `deadline` passes first or the ring is broken, the receive buffers and the
    /// payloads in flight are leaked: the kernel may access them even after the ring was closed.
    /// Entries pushed since the last `enter` are submitted before they are cancelled.
    pub fn tear_down(mut self, deadline: Duration) -> TearDown {
        self.finish(deadline)
    }

    fn finish(&mut self, deadline: Duration) -> TearDown {
        self.torn_down = true;
        // the buffers are leaked unless the loop below proves that nothing is in flight, so
        // they are also leaked if the loop panics.
        self.parts.keep(true);
        let mut cancel_at = now();
        let ends_at = cancel_at + deadline.min(DEADLINE_MAX);
        let mut events_dropped = 0;
        while self.in_flight > 0 {
            let time = now();
            let left = ends_at.saturating_duration_since(time);
            if time >= cancel_at && self.setup.check_fault(Step::CancelLater).is_ok() {
                cancel_at = time + CANCEL_EVERY;
                self.cancel_everything();
            }
            let entered = self.enter(1, Some(left.min(CANCEL_EVERY)));
            // Dropping an event closes an accepted descriptor and frees a returned payload.
            while self.next().is_some() {
                events_dropped += 1;
            }
            if entered.is_err() || left.is_zero() {
                break;
            }
        }
        let leaked = self.in_flight > 0;
        // a dropped send table leaks its payloads in flight.
        self.parts.keep(leaked);
        self.parts.unregister_ring_fd();
        TearDown { events_dropped, in_flight: self.in_flight, leaked }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.torn_down {
            self.finish(DROP_DEADLINE);
        }
    }
}

impl Parts {
    /// Unregisters the descriptor of the ring, because a registered ring outlives its descriptor.
    /// If this fails, the ring exists until its thread ends.
    pub(crate) fn unregister_ring_fd(&mut self) {
        use std::os::fd::AsRawFd;
        if let RingFd::Registered(index) = self.ring_fd {
            let fd = self.io.as_raw_fd();
            self.ring_fd = RingFd::Plain(fd);
            let _ = sys::unregister_ring_fd(fd, index);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tear-down runs after the worker's last turn, which provides the time otherwise"
)]
fn now() -> Instant {
    Instant::now()
}
