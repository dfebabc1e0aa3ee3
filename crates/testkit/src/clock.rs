//! A virtual clock: its time moves only when a simulation moves it.

use core::time::Duration;
use std::cell::Cell;
use std::rc::Rc;

use doorbell::time::{Clock, Time};

/// 2026-01-01 00:00:00 UTC, the start of every virtual wall clock.
pub const WALL_START_SECS: i64 = 1_767_225_600;

/// Start of virtual monotonic time: not zero, so that a forgotten initial value is noticed.
pub const START_NANOS: u64 = 3_600_000_000_000;

/// A clock; clones share its time.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    now_nanos: Rc<Cell<u64>>,
    wall_offset_secs: Rc<Cell<i64>>,
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl VirtualClock {
    /// Creates a clock at [`START_NANOS`].
    pub fn new() -> Self {
        Self { now_nanos: Rc::new(Cell::new(START_NANOS)), wall_offset_secs: Rc::new(Cell::new(0)) }
    }

    /// Monotonic time in nanoseconds.
    pub fn now_nanos(&self) -> u64 {
        self.now_nanos.get()
    }

    /// Advances both clocks by `duration`.
    pub fn advance(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.now_nanos.set(self.now_nanos.get().saturating_add(nanos));
    }

    /// Advances to `nanos`; never goes back.
    pub fn advance_to(&self, nanos: u64) {
        self.now_nanos.set(self.now_nanos.get().max(nanos));
    }

    /// Sets only the wall clock, forward or back, as an administrator or NTP does.
    pub fn jump_wall(&self, secs: i64) {
        self.wall_offset_secs.set(self.wall_offset_secs.get() + secs);
    }
}

impl Clock for VirtualClock {
    fn now(&mut self) -> Time {
        Time::from_nanos(self.now_nanos.get())
    }

    fn unix_secs(&mut self) -> i64 {
        let passed_secs = (self.now_nanos.get() - START_NANOS) / 1_000_000_000;
        WALL_START_SECS + i64::try_from(passed_secs).unwrap_or(i64::MAX / 2) + self.wall_offset_secs.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_time_and_only_the_wall_clock_goes_back() {
        let clock = VirtualClock::new();
        let mut other = clock.clone();
        clock.advance(Duration::from_millis(2_500));
        assert_eq!(other.now(), Time::from_nanos(START_NANOS + 2_500_000_000));
        assert_eq!(other.unix_secs(), WALL_START_SECS + 2);
        clock.jump_wall(-3_600);
        clock.advance_to(START_NANOS);
        assert_eq!(other.now(), Time::from_nanos(START_NANOS + 2_500_000_000));
        assert_eq!(other.unix_secs(), WALL_START_SECS - 3_598);
    }
}
