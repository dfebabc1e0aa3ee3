//! Options of the program's checks: schedule, thresholds, severity.

use std::time::Duration;

use doorbell_health::{CheckConfig, Severity};

/// Upper bound of the default timeout of a run.
const TIMEOUT_DEFAULT_MAX: Duration = Duration::from_secs(1);

/// Options of a check that calls a function: schedule, thresholds, severity. Required by default.
///
/// `checks::Check` (feature `checks`) is a check of a built-in kind.
#[derive(Clone, Debug)]
#[must_use = "it is passed to `HealthBuilder::check`"]
pub struct Check {
    pub(crate) config: CheckConfig,
    pub(crate) severity: Severity,
    pub(crate) timeout: Duration,
    pub(crate) jitter: u32,
}

/// Options of a check with pushed results: validity and severity. Required by default.
#[derive(Clone, Debug)]
#[must_use = "it is passed to `HealthBuilder::push`"]
pub struct Ttl {
    pub(crate) config: CheckConfig,
    pub(crate) severity: Severity,
}

impl Check {
    /// Runs at this interval, from start to start: at most 1 s while the state is changing or
    /// unknown, doubled while the check is down. Before the first result it counts as down.
    pub fn every(interval: Duration) -> Self {
        Self {
            config: CheckConfig::every(interval),
            severity: Severity::Required,
            timeout: interval.min(TIMEOUT_DEFAULT_MAX),
            jitter: 10,
        }
    }

    /// Number of consecutive successes that change a check from down to up. Default 2.
    pub const fn rise(mut self, successes: u32) -> Self {
        self.config.rise = successes;
        self
    }

    /// Number of consecutive failures that change a check from up to down. Default 3.
    pub const fn fall(mut self, failures: u32) -> Self {
        self.config.fall = failures;
        self
    }

    /// Maximum time of a run. A longer run fails, and its future is dropped. Default: the interval,
    /// at most 1 s.
    pub const fn timeout(mut self, time: Duration) -> Self {
        self.timeout = time;
        self
    }

    /// Maximum random delay of a run in percent of the interval, at most 50. Default 10.
    pub const fn jitter(mut self, percent: u32) -> Self {
        self.jitter = percent;
        self
    }

    /// While the check is down, the program is not ready. The default.
    pub const fn required(mut self) -> Self {
        self.severity = Severity::Required;
        self
    }

    /// While the check is down, the program is degraded and stays ready. For dependencies that all
    /// replicas share.
    pub const fn degrading(mut self) -> Self {
        self.severity = Severity::Degrading;
        self
    }

    /// The check is shown but does not change the state of the program.
    pub const fn info(mut self) -> Self {
        self.severity = Severity::Info;
        self
    }

    /// Changes settings that have no method here, such as the state before the first result.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use doorbell_tokio::{Check, Initial};
    ///
    /// let check = Check::every(Duration::from_secs(5)).with(|config| config.initial = Initial::Up);
    /// # let _ = check;
    /// ```
    pub fn with(mut self, change: impl FnOnce(&mut CheckConfig)) -> Self {
        change(&mut self.config);
        self
    }
}

impl Ttl {
    /// A check whose results are valid for `time`. Without a valid result, as at the start, it
    /// counts as down.
    pub fn of(time: Duration) -> Self {
        Self { config: CheckConfig::ttl(time), severity: Severity::Required }
    }

    /// While the check is down, the program is not ready. The default.
    pub const fn required(mut self) -> Self {
        self.severity = Severity::Required;
        self
    }

    /// While the check is down, the program is degraded and stays ready.
    pub const fn degrading(mut self) -> Self {
        self.severity = Severity::Degrading;
        self
    }

    /// The check is shown but does not change the state of the program.
    pub const fn info(mut self) -> Self {
        self.severity = Severity::Info;
        self
    }
}
