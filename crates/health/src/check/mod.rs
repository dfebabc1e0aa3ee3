//! One check. Input: results and the time. Output: its state and the start time of its next run.
//!
//! The state is based on a *settled* value: unknown, up or down. `rise` consecutive successes
//! settle the value up, `fall` consecutive failures settle it down. While the check is *undecided*,
//! a single success or failure settles the value. A check is undecided before its first success or
//! failure (unless [`Initial`] is fully up or fully down), and when its last result is too old. The
//! first matching row of this table determines the state:
//!
//! | state | condition |
//! |---|---|
//! | maintenance | declared, or reported by the last result unless this result is stale |
//! | stale | the last result, or an initial state without any result, is `max_age` old |
//! | unknown | reported by the last result |
//! | flapping | more than `transitions_max` changes in `window`, and less than `hold` since the last |
//! | unknown | the settled value is unknown |
//! | going down | settled up, and the last result was a failure |
//! | going up | settled down, and the last result was a success |
//! | degraded | settled up, and the last success included a warning |
//! | up | settled up |
//! | down | settled down |
//!
//! Results also count during maintenance and flapping, so that the state is correct afterwards.

mod config;
mod flap;
mod history;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use config::{CheckConfig, FlapRule, Initial};
pub use history::{Entry, History};
pub use state::{CheckResult, CheckState, Move, Outcome};

use crate::error::ConfigError;
use crate::maintenance::Maintenance;
use crate::reason::Reason;
use crate::time::Time;
use flap::Flap;

/// Whether the check is up or down according to `rise` and `fall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Down,
    Unknown,
    Up,
}

/// A check: its state, its recent results and the start time of its next run.
#[derive(Clone, Debug)]
pub struct Check {
    config: CheckConfig,
    settled: Settled,
    /// Whether a single success or failure decides next; [`is_undecided`](Self::is_undecided) also
    /// takes `stale` into account.
    undecided: bool,
    /// Whether the last success included a warning.
    degraded: bool,
    /// Whether the last result is too old and no newer one has arrived.
    stale: bool,
    successes: u32,
    failures: u32,
    /// Start of the freshness interval: the time of the last result or, without a result, of the
    /// check's creation.
    fresh_at: Time,
    flap: Option<Flap>,
    maintenance: Option<Maintenance>,
    state: CheckState,
    state_since: Time,
    last: Option<(Time, CheckResult<'static>)>,
    last_success_at: Option<Time>,
    reason: Reason,
    /// Number of times the reason changed.
    reasons: u32,
    history: History,
    next_due: Time,
    /// End of the wait for the first result. Until then, endpoints count the check in a provisional
    /// class (see [`Inheritance::Awaits`](crate::Inheritance::Awaits)). A result with
    /// [`Outcome::Unknown`] does not end the wait.
    awaited_until: Option<Time>,
}

impl Check {
    /// Creates a check. Its first run is due immediately, unless the check is passive.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn new(config: CheckConfig, now: Time) -> Result<Self, ConfigError> {
        config.validate()?;
        let settled = match config.initial {
            Initial::Down | Initial::FullyDown => Settled::Down,
            Initial::FullyUp | Initial::Up => Settled::Up,
            Initial::Unknown => Settled::Unknown,
        };
        let mut check = Self {
            settled,
            undecided: !matches!(config.initial, Initial::FullyDown | Initial::FullyUp),
            degraded: false,
            stale: false,
            successes: 0,
            failures: 0,
            fresh_at: now,
            flap: config.flap.map(Flap::new),
            maintenance: None,
            state: CheckState::Unknown,
            state_since: now,
            last: None,
            last_success_at: None,
            reason: Reason::default(),
            reasons: 0,
            history: History::new(config.history_len),
            next_due: if config.passive { Time::MAX } else { now },
            awaited_until: None,
            config,
        };
        check.state = check.derive();
        Ok(check)
    }

    /// Handles the passing of time: results become stale, holds and maintenance end.
    pub fn handle_time(&mut self, now: Time) -> Option<Move> {
        if now >= self.stale_at() {
            self.stale = true;
        }
        if let Some(flap) = &mut self.flap {
            flap.handle_time(now);
        }
        if self.maintenance.as_ref().is_some_and(|maintenance| maintenance.is_over(now)) {
            self.maintenance = None;
        }
        if self.awaited_until.is_some_and(|until| now >= until) {
            self.awaited_until = None;
        }
        self.settle_state(now)
    }

