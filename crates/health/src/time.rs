//! A point in time, passed in by the caller: nanoseconds since an arbitrary origin.
//!
//! The caller reads a monotonic clock.

use std::time::Duration;

/// Nanoseconds since an origin chosen by the caller; only differences are meaningful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// The latest time, after every time that can occur; means "never".
    pub const MAX: Self = Self(u64::MAX);

    /// A time from nanoseconds since the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A time from whole seconds since the origin, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This time plus `duration`, saturating.
    pub const fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// This time minus `duration`, saturating at the origin.
    pub const fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }

    /// The time passed since `earlier`, zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

const fn nanos(duration: Duration) -> u64 {
    let secs = duration.as_secs().saturating_mul(1_000_000_000);
    secs.saturating_add(duration.subsec_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let start = Time::from_nanos(5);
        assert_eq!(start.after(Duration::from_nanos(7)).as_nanos(), 12);
        assert_eq!(start.after(Duration::MAX), Time::MAX);
        assert_eq!(start.before(Duration::from_nanos(2)).as_nanos(), 3);
        assert_eq!(start.before(Duration::MAX), Time::ZERO);
        assert_eq!(start.since(Time::from_nanos(2)), Duration::from_nanos(3));
        assert_eq!(start.since(Time::from_nanos(9)), Duration::ZERO);
        assert_eq!(Time::from_secs(u64::MAX), Time::MAX);
    }
}
