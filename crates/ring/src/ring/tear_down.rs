//! Owns the end of a ring: cancel, reap to zero in flight, close, free; or leak what the kernel may still hold.
//! Does not know about: draining connections (the caller's business, before this).

use std::time::{Duration, Instant};

use super::{Parts, Ring};
use crate::Step;
use crate::sys::{self, RingFd};

/// How a ring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TearDown {
    /// Events that came during tear-down and were dropped; connections among them were closed.
    pub events_dropped: u64,
    /// Operations that did not end in time.
    pub in_flight: u64,
    /// Whether memory was leaked, because the kernel may still write there.
    pub leaked: bool,
}

/// What a ring is granted that is dropped and not torn down.
const DROP_DEADLINE: Duration = Duration::from_millis(50);
/// Longer deadlines are cut to this.
const DEADLINE_MAX: Duration = Duration::from_secs(3_600);
/// A cancel that came too early for its target is repeated after this.
const CANCEL_EVERY: Duration = Duration::from_millis(5);

impl Ring {
    /// Cancels everything, waits for every final completion, closes the ring and frees its memory. If `deadline` passes first
    /// (or the ring is broken) the receive buffers and the payloads in flight are leaked: closing a ring alone frees nothing
    /// at once. Entries pushed since the last `enter` are submitted before they are cancelled.
    pub fn tear_down(mut self, deadline: Duration) -> TearDown {
        self.finish(deadline)
    }

    fn finish(&mut self, deadline: Duration) -> TearDown {
        self.torn_down = true;
        // leaked unless the loop below shows that nothing is in flight, also if it should panic.
        self.parts.bufs.keep(true);
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
            // Dropping the event closes an accepted descriptor and frees a payload that came back.
            while self.next().is_some() {
                events_dropped += 1;
            }
            if entered.is_err() || left.is_zero() {
                break;
            }
        }
        let leaked = self.in_flight > 0;
        // the send table leaks what is in flight by itself.
        self.parts.bufs.keep(leaked);
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
    /// A registered ring outlives its descriptor; if this fails, it lives as long as its thread.
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
    reason = "tear-down is the last thing a worker does; it has no turn whose time to read"
)]
fn now() -> Instant {
    Instant::now()
}
