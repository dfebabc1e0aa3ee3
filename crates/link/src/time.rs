//! Time of a link: microseconds on a clock that is never set back.

use std::time::Duration;

/// A time in microseconds since 1970.
///
/// The time of day at the start of the program, plus the time since then on a monotonic clock. It
/// never steps. The times of two programs differ by the errors of their clocks when each program
/// started, plus the drift since then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Creates a time from microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns the time in microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the time `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Returns this time minus another time, in microseconds. Times from a peer can be any number.
    pub(crate) fn minus(self, other: Self) -> i64 {
        let signed = |time: Self| i64::try_from(time.0).unwrap_or(i64::MAX);
        signed(self).saturating_sub(signed(other))
    }
}

/// Converts a duration to microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