    /// Handles the result of a run that has just ended. Returns the change caused by the time that
    /// passed before, then the change caused by the result.
    pub fn handle_result(&mut self, result: &CheckResult<'_>, now: Time) -> [Option<Move>; 2] {
        let passed = self.handle_time(now);
        self.history.push(result, now);
        if self.reason.set(result.reason) {
            self.reasons = self.reasons.wrapping_add(1);
        }
        self.last = Some((now, CheckResult { reason: b"", ..*result }));
        self.fresh_at = now;
        self.undecided = self.is_undecided();
        self.stale = false;
        if result.outcome != Outcome::Unknown {
            self.awaited_until = None;
        }
        match result.outcome.is_success() {
            Some(true) => {
                self.last_success_at = Some(now);
                self.degraded = result.outcome == Outcome::Degraded;
                self.successes = self.successes.saturating_add(1);
                self.failures = 0;
                self.decide(Settled::Up, self.successes >= self.config.rise, now);
            }
            Some(false) => {
                self.failures = self.failures.saturating_add(1);
                self.successes = 0;
                self.decide(Settled::Down, self.failures >= self.config.fall, now);
            }
            None => {}
        }
        let moved = self.settle_state(now);
        self.next_due = self.due_after(result.latency, now);
        [passed, moved]
    }

    /// Begins declared maintenance or, with `None`, ends it.
    pub fn set_maintenance(&mut self, maintenance: Option<Maintenance>, now: Time) -> Option<Move> {
        self.maintenance = maintenance;
        self.handle_time(now)
    }

    /// Takes over the state of a previous check of the same target. The results of the previous
    /// check are judged by this check's thresholds and `max_age`. Declared maintenance is not taken
    /// over.
    ///
    /// A lower threshold takes effect immediately. A higher threshold does not revert a decision.
    pub(crate) fn inherit(&mut self, predecessor: &Self, now: Time) {
        let (was, since) = (self.state, self.state_since);
        let config = self.config.clone();
        let flap = config.flap.map(|rule| match &predecessor.flap {
            Some(flap) => flap.under(rule, now),
            None => Flap::new(rule),
        });
        let is_judged_anew = predecessor.config != config;
        let history = predecessor.history.resized(config.history_len);
        let maintenance = self.maintenance.take();
        *self = Self { config, flap, history, maintenance, ..predecessor.clone() };
        if is_judged_anew {
            if self.failures >= self.config.fall {
                self.decide(Settled::Down, true, now);
            } else if self.successes >= self.config.rise {
                self.decide(Settled::Up, true, now);
            }
            // `handle_time`, called below, sets `stale` again if the last result is too old for the
            // new `max_age`.
            self.stale = false;
        }
        if self.maintenance.is_some() && was == CheckState::Maintenance {
            (self.state, self.state_since) = (was, since);
        }
        let _unreported = self.handle_time(now);
        if is_judged_anew && let Some((at, last)) = self.last {
            self.next_due = self.due_after(last.latency, at);
        }
    }

    /// Lets endpoints count the check in a provisional class until its first result, but at most
    /// until `until`.
    pub(crate) fn await_until(&mut self, until: Time) {
        self.awaited_until = self.last.is_none().then_some(until);
    }

    /// End of the wait for the first result.
    pub(crate) const fn awaited_until(&self) -> Option<Time> {
        self.awaited_until
    }

    /// Whether a single success or failure decides next, because there was none before or the last
    /// result is too old.
    const fn is_undecided(&self) -> bool {
        self.undecided || self.stale
    }

    fn decide(&mut self, side: Settled, enough: bool, now: Time) {
        if !enough && !self.undecided {
            return;
        }
        let before = std::mem::replace(&mut self.settled, side);
        self.undecided = false;
        if before != side
            && before != Settled::Unknown
            && let Some(flap) = &mut self.flap
        {
            flap.handle_change(now);
        }
    }

    fn settle_state(&mut self, now: Time) -> Option<Move> {
        let to = self.derive();
        let from = std::mem::replace(&mut self.state, to);
        (from != to).then(|| {
            self.state_since = now;
            Move { from, to }
        })
    }

