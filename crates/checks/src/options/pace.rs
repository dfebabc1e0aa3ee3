//! When a check runs and how its results become states: the keys that `[check.NAME]` shares with
//! `[check_defaults]`.

use doorbell_config::{Problem, Section, Table, format_duration};
use doorbell_health::limits::{FLAP_TRANSITIONS_MAX, HISTORY_LEN_MAX};
use doorbell_health::{FlapRule, Initial};
use std::time::Duration;

const INITIALS: [(&str, Initial); 5] = [
    ("down", Initial::Down),
    ("fully-down", Initial::FullyDown),
    ("fully-up", Initial::FullyUp),
    ("unknown", Initial::Unknown),
    ("up", Initial::Up),
];

const HISTORY_MAX: u32 = 4096;
const _: () = assert!(HISTORY_MAX as usize == HISTORY_LEN_MAX);

/// When a check runs and how its results become states.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::complete, useless = Self::useless)]
pub struct Pace {
    /// Time from the start of one run to the start of the next.
    #[key(default = "5s", range = "100ms..=1d", shown)]
    pub interval: Duration,
    /// Replaces `interval` while the check is going up or down, unknown or stale, and until the
    /// first success. Default: 1s, at most `interval`.
    #[key(range = "100ms..=1d", default_with = Self::default_fast_interval)]
    pub fast_interval: Duration,
    /// Replaces `interval` while the check is down. Default: twice `interval`.
    #[key(range = "100ms..=1d", default_with = Self::default_down_interval)]
    pub down_interval: Duration,
    /// Maximum time of a run. Default: 1s, at most `interval`.
    #[key(range = "1ms..=10m", default_with = Self::default_timeout)]
    pub timeout: Duration,
    /// Maximum time until a connection is established. Default: `timeout`.
    #[key(range = "1ms..=10m", default_with = Self::default_connect_timeout)]
    pub connect_timeout: Duration,
    // At most half of an interval, so that a run stays within its own interval.
    /// Maximum random delay of a run, in percent of the interval.
    #[key(default = 10, range = 0..=50)]
    pub jitter: u32,
    // Shown, because the default of some kinds of checks is 1.
    /// Consecutive successes from down to up.
    #[key(default = 2, range = 1..=1000, shown)]
    pub rise: u32,
    /// Consecutive failures from up to down.
    #[key(default = 3, range = 1..=1000, shown)]
    pub fall: u32,
    /// State before the first result. With unknown, up and down, the first result determines the
    /// state; with fully-up and fully-down, `fall` failures or `rise` successes are needed to
    /// change it.
    #[key(default = "unknown", words = INITIALS)]
    pub initial: Initial,
    /// Maximum age of a result; see `on_stale`. Default: three times the longest of the intervals
    /// and `timeout`. With `cache`, unless the check itself sets `interval`, also at least three
    /// times `cache`, and at least 1m.
    #[key(range = "100ms..=30d", default_with = Self::default_max_age)]
    pub max_age: Duration,
    /// Flap detection: a check whose state changes too often is held down; off disables it.
    #[key(default = "off", with = flap)]
    pub flap: Option<FlapRule>,
    /// Number of results that are kept.
    #[key(default = 200, range = 0..=HISTORY_MAX)]
    pub history: u32,
    /// Age of the last run above which a probe triggers a run. Probes do not wait for the run, and
    /// further probes do not trigger another. Without probes, the check runs before `max_age` is
    /// over. Default: the check runs by `interval`.
    #[key(range = "100ms..=1d")]
    pub cache: Option<Duration>,
    /// True: the check runs at every `interval`. False: it runs when a probe triggers a run
    /// (`cache`), or when its last result would otherwise exceed `max_age`.
    #[key(skip = true)]
    pub is_scheduled: bool,
}

