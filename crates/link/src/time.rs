//! Time of a link: microseconds on a clock that is never set back.
//!
//! Does not know about: where the time comes from.

use std::time::Duration;

/// A time in microseconds since 1970.
///
/// The time of day at the start of the program, plus the time since then on a monotonic clock: it
/// never steps, and the times of two programs differ by the difference of their clocks at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// A time from microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The time in microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time that is this much later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// Time since `earlier`; zero if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// This time minus another time, in microseconds. Times of a peer can be any number.
    pub(crate) fn minus(self, other: Self) -> i64 {
        let signed = |time: Self| i64::try_from(time.0).unwrap_or(i64::MAX);
        signed(self).saturating_sub(signed(other))
    }
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
