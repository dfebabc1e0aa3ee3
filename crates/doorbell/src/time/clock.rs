//! The clocks that a worker reads, at most once per turn.

use rustix::time::{ClockId, clock_gettime};

use super::Time;

/// A source of time for a worker. The simulator implements it with a simulated clock.
pub trait Clock {
    /// Returns the monotonic time since an arbitrary origin.
    fn now(&mut self) -> Time;

    /// Returns the seconds since 1970-01-01 UTC, for the `Date` field. The value may jump in either
    /// direction.
    fn unix_secs(&mut self) -> i64;
}

#[cfg(target_os = "linux")]
const MONOTONIC: ClockId = ClockId::MonotonicCoarse;
#[cfg(target_os = "linux")]
const REALTIME: ClockId = ClockId::RealtimeCoarse;
#[cfg(not(target_os = "linux"))]
const MONOTONIC: ClockId = ClockId::Monotonic;
#[cfg(not(target_os = "linux"))]
const REALTIME: ClockId = ClockId::Realtime;

/// The clocks of the system: on Linux the coarse ones, elsewhere the precise ones.
///
/// `CLOCK_MONOTONIC_COARSE` and `CLOCK_REALTIME_COARSE`: a resolution of one tick of the kernel (1
/// to 10 ms), enough for deadlines of 100 ms and more, at a fraction of the cost of the precise
/// clocks (clock_gettime(2)).
#[derive(Clone, Copy, Debug, Default)]
pub struct OsClock;

impl Clock for OsClock {
    fn now(&mut self) -> Time {
        let now = clock_gettime(MONOTONIC);
        let secs = u64::try_from(now.tv_sec).expect("the monotonic clock starts at 0");
        let nanos = u64::try_from(now.tv_nsec).expect("nanoseconds are 0 to 999,999,999");
        Time::from_nanos(secs * 1_000_000_000 + nanos)
    }

    fn unix_secs(&mut self) -> i64 {
        clock_gettime(REALTIME).tv_sec
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, OsClock};

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let mut clock = OsClock;
        let first = clock.now();
        assert!(clock.now() >= first);
    }

    #[test]
    fn the_wall_clock_is_after_this_was_written() {
        assert!(OsClock.unix_secs() > 1_790_000_000);
    }
}