/// Flap detection: permitted changes of the state, and time for which the check is held down.
#[derive(Clone, Debug, Table)]
struct Flap {
    /// Time in which changes are counted.
    #[key(default = "5m", range = "100ms..=30d")]
    window: Duration,
    /// Maximum number of changes within `window`.
    #[key(default = 6, range = 1..=FLAP_TRANSITIONS_MAX)]
    max_transitions: u32,
    /// Time for which the check is held down.
    #[key(default = "1m", range = "100ms..=30d")]
    hold: Duration,
}

impl Pace {
    /// The default pace for an interval: `rise` 2, `fall` 3, a jitter of 10 %, unknown before the
    /// first result, no flap detection. The other times follow from the interval as described at
    /// each field, so pass the interval here instead of setting the field `interval`.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        let mut pace = Self { interval, ..Self::default() };
        pace.timeout = pace.default_timeout();
        pace.connect_timeout = pace.default_connect_timeout();
        pace.fast_interval = pace.default_fast_interval();
        pace.down_interval = pace.default_down_interval();
        pace.max_age = pace.default_max_age();
        pace
    }

    /// The default pace of a check whose results are pushed and valid for `ttl`: the last result
    /// determines the state, as in Consul.
    #[must_use]
    pub fn pushed(ttl: Duration) -> Self {
        Self { rise: 1, fall: 1, max_age: ttl, ..Self::default() }
    }

    /// The default pace of a check that follows a state of this program: every second, also while it
    /// is down, and each result changes the state.
    #[must_use]
    pub fn following() -> Self {
        let mut pace = Self { rise: 1, fall: 1, ..Self::every(Duration::from_secs(1)) };
        pace.down_interval = pace.interval;
        pace.max_age = pace.default_max_age();
        pace
    }

    /// The default of `max_age`: three times the longest of the intervals and `timeout`. If the
    /// check only runs on demand, also at least three times `cache`, and at least a minute.
    #[must_use]
    pub fn default_max_age(&self) -> Duration {
        let age = self.longest_gap().saturating_mul(3);
        match self.cache {
            Some(cache) if !self.is_scheduled => {
                age.max(cache.saturating_mul(3)).max(Duration::from_secs(60))
            }
            _ => age,
        }
    }

    /// The longest usual time between two results of scheduled runs.
    fn longest_gap(&self) -> Duration {
        self.interval.max(self.fast_interval).max(self.down_interval).max(self.timeout)
    }

    fn default_fast_interval(&self) -> Duration {
        self.interval.min(Duration::from_secs(1))
    }

    fn default_down_interval(&self) -> Duration {
        self.interval.saturating_mul(2)
    }

    fn default_timeout(&self) -> Duration {
        self.interval.min(Duration::from_secs(1))
    }

    fn default_connect_timeout(&self) -> Duration {
        self.timeout
    }

    fn complete(&mut self, at: &Section<'_>) {
        // With `cache`, an interval from `[check_defaults]` does not schedule runs.
        self.is_scheduled = self.cache.is_none() || at.is_own("interval");
        if !at.has_valid("max_age") {
            self.max_age = self.default_max_age();
        }
    }

    /// Ignores a `cache` that the check does not set itself.
    pub(super) fn run_by_interval(&mut self, at: &Section<'_>) {
        if at.is_own("cache") {
            return;
        }
        (self.cache, self.is_scheduled) = (None, true);
        if !at.has_valid("max_age") {
            self.max_age = self.default_max_age();
        }
    }

    /// Sets the defaults of a check that follows a state of this program: those of
    /// [`Self::following`]. No target is spared by longer intervals while it is down.
    pub(super) fn follow(&mut self, at: &Section<'_>) {
        if !at.has_valid("interval") {
            self.interval = Self::following().interval;
        }
        if !at.has_valid("fast_interval") {
            self.fast_interval = self.default_fast_interval();
        }
        if !at.has_valid("down_interval") {
            self.down_interval = self.interval;
        }
        if !at.has_valid("max_age") {
            self.max_age = self.default_max_age();
        }
    }

    /// With `cache`, an interval from `[check_defaults]` does not schedule runs and is not shown.
    fn useless(&self) -> &'static [&'static str] {
        if self.is_scheduled { &[] } else { &["interval"] }
    }

    /// Warns about times that contradict each other.
    pub(super) fn check(&self, at: &Section<'_>) {
        let place = |keys: [&str; 2]| keys.into_iter().find_map(|key| at.place(key)).unwrap_or_default();
        let is_written = at.place("timeout").is_some();
        if is_written && self.is_scheduled && self.timeout >= self.interval {
            let message = format!(
                "a run may take {}, and the next is due after {}",
                format_duration(self.timeout),
                format_duration(self.interval)
            );
            let at_key = if at.is_own("interval") && !at.is_own("timeout") { "interval" } else { "timeout" };
            at.problem_once(
                Problem::warning("timeout-over-interval", place([at_key, "timeout"]), message)
                    .help("a check never runs twice at once, so runs are delayed; make `timeout` shorter"),
            );
        }
        if self.connect_timeout > self.timeout {
            let at_key = if at.is_own("timeout") && !at.is_own("connect_timeout") {
                "timeout"
            } else {
                "connect_timeout"
            };
            let message = "`connect_timeout` is longer than `timeout`, which limits the whole run";
            let problem = Problem::warning("no-effect", place([at_key, "connect_timeout"]), message);
            at.problem_once(problem.help("remove it, or make it shorter"));
        }
        let longest = match self.cache {
            Some(cache) if !self.is_scheduled => cache,
            // Runs follow a grid: after the first run and after a change of the interval, the next
            // one may be half an interval late. Jitter is added.
            _ => self.longest_gap() * (150 + self.jitter) / 100,
        };
        if self.max_age < longest {
            let message = format!(
                "a result is too old after {}, and the next may arrive after {}",
                format_duration(self.max_age),
                format_duration(longest)
            );
            at.problem_once(
                Problem::warning("max-age-under-interval", place(["max_age", "interval"]), message)
                    .help("the check would be stale between its runs; make `max_age` longer"),
            );
        }
    }
}

