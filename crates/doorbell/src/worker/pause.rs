//! The pause of all deadlines after a late turn.
//!
//! A wait may report only a part of the input that has arrived. In a turn on time the rest has just
//! arrived. In a late turn it may have arrived long before the deadline of its connection. So the
//! worker first runs as many turns as waits need to report input of each connection once. A request
//! longer than a few receive buffers may still be timed out.
//!
//! A drain also begins a pause if the driver cannot look for input on idle connections.

use core::time::Duration;

use crate::time::Time;

/// Maximum delay of the check of a deadline in a turn on time: two ticks of the coarsest clock.
const DELAY_MAX: Duration = Duration::from_millis(20);

/// Minimum duration of a pause.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(64);

/// Number of connections whose input a wait reports at least, if so many have input. Linux reports
/// 20 with io_uring, and 256 with epoll.
const REPORTED_MIN: u32 = 16;

/// The current or last pause. The [module](self) documents it.
#[derive(Debug)]
pub(super) struct Pause {
    until: Time,
    /// Number of the turn that may check deadlines, if `until` has passed.
    until_turn: u64,
}

impl Pause {
    pub(super) const fn new(now: Time) -> Self {
        Self { until: now, until_turn: 0 }
    }

    /// The time at which the pause ends at the earliest.
    pub(super) const fn until(&self) -> Time {
        self.until
    }

    /// True if this turn checks no deadline. `due` is the time at which the first of them was due.
    ///
    /// A late turn begins a pause. Deadlines that were due before the end of a pause do not begin
    /// another, so they are checked even if all turns are late.
    #[cold]
    pub(super) fn holds(&mut self, due: Time, now: Time, turn: u64, conns: u32) -> bool {
        if due > self.until && now.since(due) > DELAY_MAX {
            self.begin(now, turn, conns);
        }
        now < self.until || turn < self.until_turn
    }

    /// Begins a pause, which lasts until the input that has arrived on `conns` connections is
    /// reported.
    pub(super) fn begin(&mut self, now: Time, turn: u64, conns: u32) {
        let turns = u64::from(conns.div_ceil(REPORTED_MIN));
        *self = Self { until: now.after(PAUSE_MIN), until_turn: turn + turns };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at_ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_turn_on_time_begins_no_pause() {
        let mut pause = Pause::new(at_ms(0));
        assert!(!pause.holds(at_ms(1_000), at_ms(1_020), 7, 1_000));
    }

    #[test]
    fn a_pause_lasts_its_minimum_and_a_turn_for_each_16_connections() {
        let mut pause = Pause::new(at_ms(0));
        let due = at_ms(1_000);
        assert!(pause.holds(due, at_ms(1_021), 7, 33));
        assert!(pause.holds(due, at_ms(1_084), 1_000, 33), "too early");
        assert!(pause.holds(due, at_ms(9_000), 9, 33), "too few turns");
        assert!(!pause.holds(due, at_ms(9_000), 10, 33));
        assert!(pause.holds(at_ms(2_000), at_ms(9_000), 11, 33), "another late turn");
    }
}
