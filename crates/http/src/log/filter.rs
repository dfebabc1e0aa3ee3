//! Selection of the requests to log.

use std::num::NonZeroU32;

/// Selects the requests to log.
///
/// Errors are requests that got a status of 400 or above, were refused, or got neither a reply nor
/// a hand-over. Sampling never drops errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    level: Level,
    one_in: Option<NonZeroU32>,
}

/// The log level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// No requests, not even errors.
    Off,
    /// Errors and, if configured, a sample of the other requests, but never successful probes.
    #[default]
    Errors,
    /// All requests, including probes. If a sample is configured: all errors, and a sample of the
    /// other requests.
    All,
}

impl Filter {
    /// Logs no requests.
    pub const OFF: Self = Self::new(Level::Off);
    /// Logs errors only: the default.
    pub const ERRORS: Self = Self::new(Level::Errors);
    /// Logs all requests.
    pub const ALL: Self = Self::new(Level::All);

    /// Creates a filter without sampling.
    pub const fn new(level: Level) -> Self {
        Self { level, one_in: None }
    }

    /// Logs every `n`-th request that is not an error. With [`Level::Errors`], successful probes
    /// are neither logged nor counted.
    #[must_use]
    pub const fn one_in(mut self, n: NonZeroU32) -> Self {
        self.one_in = Some(n);
        self
    }

    /// The log level.
    pub const fn level(self) -> Level {
        self.level
    }

    /// Whether no request is ever logged.
    #[inline]
    pub const fn is_off(self) -> bool {
        matches!(self.level, Level::Off)
    }

    #[inline]
    pub(super) const fn successes(self) -> Successes {
        match (self.level, self.one_in) {
            (Level::Off, _) | (Level::Errors, None) => Successes::None,
            (Level::All, None) => Successes::All,
            (Level::All, Some(n)) => Successes::OneIn { n, probes: true },
            (Level::Errors, Some(n)) => Successes::OneIn { n, probes: false },
        }
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::ERRORS
    }
}

/// Selection of successful requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Successes {
    All,
    None,
    OneIn { n: NonZeroU32, probes: bool },
}
