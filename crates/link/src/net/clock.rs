//! The clock of a link.

use crate::time::{Time, micros};
use std::time::Duration;
use tokio::time::Instant;

/// A clock that starts at the time of day and never steps.
#[derive(Clone, Copy, Debug)]
pub struct LinkClock {
    base_us: u64,
    start: Instant,
}

impl LinkClock {
    /// Starts a clock. `time_of_day` is the time since 1970.
    #[must_use]
    pub fn start(time_of_day: Duration) -> Self {
        Self { base_us: micros(time_of_day), start: Instant::now() }
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::from_micros(self.base_us).after(self.start.elapsed())
    }

    /// Converts a time of this clock to an instant at most one day ahead.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        let day = Duration::from_secs(86_400);
        Instant::now() + time.since(self.now()).min(day)
    }
}
