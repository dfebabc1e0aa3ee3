//! How a check of the program runs, and how its results count.
//!
//! Does not know about: what a check does.

use std::time::Duration;

use doorbell_health::{CheckConfig, Severity};

/// Longest default timeout of a run.
const TIMEOUT_USUAL_MAX: Duration = Duration::from_secs(1);

/// How a check runs, and how its results count. Required by default.
#[derive(Clone, Debug)]
#[must_use = "it is passed to `HealthBuilder::check`"]
pub struct Check {
    pub(crate) config: CheckConfig,
    pub(crate) severity: Severity,
    pub(crate) timeout: Duration,
    pub(crate) jitter: u32,
}

/// How long a pushed result is valid, and how it counts. Required by default.
#[derive(Clone, Debug)]
#[must_use = "it is passed to `HealthBuilder::push`"]
pub struct Ttl {
    pub(crate) config: CheckConfig,
    pub(crate) severity: Severity,
}

impl Check {
    /// Runs at this interval, from the start of one run to the start of the next. While the state
    /// is changing or unknown, the interval is at most 1 s. While the check is down, the interval
    /// is doubled.
    pub fn every(interval: Duration) -> Self {
        Self {
            config: CheckConfig::every(interval),
            severity: Severity::Required,
            timeout: interval.min(TIMEOUT_USUAL_MAX),
            jitter: 10,
        }
    }

    /// Consecutive successes from down to up. Default 2.
    pub const fn rise(mut self, successes: u32) -> Self {
        self.config.rise = successes;
        self
    }

    /// Consecutive failures from up to down. Default 3.
    pub const fn fall(mut self, failures: u32) -> Self {
        self.config.fall = failures;
        self
    }

    /// Maximum time of a run; it then fails, and its future is dropped. Default 1 s, at most the
    /// interval.
    pub const fn timeout(mut self, time: Duration) -> Self {
        self.timeout = time;
        self
    }

    /// Maximum random delay of a run in percent of the interval, at most 50. Default 10.
    pub const fn jitter(mut self, percent: u32) -> Self {
        self.jitter = percent;
        self
    }

    /// While it is down, the program is not ready. The default.
    pub const fn required(mut self) -> Self {
        self.severity = Severity::Required;
        self
    }

    /// While it is down, the program is degraded and stays ready. For dependencies that other
    /// replicas share.
    pub const fn degrading(mut self) -> Self {
        self.severity = Severity::Degrading;
        self
    }

    /// It is only shown.
    pub const fn info(mut self) -> Self {
        self.severity = Severity::Info;
        self
    }

    /// All settings of the check. Changes them with a function, for those without a method here.
    pub fn with(mut self, change: impl FnOnce(&mut CheckConfig)) -> Self {
        change(&mut self.config);
        self
    }
}

impl Ttl {
    /// A result is valid for this time; without a newer one the check is then down.
    pub fn of(time: Duration) -> Self {
        Self { config: CheckConfig::ttl(time), severity: Severity::Required }
    }

    /// See [`Check::required`]. The default.
    pub const fn required(mut self) -> Self {
        self.severity = Severity::Required;
        self
    }

    /// See [`Check::degrading`].
    pub const fn degrading(mut self) -> Self {
        self.severity = Severity::Degrading;
        self
    }

    /// See [`Check::info`].
    pub const fn info(mut self) -> Self {
        self.severity = Severity::Info;
        self
    }
}
