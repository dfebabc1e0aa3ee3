//! One kernel timer that bounds many waits. With a timeout per wait, the kernel would start and
//! cancel a timer every time the worker sleeps (500 to 1,500 instructions).
//!
//! Each expiry makes the descriptor readable again, so an edge-triggered watcher never needs to
//! read the descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::sock;
use crate::time::Time;

#[derive(Debug)]
pub(super) struct Alarm {
    fd: OwnedFd,
    /// The time at which the timer expires, in the worker's time; `None` while it is not armed.
    due: Option<Time>,
}

impl Alarm {
    pub(super) fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { fd: timerfd_create(TimerfdClockId::Monotonic, flags)?, due: None })
    }

    /// Makes the timer expire at `due` or earlier. Returns false if the kernel refuses.
    pub(super) fn set(&mut self, now: Time, due: Time) -> bool {
        if self.due.is_some_and(|armed| armed <= due) {
            return true;
        }
        let zero = sock::timespec(core::time::Duration::ZERO);
        let mut after = sock::timespec(due.since(now));
        if after == zero {
            // Zero would disarm the timer.
            after.tv_nsec = 1;
        }
        let wanted = Itimerspec { it_interval: zero, it_value: after };
        let set = timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &wanted).is_ok();
        self.due = set.then_some(due);
        set
    }

    /// Records that the timer has expired.
    pub(super) const fn set_expired(&mut self) {
        self.due = None;
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const NOW: Time = Time::from_nanos(1_000_000_000);

    fn after_ms(ms: u64) -> Time {
        NOW.after(Duration::from_millis(ms))
    }

    #[test]
    fn expires_at_the_earliest_time_it_was_set_to() {
        let mut alarm = Alarm::new().unwrap();
        assert!(!sock::readable(alarm.fd()));
        for due in [after_ms(3_600_000), after_ms(2), after_ms(7_200_000)] {
            assert!(alarm.set(NOW, due));
        }
        assert_eq!(alarm.due, Some(after_ms(2)), "a later time changes nothing");
        let _slept = rustix::thread::nanosleep(&sock::timespec(Duration::from_millis(20)));
        assert!(sock::readable(alarm.fd()));
    }

    #[test]
    fn a_time_in_the_past_expires_at_once_and_the_alarm_can_be_set_again() {
        let mut alarm = Alarm::new().unwrap();
        for _ in 0..2 {
            assert!(alarm.set(NOW, NOW));
            let _slept = rustix::thread::nanosleep(&sock::timespec(Duration::from_millis(1)));
            assert!(sock::readable(alarm.fd()));
            alarm.set_expired();
        }
    }
}
