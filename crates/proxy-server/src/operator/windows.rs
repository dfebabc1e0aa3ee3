//! Recurring maintenance windows, and which of them are open.

use super::maintenance::Hold;
use doorbell_probes::endpoint_target;
use doorbell_proxy_config::model::Config;
use doorbell_proxy_config::{Schedule, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum time between two calls of [`Windows::evaluate`], because the time of day may jump.
const EVALUATE_INTERVAL: Duration = Duration::from_secs(30);

/// Minimum step of the time of day; smaller changes count as slewing.
const CLOCK_STEP_MIN: Duration = Duration::from_secs(1);

/// A `[[maintenance.window]]`, with the names of its endpoints.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Window {
    schedule: Schedule,
    length: Duration,
    targets: Vec<String>,
    reason: String,
}

/// All windows, and which of them are open.
#[derive(Debug, Default)]
pub(super) struct Windows {
    all: Vec<Window>,
    /// Open windows by target.
    open: BTreeMap<String, Open>,
    ended: BTreeSet<EndedWindow>,
    /// Time of the next [`Self::evaluate`], as the time since the start of the program.
    evaluate_at: Option<Duration>,
}

/// An occurrence of a window that an operator ended early for one target. It does not open again if
/// only other parts of the window change, such as the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndedWindow {
    pub(super) schedule: String,
    pub(super) length: Duration,
    /// Start, in Unix milliseconds.
    pub(super) since: u64,
    pub(super) target: String,
}

/// An open window.
#[derive(Clone, Copy, Debug)]
struct Open {
    which: usize,
    /// Start, in Unix milliseconds.
    since: u64,
    /// End, as the time since the start of the program, computed when the window was reported.
    until: Duration,
}

impl Open {
    /// Whether `known` is the same window with the same end. The end differs if the clock was set.
    fn is_same(&self, known: &Self) -> bool {
        (self.which, self.since) == (known.which, known.since)
            && self.until.abs_diff(known.until) <= CLOCK_STEP_MIN
    }
}

/// Changed targets, each with its new maintenance.
pub(super) type Changes = Vec<(String, Option<Hold>)>;

impl Window {
    /// The windows of a configuration. A window without endpoints applies to the target `all`.
    pub(crate) fn all(config: &Config) -> Vec<Self> {
        let window = |window: &doorbell_proxy_config::model::Window| {
            // The names under which maintenance is stored. They distinguish an endpoint with the
            // name `all` from the target `all`.
            let targets: Vec<String> = match window.endpoints.as_slice() {
                [] => vec![super::maintenance::ALL.to_owned()],
                endpoints => endpoints.iter().map(|endpoint| endpoint_target(&endpoint.name)).collect(),
            };
            Self {
                schedule: window.cron.clone(),
                length: window.length,
                targets,
                reason: window.reason.clone(),
            }
        };
        config.maintenance.windows.iter().map(window).collect()
    }

    fn ended(&self, since: u64, target: &str) -> EndedWindow {
        let (schedule, target) = (self.schedule.to_string(), target.to_owned());
        EndedWindow { schedule, length: self.length, since, target }
    }

    fn has_target(&self, target: &str) -> bool {
        self.targets.iter().any(|known| known == target)
    }
}

impl Windows {
    /// Replaces the windows. The next [`Self::evaluate`] closes the open windows that the new
    /// configuration does not contain unchanged.
    pub(super) fn replace(&mut self, all: Vec<Window>) {
        let place = |which: usize| {
            let known = self.all.get(which);
            all.iter().position(|window| Some(window) == known).unwrap_or(usize::MAX)
        };
        self.open.values_mut().for_each(|open| open.which = place(open.which));
        self.evaluate_at = (!all.is_empty() || !self.open.is_empty()).then_some(Duration::ZERO);
        self.all = all;
    }

    /// Targets with an open window.
    pub(super) fn open(&self) -> impl Iterator<Item = &str> {
        self.open.keys().map(String::as_str)
    }

    /// Ends the open windows of a target early; the next [`Self::evaluate`] reports the end. Each
    /// window opens again at its next scheduled start.
    pub(super) fn end(&mut self, target: &str, now_unix_ms: u64) {
        for window in self.all.iter().filter(|window| window.has_target(target)) {
            if let Some(since) = window.schedule.slot(now_unix_ms, window.length).open_since {
                self.ended.insert(window.ended(since, target));
            }
        }
        self.evaluate_at = Some(Duration::ZERO);
    }

    /// The windows that were ended early and would be open otherwise.
    pub(super) fn ended(&self) -> impl Iterator<Item = &EndedWindow> {
        self.ended.iter()
    }

    /// Restores windows that were ended early; those that are not open are removed by the first
    /// [`Self::evaluate`].
    pub(super) fn restore_ended(&mut self, ended: impl Iterator<Item = EndedWindow>) {
        self.ended.extend(ended);
    }

