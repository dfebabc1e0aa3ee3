//! A listener of the epoll driver: the number of connections to expect per epoll event.

use std::os::fd::OwnedFd;

/// Maximum number of connections accepted from one listener per turn.
const ACCEPTS_A_TURN_MAX: u32 = 256;

/// Number of consecutive epoll events that yield at least [`Listener::expected`] connections each,
/// after which `expected` is doubled. An accept that finds no client costs about 2,500
/// instructions, because the kernel allocates a file and a socket first; a repeated event costs
/// half of that.
const REPORTS_BEFORE_MORE: u32 = 8;

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) fd: Option<OwnedFd>,
    pub(super) armed: bool,
    /// Number of connections expected per epoll event, which is the maximum number of accepts after
    /// an event. Epoll reports the remaining clients again.
    pub(super) expected: u32,
    /// Number of consecutive events with at least `expected` connections.
    met: u32,
}

impl Listener {
    pub(super) const fn new(fd: Option<OwnedFd>) -> Self {
        Self { fd, armed: false, expected: 1, met: 0 }
    }

    /// Called when an event yielded as many connections as expected.
    pub(super) fn take_more(&mut self) {
        self.met += 1;
        if self.met >= REPORTS_BEFORE_MORE {
            self.met = 0;
            self.expected = (self.expected * 2).min(ACCEPTS_A_TURN_MAX);
        }
    }

    /// Called when an event yielded fewer connections than expected.
    pub(super) fn take_fewer(&mut self, taken: u32) {
        self.met = 0;
        self.expected = taken.max(1);
    }
}
