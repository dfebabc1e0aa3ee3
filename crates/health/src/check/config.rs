//! How one check is judged: thresholds, intervals, freshness, flap rule.
//!
//! Does not know about: what the check does, or its timeout, jitter and phase; those are the scheduler's.

use std::time::Duration;

use crate::error::ConfigError;
use crate::limits::{FLAP_TRANSITIONS_MAX, HISTORY_LEN_MAX};

/// What is believed before the first result. The words are HAProxy's `init-state`, with `unknown` added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initial {
    /// Down; the first result decides alone.
    Down,
    /// Down; `rise` successes are needed.
    FullyDown,
    /// Up; `fall` failures are needed.
    FullyUp,
    /// Nothing; the first result decides alone, as Envoy does at start.
    #[default]
    Unknown,
    /// Up; the first result decides alone.
    Up,
}

/// When a check that keeps changing is held down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlapRule {
    /// How far back changes between up and down are counted.
    pub window: Duration,
    /// Changes allowed in the window; one more is flapping.
    pub transitions_max: u32,
    /// How long after its last change a flapping check is held down.
    pub hold: Duration,
}

impl Default for FlapRule {
    fn default() -> Self {
        Self { window: Duration::from_mins(5), transitions_max: 6, hold: Duration::from_mins(1) }
    }
}

/// How one check is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConfig {
    /// From the start of one run to the start of the next. 5 s.
    pub interval: Duration,
    /// The same while the check is unknown, going up or going down (HAProxy's `fastinter`). 1 s.
    pub fast_interval: Duration,
    /// The same while it is down (HAProxy's `downinter`). 10 s.
    pub down_interval: Duration,
    /// Whether somebody else pushes the results: then no run is ever due.
    pub passive: bool,
    /// Consecutive successes from down to up. 2, as in HAProxy.
    pub rise: u32,
    /// Consecutive failures from up to down. 3, as in HAProxy.
    pub fall: u32,
    /// What is believed before the first result.
    pub initial: Initial,
    /// How old a result may be; `None` is three times the longest of the intervals.
    pub max_age: Option<Duration>,
    /// The flap rule, if there is one.
    pub flap: Option<FlapRule>,
    /// Results to remember. 200.
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
    /// A check whose results are pushed and hold for `ttl`, as Consul's TTL check: the last one decides alone, silence makes it stale.
    pub fn ttl(ttl: Duration) -> Self {
        Self { passive: true, rise: 1, fall: 1, max_age: Some(ttl), ..Self::default() }
    }

    /// How old a result may be.
    pub fn max_age(&self) -> Duration {
        let longest = self.interval.max(self.fast_interval).max(self.down_interval);
        self.max_age.unwrap_or_else(|| longest.saturating_mul(3))
    }

    /// # Errors
    /// The first rule that is broken.
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