    /// Time of the next [`Self::evaluate`], as the time since the start of the program.
    pub(super) const fn evaluate_at(&self) -> Option<Duration> {
        self.evaluate_at
    }

    /// From [`Self::evaluate_at`] on, evaluates the windows and returns the changes since the last
    /// evaluation. If several windows of a target are open, the one that ends last counts.
    pub(super) fn evaluate(&mut self, now: Duration, now_unix_ms: u64) -> Changes {
        if self.evaluate_at.is_none_or(|at| at > now) {
            return Changes::new();
        }
        let mut open: BTreeMap<String, Open> = BTreeMap::new();
        let mut next = u64::MAX;
        let ended = std::mem::take(&mut self.ended);
        for (which, window) in self.all.iter().enumerate() {
            let Slot { open_since, changes_at } = window.schedule.slot(now_unix_ms, window.length);
            next = next.min(changes_at);
            let Some(since) = open_since else { continue };
            let left = Duration::from_millis(changes_at.saturating_sub(now_unix_ms));
            let one = Open { which, since, until: now.saturating_add(left) };
            for target in &window.targets {
                if let Some(known) = ended.get(&window.ended(since, target)) {
                    self.ended.insert(known.clone());
                    continue;
                }
                if open.get(target).is_none_or(|other| other.until < one.until) {
                    open.insert(target.clone(), one);
                }
            }
        }
        let wait = Duration::from_millis(next.saturating_sub(now_unix_ms)).min(EVALUATE_INTERVAL);
        self.evaluate_at = (!self.all.is_empty()).then(|| now.saturating_add(wait));
        let over = self.open.keys().filter(|target| !open.contains_key(*target));
        let mut changes: Changes = over.map(|target| (target.clone(), None)).collect();
        for (target, one) in &mut open {
            match self.open.get(target).filter(|known| one.is_same(known)) {
                // Keeps the reported end for later comparisons, so that small shifts add up to a
                // step.
                Some(known) => one.until = known.until,
                None => {
                    let reason =
                        self.all.get(one.which).map(|window| window.reason.clone()).unwrap_or_default();
                    changes.push((target.clone(), Some(Hold { reason, until: Some(one.until) })));
                }
            }
        }
        self.open = open;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;
    /// Sunday, 2026-11-22, 03:00 UTC.
    const SUNDAY: u64 = 1_795_316_400_000;

    fn window(cron: &str, minutes: u64, target: &str) -> Window {
        Window {
            schedule: Schedule::parse(cron).unwrap(),
            length: Duration::from_secs(minutes * 60),
            targets: vec![target.to_owned()],
            reason: format!("{minutes} minutes"),
        }
    }

    fn windows() -> Windows {
        let mut windows = Windows::default();
        windows.replace(vec![window("0 3 * * SUN UTC", 30, "a"), window("10 3 * * SUN UTC", 40, "a")]);
        windows
    }

    fn minutes(count: u64) -> Duration {
        Duration::from_secs(count * 60)
    }

    fn hold(reason: &str, until: Duration) -> Changes {
        vec![("a".to_owned(), Some(Hold { reason: reason.to_owned(), until: Some(until) }))]
    }

    #[test]
    fn windows_open_and_end_each_once() {
        let mut windows = windows();
        assert_eq!(windows.evaluate(minutes(0), SUNDAY - MINUTE), []);
        assert_eq!(windows.evaluate_at(), Some(EVALUATE_INTERVAL), "not later, because the clock may jump");
        assert_eq!(windows.evaluate(minutes(1), SUNDAY), hold("30 minutes", minutes(31)));
        assert_eq!(windows.evaluate(minutes(2), SUNDAY + MINUTE), [], "no change");
        assert_eq!(windows.evaluate(minutes(11), SUNDAY + 10 * MINUTE), hold("40 minutes", minutes(51)));
        assert_eq!(windows.evaluate(minutes(40), SUNDAY + 39 * MINUTE), []);
        assert_eq!(windows.evaluate(minutes(51), SUNDAY + 50 * MINUTE), [("a".to_owned(), None)]);
        assert_eq!(windows.evaluate(minutes(52), SUNDAY + 51 * MINUTE), []);
    }

    #[test]
    fn a_clock_that_jumps_is_followed() {
        let mut windows = windows();
        windows.evaluate(minutes(0), SUNDAY);
        assert_eq!(
            windows.evaluate(minutes(1), SUNDAY + 61 * MINUTE),
            [("a".to_owned(), None)],
            "an hour ahead"
        );
        assert_eq!(
            windows.evaluate(minutes(2), SUNDAY + 2 * MINUTE),
            hold("30 minutes", minutes(30)),
            "and back"
        );
        assert_eq!(windows.evaluate(minutes(3), SUNDAY - 57 * MINUTE), [("a".to_owned(), None)]);
    }

    /// A step of the time of day moves the end of an open window.
    #[test]
    fn a_window_ends_by_the_time_of_day() {
        let mut windows = windows();
        assert_eq!(windows.evaluate(minutes(0), SUNDAY + 9 * MINUTE), hold("30 minutes", minutes(21)));
        assert_eq!(windows.evaluate(minutes(1), SUNDAY + 10 * MINUTE), hold("40 minutes", minutes(41)));
        let back = hold("40 minutes", minutes(62));
        assert_eq!(windows.evaluate(minutes(32), SUNDAY + 20 * MINUTE), back, "set back by 21 minutes");
        assert_eq!(windows.evaluate(minutes(33), SUNDAY + 21 * MINUTE + 300), [], "too small for a step");
        assert_eq!(
            windows.evaluate(minutes(34), SUNDAY + 22 * MINUTE + 900),
            [],
            "this difference alone is too small"
        );
        let ahead = windows.evaluate(minutes(35), SUNDAY + 23 * MINUTE + 1_100);
        assert_eq!(
            ahead,
            hold("40 minutes", minutes(62) - Duration::from_millis(1_100)),
            "both together are a step"
        );
        assert_eq!(windows.evaluate(minutes(62), SUNDAY + 50 * MINUTE), [("a".to_owned(), None)]);
    }

    #[test]
    fn an_unchanged_window_continues_and_a_changed_one_begins() {
        let mut windows = windows();
        assert_eq!(windows.evaluate(minutes(1), SUNDAY), hold("30 minutes", minutes(31)));
        windows.replace(vec![window("0 4 * * SUN UTC", 5, "b"), window("0 3 * * SUN UTC", 30, "a")]);
        assert_eq!(
            windows.evaluate(minutes(2), SUNDAY + MINUTE),
            [],
            "only the position of the window in the list changes"
        );
        windows.replace(vec![Window { reason: "disks".to_owned(), ..window("0 3 * * SUN UTC", 30, "a") }]);
        assert_eq!(windows.evaluate(minutes(3), SUNDAY + 2 * MINUTE), hold("disks", minutes(31)));
    }

    #[test]
    fn a_window_that_was_ended_early_opens_at_its_next_start() {
        const WEEK: u64 = 7 * 24 * 60 * MINUTE;
        let mut windows = windows();
        assert_eq!(windows.evaluate(minutes(0), SUNDAY + 15 * MINUTE), hold("40 minutes", minutes(35)));
        assert_eq!(windows.open().collect::<Vec<_>>(), ["a"]);
        // Both are open, and both end.
        windows.end("a", SUNDAY + 16 * MINUTE);
        assert_eq!(windows.evaluate(minutes(1), SUNDAY + 16 * MINUTE), [("a".to_owned(), None)]);
        assert_eq!(windows.evaluate(minutes(10), SUNDAY + 25 * MINUTE), []);
        // A reload does not open an unchanged window again.
        windows.replace(vec![window("10 3 * * SUN UTC", 40, "a"), window("0 9 * * SUN UTC", 5, "b")]);
        assert_eq!(windows.evaluate(minutes(11), SUNDAY + 26 * MINUTE), []);
        // Neither does a reload that changes its reason or adds a target.
        let targets = vec!["a".to_owned(), "b".to_owned()];
        let changed = Window { reason: "fans".to_owned(), targets, ..window("10 3 * * SUN UTC", 40, "a") };
        windows.replace(vec![changed]);
        let fans = Hold { reason: "fans".to_owned(), until: Some(minutes(12 + 23)) };
        assert_eq!(windows.evaluate(minutes(12), SUNDAY + 27 * MINUTE), [("b".to_owned(), Some(fans))]);
        windows.replace(vec![window("10 3 * * SUN UTC", 40, "a")]);
        assert_eq!(windows.evaluate(minutes(13), SUNDAY + 28 * MINUTE), [("b".to_owned(), None)]);
        let mut restarted = Windows::default();
        restarted.restore_ended(windows.ended().cloned());
        restarted.replace(vec![window("10 3 * * SUN UTC", 40, "a")]);
        assert_eq!(restarted.evaluate(minutes(1), SUNDAY + 29 * MINUTE), []);
        assert_eq!(windows.evaluate(minutes(60), SUNDAY + 75 * MINUTE), []);
        assert_eq!(windows.ended.len(), 0, "closed windows are removed");
        let later = windows.evaluate(minutes(99), SUNDAY + WEEK + 15 * MINUTE);
        assert_eq!(later, hold("40 minutes", minutes(99 + 35)));
    }

    #[test]
    fn without_windows_there_is_no_look() {
        let mut windows = windows();
        windows.evaluate(minutes(0), SUNDAY);
        windows.replace(Vec::new());
        assert_eq!(
            windows.evaluate(minutes(1), SUNDAY + MINUTE),
            [("a".to_owned(), None)],
            "removed by a reload"
        );
        assert_eq!(windows.evaluate_at(), None);
        windows.replace(Vec::new());
        assert_eq!(windows.evaluate_at(), None);
    }
}
