//! Declarations of maintenance, and which of them are in effect.
//!
//! Several declarations may apply to one target. A declaration for the target itself takes
//! precedence over a declaration for `all`, regardless of their sources; otherwise the order of
//! precedence is operator, file, window.

use super::clock::millis;
use doorbell_control::{HoldSource, HoldView};
use std::collections::BTreeMap;
use std::time::Duration;

/// The target for every readiness endpoint.
pub(super) const ALL: &str = "all";

/// Maximum number of targets in maintenance, and of draining endpoints, for commands and the state
/// file. Limits the effect of a mistake.
pub(super) const TARGETS_MAX: usize = 4096;

/// One declaration of maintenance. Times are since the start of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) reason: String,
    /// The end, if there is a time limit.
    pub(super) until: Option<Duration>,
}

/// The declarations of maintenance, by target and source.
#[derive(Debug, Default)]
pub(super) struct Maintenance {
    by_target: BTreeMap<String, [Option<Hold>; HoldSource::ALL.len()]>,
}

impl Maintenance {
    /// Sets the declaration of a source for a target; false if nothing changed.
    pub(super) fn set(&mut self, target: &str, source: HoldSource, hold: Option<Hold>) -> bool {
        let entry = self.by_target.entry(target.to_owned()).or_default();
        let place = &mut entry[source as usize];
        let is_new = *place != hold;
        *place = hold;
        if entry.iter().all(Option::is_none) {
            self.by_target.remove(target);
        }
        is_new
    }

    /// Whether the maximum number of targets permits maintenance of this target.
    pub(super) fn has_capacity_for(&self, target: &str) -> bool {
        self.by_target.len() < TARGETS_MAX || self.by_target.contains_key(target)
    }

    /// The declarations of one source, by target.
    pub(super) fn of_source(&self, source: HoldSource) -> impl Iterator<Item = (&str, &Hold)> {
        let all = self.by_target.iter();
        all.filter_map(move |(target, holds)| Some((target.as_str(), holds[source as usize].as_ref()?)))
    }

    /// The targets with a declaration.
    pub(super) fn targets(&self) -> impl Iterator<Item = &str> {
        self.by_target.keys().map(String::as_str)
    }

    /// Returns the declaration in effect for a target; with `takes_all`, one for `all` counts too.
    pub(super) fn in_effect(&self, target: &str, takes_all: bool) -> Option<&Hold> {
        let first = |target: &str| self.by_target.get(target)?.iter().flatten().next();
        first(target).or_else(|| if takes_all { first(ALL) } else { None })
    }

    /// Removes declarations whose time limit is reached, and returns them.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<(String, HoldSource, Hold)> {
        let mut over = Vec::new();
        self.by_target.retain(|target, holds| {
            for source in HoldSource::ALL {
                let place = &mut holds[source as usize];
                if let Some(hold) = place.take_if(|hold| hold.until.is_some_and(|until| until <= now)) {
                    over.push((target.clone(), source, hold));
                }
            }
            holds.iter().any(Option::is_some)
        });
        over
    }

    /// The earliest end of a declaration.
    pub(super) fn next_end(&self) -> Option<Duration> {
        self.by_target.values().flatten().flatten().filter_map(|hold| hold.until).min()
    }

    pub(super) fn views(&self, now: Duration) -> Vec<HoldView> {
        let all = HoldSource::ALL
            .into_iter()
            .flat_map(|source| self.of_source(source).map(move |(t, h)| (source, t, h)));
        let view = |(source, target, hold): (HoldSource, &str, &Hold)| HoldView {
            target: target.to_owned(),
            source,
            reason: hold.reason.clone(),
            left_ms: hold.until.map(|until| millis(until.saturating_sub(now))),
        };
        all.map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HoldSource::{File, Operator, Window};

    fn hold(reason: &str, until: Option<u64>) -> Option<Hold> {
        Some(Hold { reason: reason.to_owned(), until: until.map(Duration::from_secs) })
    }

    fn in_effect<'a>(maintenance: &'a Maintenance, target: &str, takes_all: bool) -> Option<&'a str> {
        maintenance.in_effect(target, takes_all).map(|hold| hold.reason.as_str())
    }

    #[test]
    fn operators_take_precedence_and_targets_before_all() {
        let mut maintenance = Maintenance::default();
        assert!(maintenance.set(ALL, Operator, hold("everything", None)));
        assert!(maintenance.set("readyz", Window, hold("weekly", None)));
        assert_eq!(in_effect(&maintenance, "readyz", true), Some("weekly"));
        assert!(maintenance.set("readyz", File, hold("touched", None)));
        assert_eq!(in_effect(&maintenance, "readyz", true), Some("touched"));
        assert!(maintenance.set("readyz", Operator, hold("said", None)));
        assert!(!maintenance.set("readyz", Operator, hold("said", None)), "no change");
        assert_eq!(in_effect(&maintenance, "readyz", true), Some("said"));
        assert_eq!(in_effect(&maintenance, "other", true), Some("everything"));
        assert_eq!(in_effect(&maintenance, "livez", false), None);
        for source in HoldSource::ALL {
            assert!(maintenance.set("readyz", source, None));
        }
        assert_eq!(in_effect(&maintenance, "readyz", true), Some("everything"));
        assert_eq!(maintenance.of_source(Operator).map(|(target, _)| target).collect::<Vec<_>>(), [ALL]);
    }

    #[test]
    fn only_what_is_over_is_removed() {
        let mut maintenance = Maintenance::default();
        maintenance.set("a", Operator, hold("short", Some(10)));
        maintenance.set("a", File, hold("endless", None));
        maintenance.set("b", Operator, hold("long", Some(20)));
        assert_eq!(maintenance.next_end(), Some(Duration::from_secs(10)));
        assert_eq!(maintenance.expire(Duration::from_secs(9)), []);
        let over = maintenance.expire(Duration::from_secs(10));
        assert_eq!(
            over.iter().map(|(target, source, _)| (&**target, *source)).collect::<Vec<_>>(),
            [("a", Operator)]
        );
        assert_eq!(
            (in_effect(&maintenance, "a", false), maintenance.next_end()),
            (Some("endless"), Some(Duration::from_secs(20)))
        );
        assert_eq!(maintenance.expire(Duration::MAX).len(), 1);
        assert_eq!(maintenance.next_end(), None);
        let views = maintenance.views(Duration::ZERO);
        assert_eq!(views.len(), 1);
        assert_eq!((views[0].target.as_str(), views[0].source, views[0].left_ms), ("a", File, None));
    }

    #[test]
    fn targets_are_bounded() {
        let mut maintenance = Maintenance::default();
        for n in 0..TARGETS_MAX {
            assert!(maintenance.has_capacity_for(&n.to_string()));
            maintenance.set(&n.to_string(), Operator, hold("", None));
        }
        assert!(!maintenance.has_capacity_for("one more") && maintenance.has_capacity_for("7"));
    }
}
