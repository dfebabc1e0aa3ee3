//! Drains by command: those of one target, and those of single endpoints by name.

use super::clock::millis;
use super::maintenance::TARGETS_MAX;
use doorbell_control::DrainView;
use std::collections::BTreeMap;
use std::time::Duration;

/// A drain by command. Times are since the start of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Drain {
    pub(super) reason: String,
    pub(super) since: Duration,
    /// The end, if the drain has a time limit.
    pub(super) until: Option<Duration>,
}

impl Drain {
    fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The drains of one target. Neither changes the other, and the target drains while there is one.
#[derive(Debug, Default)]
pub(super) struct TargetDrains {
    /// The drain by an operator, which is kept across a restart.
    kept: Option<Drain>,
    /// The drain by a hook, which ends with the process.
    hook: Option<Drain>,
}

impl TargetDrains {
    /// Starts a drain by an operator (`is_kept`) or a hook, or changes the current one. A target
    /// that drains already keeps its start.
    pub(super) fn set(&mut self, drain: Drain, is_kept: bool) {
        let drain = Drain { since: self.since().unwrap_or(drain.since), ..drain };
        let place = if is_kept { &mut self.kept } else { &mut self.hook };
        *place = Some(drain);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.kept.is_none() && self.hook.is_none()
    }

    /// The drain that is kept across a restart.
    pub(super) const fn kept(&self) -> Option<&Drain> {
        self.kept.as_ref()
    }

    /// The reason, that of the operator if there are two drains; `None` without a drain.
    pub(super) fn reason(&self) -> Option<&str> {
        self.all().next().map(|drain| drain.reason.as_str())
    }

    pub(super) fn since(&self) -> Option<Duration> {
        self.all().next().map(|drain| drain.since)
    }

    /// The end of the last drain; `None` without a time limit or a drain.
    pub(super) fn until(&self) -> Option<Duration> {
        self.all().map(|drain| drain.until.unwrap_or(Duration::MAX)).max().filter(|end| *end < Duration::MAX)
    }

    /// The earliest end of a drain.
    pub(super) fn next_end(&self) -> Option<Duration> {
        self.all().filter_map(|drain| drain.until).min()
    }

    /// Removes drains whose time limit is reached; false if there are none.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        let places = [&mut self.kept, &mut self.hook].into_iter();
        places.filter_map(|place| place.take_if(|drain| drain.is_over(now))).count() > 0
    }

    fn all(&self) -> impl Iterator<Item = &Drain> {
        self.kept.iter().chain(&self.hook)
    }
}

/// Drains of single endpoints, none of them empty. Times are since the start of the program.
#[derive(Debug, Default)]
pub(super) struct Drains(BTreeMap<String, TargetDrains>);

impl Drains {
    /// Starts a drain of an endpoint ([`TargetDrains::set`]), and returns its drains.
    pub(super) fn set(&mut self, endpoint: &str, drain: Drain, is_kept: bool) -> &TargetDrains {
        let drains = self.0.entry(endpoint.to_owned()).or_default();
        drains.set(drain, is_kept);
        drains
    }

    /// Whether the maximum number of drains permits a drain of this endpoint.
    pub(super) fn has_capacity_for(&self, endpoint: &str) -> bool {
        self.0.len() < TARGETS_MAX || self.0.contains_key(endpoint)
    }

    /// Ends the drains of an endpoint; false if it had none.
    pub(super) fn end(&mut self, endpoint: &str) -> bool {
        self.0.remove(endpoint).is_some()
    }

    /// Removes drains whose time limit is reached, and returns their endpoints.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<String> {
        let mut changed = Vec::new();
        self.0.retain(|endpoint, drains| {
            if drains.expire(now) {
                changed.push(endpoint.clone());
            }
            !drains.is_empty()
        });
        changed
    }

    /// The earliest end of a drain.
    pub(super) fn next_end(&self) -> Option<Duration> {
        self.0.values().filter_map(TargetDrains::next_end).min()
    }

    pub(super) fn get(&self, endpoint: &str) -> Option<&TargetDrains> {
        self.0.get(endpoint)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &TargetDrains)> {
        self.0.iter().map(|(endpoint, drains)| (endpoint.as_str(), drains))
    }

    /// The drains as views. `delay` is the time for load balancers to notice a drain.
    pub(super) fn views(&self, delay: Duration, now: Duration) -> Vec<DrainView> {
        let view = |(endpoint, drains): (&str, &TargetDrains)| DrainView {
            endpoint: endpoint.to_owned(),
            reason: drains.reason().unwrap_or_default().to_owned(),
            observed_in_ms: millis(drains.since().unwrap_or(now).saturating_add(delay).saturating_sub(now)),
            left_ms: drains.until().map(|until| millis(until.saturating_sub(now))),
        };
        self.all().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(reason: &str, since: u64, until: Option<u64>) -> Drain {
        let at = Duration::from_secs;
        Drain { reason: reason.to_owned(), since: at(since), until: until.map(at) }
    }

    #[test]
    fn each_ends_in_its_own_time() {
        let (mut drains, at) = (Drains::default(), Duration::from_secs);
        drains.set("a", drain("short", 1, Some(10)), true);
        drains.set("b", drain("endless", 2, None), true);
        let longer = drains.set("a", drain("longer", 5, Some(20)), true);
        assert_eq!(longer.since(), Some(at(1)), "the start does not change");
        assert_eq!((drains.next_end(), drains.expire(at(19)).len()), (Some(at(20)), 0));
        let views = drains.views(at(5), at(4));
        let shown =
            views.iter().map(|view| (&*view.endpoint, &*view.reason, view.observed_in_ms, view.left_ms));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [("a", "longer", 2_000, Some(16_000)), ("b", "endless", 3_000, None)]
        );
        assert_eq!(drains.expire(at(20)), ["a"]);
        assert_eq!(
            (drains.next_end(), drains.get("a").is_some(), drains.end("b"), drains.end("b")),
            (None, false, true, false)
        );
    }

    #[test]
    fn an_operator_and_a_hook_drain_separately() {
        let at = Duration::from_secs;
        for operator_is_first in [true, false] {
            let mut drains = TargetDrains::default();
            drains.set(drain("first", 1, Some(10)), operator_is_first);
            drains.set(drain("second", 2, Some(20)), !operator_is_first);
            let (reason, kept_until) = if operator_is_first { ("first", 10) } else { ("second", 20) };
            assert_eq!((drains.reason(), drains.since()), (Some(reason), Some(at(1))));
            assert_eq!(drains.kept().and_then(|drain| drain.until), Some(at(kept_until)));
            assert_eq!((drains.next_end(), drains.until()), (Some(at(10)), Some(at(20))));
            assert!(!drains.expire(at(9)) && drains.expire(at(10)) && !drains.is_empty());
            assert_eq!((drains.reason(), drains.since()), (Some("second"), Some(at(1))));
            drains.set(drain("endless", 15, None), operator_is_first);
            assert_eq!((drains.next_end(), drains.until()), (Some(at(20)), None));
        }
    }

    #[test]
    fn they_are_bounded() {
        let mut drains = Drains::default();
        for n in 0..TARGETS_MAX {
            assert!(drains.has_capacity_for(&n.to_string()));
            drains.set(&n.to_string(), drain("", 0, None), true);
        }
        assert!(!drains.has_capacity_for("one more") && drains.has_capacity_for("7"));
    }
}
