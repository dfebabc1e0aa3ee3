//! Rules for judging one check: thresholds, intervals, freshness, flap rule.

use std::time::Duration;

use crate::error::ConfigError;
use crate::limits::{FLAP_TRANSITIONS_MAX, HISTORY_LEN_MAX};

/// State before the first result.
///
/// The names are those of HAProxy's `init-state`, plus `unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initial {
    /// Down; a single result decides.
    Down,
    /// Down until `rise` consecutive successes.
    FullyDown,
    /// Up until `fall` consecutive failures.
    FullyUp,
    /// Unknown; a single result decides, as in Envoy at its start.
    #[default]
    Unknown,
    /// Up; a single result decides.
    Up,
}

/// Rule that holds a check down while its state keeps changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlapRule {
    /// Time window in which changes between up and down are counted. Default 300 s.
    pub window: Duration,
    /// Maximum number of changes in the window; one more counts as flapping. Default 6.
    pub transitions_max: u32,
    /// Time for which a flapping check is held down after its last change. Default 60 s.
    pub hold: Duration,
}

impl Default for FlapRule {
    fn default() -> Self {
        Self { window: Duration::from_secs(300), transitions_max: 6, hold: Duration::from_secs(60) }
    }
}

/// Rules for judging one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConfig {
    /// Time from the start of one run to the start of the next. Default 5 s.
    pub interval: Duration,
    /// Interval while the check is unknown, stale, going up or going down (HAProxy's `fastinter`).
    /// Default 1 s.
    pub fast_interval: Duration,
    /// Interval while the check is down (HAProxy's `downinter`). Default 10 s.
    pub down_interval: Duration,
    /// Whether results are pushed from outside, so that no runs are scheduled. Default false.
    pub passive: bool,
    /// Consecutive successes that make the check up. Default 2, as in HAProxy.
    pub rise: u32,
    /// Consecutive failures that make the check down. Default 3, as in HAProxy.
    pub fall: u32,
    /// State before the first result. Default unknown.
    pub initial: Initial,
    /// Maximum age of a result. If it is shorter than the time between two results, the check is
    /// stale in between. Default `None`: three times the longest interval.
    pub max_age: Option<Duration>,
    /// Rule against flapping. Default `None`, which disables it.
    pub flap: Option<FlapRule>,
    /// Number of results to store. Default 200.
    pub history_len: usize,
}

impl Default for CheckConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            fast_interval: Duration::from_secs(1),
            down_interval: Duration::from_secs(10),
            passive: false,
            rise: 2,
            fall: 3,
            initial: Initial::Unknown,
            max_age: None,
            flap: None,
            history_len: 200,
        }
    }
}

impl CheckConfig {
    /// A check that runs at this interval. The interval is at most 1 s while the check is unknown,
    /// stale, going up or going down, and is doubled while the check is down.
    pub fn every(interval: Duration) -> Self {
        let fast_interval = interval.min(Duration::from_secs(1));
        Self { interval, fast_interval, down_interval: interval.saturating_mul(2), ..Self::default() }
    }

    /// A check whose results are pushed and valid for `ttl`, like Consul's TTL check. The last
    /// result alone decides; without results for `ttl` the check becomes stale.
    pub fn ttl(ttl: Duration) -> Self {
        Self { passive: true, rise: 1, fall: 1, max_age: Some(ttl), ..Self::default() }
    }

    /// Maximum age of a result.
    pub fn max_age(&self) -> Duration {
        let longest = self.interval.max(self.fast_interval).max(self.down_interval);
        self.max_age.unwrap_or_else(|| longest.saturating_mul(3))
    }

    /// Validates the rules.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.rise == 0 || self.fall == 0 {
            return Err(ConfigError::Threshold);
        }
        let intervals = [self.interval, self.fast_interval, self.down_interval, self.max_age()];
        if intervals.contains(&Duration::ZERO) {
            return Err(ConfigError::Interval);
        }
        if self.history_len > HISTORY_LEN_MAX {
            return Err(ConfigError::HistoryLen);
        }
        match &self.flap {
            Some(rule)
                if rule.window.is_zero()
                    || rule.hold.is_zero()
                    || !(1..=FLAP_TRANSITIONS_MAX).contains(&rule.transitions_max) =>
            {
                Err(ConfigError::Flap)
            }
            _ => Ok(()),
        }
    }
}