/// Form of `flap`: a table, or off.
mod flap {
    use super::{Flap, FlapRule};
    use doorbell_config::{Entry, Json, Key, Table, form};

    pub(super) fn read(entry: &Entry<'_>) -> Option<Option<FlapRule>> {
        if entry.is_word("off")? {
            return Some(None);
        }
        let Flap { window, max_transitions, hold } = entry.read_table()?;
        Some(Some(FlapRule { window, transitions_max: max_transitions, hold }))
    }

    #[expect(clippy::ref_option, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(rule: &Option<FlapRule>) -> Option<Json> {
        let Some(FlapRule { window, transitions_max, hold }) = *rule else { return Some("off".into()) };
        Some(Flap { window, max_transitions: transitions_max, hold }.to_json(true))
    }

    pub(super) fn form(_: &Key) -> Json {
        form::either(&[Flap::schema(), form::words(&["off"])])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_a_result_outlives_two_missed_runs() {
        let [second, minute] = [Duration::from_secs(1), Duration::from_mins(1)];
        let slow = Pace { timeout: minute, ..Pace::every(second) };
        let on_demand = Pace { is_scheduled: false, cache: Some(minute), ..Pace::every(second) };
        for (pace, max_age) in
            [(Pace::every(second), 6 * second), (slow, 3 * minute), (on_demand, 3 * minute)]
        {
            assert_eq!(pace.default_max_age(), max_age, "{pace:?}");
        }
        let cache = Some(Duration::MAX);
        let longest = Pace { is_scheduled: false, cache, ..Pace::every(Duration::MAX) };
        assert_eq!([longest.default_max_age(), longest.down_interval], [Duration::MAX; 2]);
    }

    #[test]
    fn by_default_a_run_ends_before_the_next_is_due() {
        for (interval, timeout) in [(200, 200), (5_000, 1_000)] {
            let pace = Pace::every(Duration::from_millis(interval));
            let timeout = Duration::from_millis(timeout);
            assert_eq!([pace.timeout, pace.connect_timeout], [timeout; 2], "{pace:?}");
        }
    }
}
