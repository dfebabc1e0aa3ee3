//! The drains of single endpoints, by name.

use super::clock::millis;
use super::lifecycle::Drain;
use super::maintenance::TARGETS_MAX;
use doorbell_control::DrainView;
use std::collections::BTreeMap;
use std::time::Duration;

/// Drains of single endpoints. Times are since the start of the program.
#[derive(Debug, Default)]
pub(super) struct Drains(BTreeMap<String, Drain>);

impl Drains {
    /// Starts a drain of an endpoint, or continues its current drain ([`Drain::continuing`]).
    pub(super) fn set(&mut self, endpoint: &str, drain: Drain) -> &Drain {
        let drain = drain.continuing(self.0.get(endpoint));
        self.0.entry(endpoint.to_owned()).insert_entry(drain).into_mut()
    }

    /// Whether the maximum number of drains permits a drain of this endpoint.
    pub(super) fn has_capacity_for(&self, endpoint: &str) -> bool {
        self.0.len() < TARGETS_MAX || self.0.contains_key(endpoint)
    }

    /// Ends the drain of an endpoint; false if it had none.
    pub(super) fn end(&mut self, endpoint: &str) -> bool {
        self.0.remove(endpoint).is_some()
    }

    /// Removes drains whose time limit is reached, and returns their endpoints.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<String> {
        self.0.extract_if(.., |_, drain| drain.is_over(now)).map(|(endpoint, _)| endpoint).collect()
    }

    /// The earliest end of a drain.
    pub(super) fn next_end(&self) -> Option<Duration> {
        self.0.values().filter_map(|drain| drain.until).min()
    }

    pub(super) fn get(&self, endpoint: &str) -> Option<&Drain> {
        self.0.get(endpoint)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Drain)> {
        self.0.iter().map(|(endpoint, drain)| (endpoint.as_str(), drain))
    }

    /// The drains as views. `delay` is the time for load balancers to notice a drain.
    pub(super) fn views(&self, delay: Duration, now: Duration) -> Vec<DrainView> {
        let view = |(endpoint, drain): (&str, &Drain)| DrainView {
            endpoint: endpoint.to_owned(),
            reason: drain.reason.clone(),
            observed_in_ms: millis(drain.since.saturating_add(delay).saturating_sub(now)),
            left_ms: drain.until.map(|until| millis(until.saturating_sub(now))),
        };
        self.all().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(reason: &str, since: u64, until: Option<u64>) -> Drain {
        let at = Duration::from_secs;
        Drain { reason: reason.to_owned(), since: at(since), until: until.map(at), is_kept: true }
    }

    #[test]
    fn each_ends_in_its_own_time() {
        let (mut drains, at) = (Drains::default(), Duration::from_secs);
        drains.set("a", drain("short", 1, Some(10)));
        drains.set("b", drain("endless", 2, None));
        assert_eq!(drains.set("a", drain("longer", 5, Some(20))).since, at(1), "the start does not change");
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
    fn they_are_bounded() {
        let mut drains = Drains::default();
        for n in 0..TARGETS_MAX {
            assert!(drains.has_capacity_for(&n.to_string()));
            drains.set(&n.to_string(), drain("", 0, None));
        }
        assert!(!drains.has_capacity_for("one more") && drains.has_capacity_for("7"));
    }
}
