//! A clock that stands still, for source files that read the time.

pub(crate) use doorbell_http::Time;

/// A source of the time.
pub(crate) trait Clock {
    /// The time now.
    fn now(&self) -> Time;
}

/// The clock of the models.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OsClock;

impl Clock for OsClock {
    fn now(&self) -> Time {
        Time::ZERO
    }
}
