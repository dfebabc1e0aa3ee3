//! A point in time, passed in by the caller: nanoseconds since an arbitrary origin.
//!
//! The caller reads a clock.

use std::time::Duration;

/// Nanoseconds since an origin chosen by the caller; only differences are meaningful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// The latest time, after every time that can occur; means "no deadline".
    pub const MAX: Self = Self(u64::MAX);

    /// A time from nanoseconds since the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This time plus `duration`, saturating.
    #[inline]
    pub const fn after(self, duration: Duration) -> Self {
        // `Duration::as_nanos` returns 128 bits, but 64 bits suffice for all values that do not
        // saturate.
        const NANOS_PER_SEC: u64 = 1_000_000_000;
        if duration.as_secs() >= u64::MAX / NANOS_PER_SEC {
            return Self(u64::MAX);
        }
        Self(self.0.saturating_add(duration.as_secs() * NANOS_PER_SEC + duration.subsec_nanos() as u64))
    }

    /// The time passed since `earlier`, zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let start = Time::from_nanos(5);
        assert_eq!(start.after(Duration::from_nanos(7)).as_nanos(), 12);
        assert_eq!(start.after(Duration::MAX), Time::MAX);
        assert_eq!(start.since(Time::from_nanos(2)), Duration::from_nanos(3));
        assert_eq!(start.since(Time::from_nanos(9)), Duration::ZERO);
    }
}
