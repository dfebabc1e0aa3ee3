//! Which requests the log shows.
//!
//! Does not know about: how they read.

use std::num::NonZeroU32;

/// What is shown. Errors are requests answered with status 400 or above, refused, or not answered at all; they are never sampled away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    level: Level,
    one_in: Option<NonZeroU32>,
}

/// How much is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing, not even errors.
    Off,
    /// Errors, and a sample of the rest if asked for; probes that succeed never.
    #[default]
    Errors,
    /// Every request, probes as well.
    All,
}

impl Filter {
    /// Nothing.
    pub const OFF: Self = Self::new(Level::Off);
    /// Errors only: the default.
    pub const ERRORS: Self = Self::new(Level::Errors);
    /// Everything.
    pub const ALL: Self = Self::new(Level::All);

    /// Without sampling.
    pub const fn new(level: Level) -> Self {
        Self { level, one_in: None }
    }

    /// Of the requests that are no errors, each `n`-th. With [`Level::Errors`] those are counted that are no probes, with [`Level::All`] all of them.
    #[must_use]
    pub const fn one_in(mut self, n: NonZeroU32) -> Self {
        self.one_in = Some(n);
        self
    }

    /// How much is shown.
    pub const fn level(self) -> Level {
        self.level
    }

    /// Whether nothing is ever shown.
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

/// What is shown of requests that are no errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Successes {
    All,
    None,
    OneIn { n: NonZeroU32, probes: bool },
}