    fn derive(&self) -> CheckState {
        if self.maintenance.is_some() {
            return CheckState::Maintenance;
        }
        // Stale has priority over maintenance that the target reported, because the target may no
        // longer exist.
        if self.stale {
            return CheckState::Stale;
        }
        match self.last_outcome() {
            Some(Outcome::Maintenance) => return CheckState::Maintenance,
            Some(Outcome::Unknown) => return CheckState::Unknown,
            _ => {}
        }
        if self.flap.as_ref().is_some_and(|flap| flap.held_until().is_some()) {
            return CheckState::Flapping;
        }
        match self.settled {
            Settled::Unknown => CheckState::Unknown,
            Settled::Up if self.failures > 0 => CheckState::GoingDown,
            Settled::Up if self.degraded => CheckState::Degraded,
            Settled::Up => CheckState::Up,
            Settled::Down if self.successes > 0 => CheckState::GoingUp,
            Settled::Down => CheckState::Down,
        }
    }

    /// The time when the last result becomes too old; [`Time::MAX`] if no result can expire.
    fn stale_at(&self) -> Time {
        if self.stale || (self.settled == Settled::Unknown && self.last.is_none()) {
            Time::MAX
        } else {
            self.fresh_at.after(self.config.max_age())
        }
    }

    /// Intervals are measured from start to start, so that a slow run does not shift later runs.
    /// After a run that was longer than the interval, the next run is due immediately.
    fn due_after(&self, latency: Duration, now: Time) -> Time {
        if self.config.passive {
            return Time::MAX;
        }
        now.before(latency).after(self.interval()).max(now)
    }

    /// The current interval: fast while the check is unknown, stale, going up or going down, slow
    /// while it is down. Maintenance and holds do not change the interval.
    pub fn interval(&self) -> Duration {
        match self.settled {
            _ if self.last_outcome() == Some(Outcome::Unknown) => self.config.fast_interval,
            Settled::Down if self.successes == 0 && !self.is_undecided() => self.config.down_interval,
            Settled::Up if self.failures == 0 && !self.is_undecided() => self.config.interval,
            Settled::Down | Settled::Unknown | Settled::Up => self.config.fast_interval,
        }
    }

    /// The start time of the next run; [`Time::MAX`] for a passive check. The scheduler adds a
    /// fixed offset and random jitter.
    pub const fn next_due(&self) -> Time {
        self.next_due
    }

    /// The time at which the state may change without a result.
    pub fn deadline(&self) -> Time {
        let held_until = self.flap.as_ref().and_then(Flap::held_until).unwrap_or(Time::MAX);
        let maintained_until = self.maintenance.as_ref().and_then(|m| m.until).unwrap_or(Time::MAX);
        let awaited_until = self.awaited_until.unwrap_or(Time::MAX);
        self.stale_at().min(held_until).min(maintained_until).min(awaited_until)
    }

    /// The current state.
    pub const fn state(&self) -> CheckState {
        self.state
    }

    /// The time of the last change of state.
    pub const fn state_since(&self) -> Time {
        self.state_since
    }

    /// The rules by which the check is judged.
    pub const fn config(&self) -> &CheckConfig {
        &self.config
    }

    /// Whether the check is up according to `rise`, `fall` and `initial`, regardless of its current
    /// state. Endpoints may keep this value for a stale check.
    pub fn is_settled_up(&self) -> bool {
        self.settled == Settled::Up
    }

    /// The outcome of the last run.
    pub fn last_outcome(&self) -> Option<Outcome> {
        self.last.map(|(_, last)| last.outcome)
    }

    /// Whether the last success included a warning.
    pub const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Successes since the last failure.
    pub const fn consecutive_successes(&self) -> u32 {
        self.successes
    }

    /// Failures since the last success.
    pub const fn consecutive_failures(&self) -> u32 {
        self.failures
    }

    /// Time and content of the last result; its reason is in [`reason`](Self::reason).
    pub const fn last(&self) -> Option<(Time, CheckResult<'static>)> {
        self.last
    }

    /// Time of the last success.
    pub const fn last_success_at(&self) -> Option<Time> {
        self.last_success_at
    }

    /// A counter that increases when the reason changes.
    pub(crate) const fn reasons(&self) -> u32 {
        self.reasons
    }

    /// The reason of the declared maintenance or, without maintenance, of the last result; may be
    /// empty.
    pub fn reason(&self) -> &str {
        match &self.maintenance {
            Some(maintenance) => maintenance.reason.as_str(),
            None => self.reason.as_str(),
        }
    }

    /// The declared maintenance.
    pub const fn maintenance(&self) -> Option<&Maintenance> {
        self.maintenance.as_ref()
    }

    /// The stored results.
    pub const fn history(&self) -> &History {
        &self.history
    }
}
