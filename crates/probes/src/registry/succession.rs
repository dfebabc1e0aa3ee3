//! Replacement of a registry at a reload: the new registry takes over the state, and forwards
//! results to the old one for its remaining connections.
//!
//! Several registries may serve probes, but only one reports transitions. Results go to the newest
//! registry, which forwards them to the earlier registries that still exist. Lock order: the older
//! registry first.

use super::{Changed, Registry, Report};
use doorbell_health::{CheckResult, Inheritance, Time};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A registry that this one replaced.
#[derive(Clone, Debug)]
pub(super) struct Predecessor {
    registry: Weak<Registry>,
    /// By position of a check in this registry: its position in the replaced one.
    places: Vec<Option<usize>>,
}

/// Which checks of a new registry test the same target as in the replaced registry.
#[derive(Clone, Debug, Default)]
pub struct SameChecks {
    /// By position in the new registry: the position of the same check in the replaced one.
    pub places: Vec<Option<usize>>,
    /// Checks that test another target under the same name, with the time to wait for their first
    /// result.
    pub awaited: HashMap<String, Duration>,
}

impl SameChecks {
    fn inheritance(&self, check: &str) -> Inheritance {
        self.awaited.get(check).map_or(Inheritance::State, |time| Inheritance::Awaits(*time))
    }
}

impl Registry {
    /// Takes over the state of `before`. Checks that test the same target keep their results, to
    /// which the new thresholds apply. Endpoints keep their latches
    /// ([`EndpointConfig::latch`](doorbell_health::EndpointConfig::latch)), drains and times of
    /// change. If a check now tests another target, endpoints use its previous state until its
    /// first result. From this call on, results are also forwarded to `before` while it exists. A
    /// second call only takes over the results that `before` has received since.
    pub fn inherit(&self, before: &Arc<Self>, same: &SameChecks, now: Time) {
        let is_first = self.predecessors.set(before.with_predecessors(&same.places)).is_ok();
        let known = before.lock();
        self.change(|board| {
            let mut changed =
                Changed::of(&board.inherit_checks(&known.board, |name| same.inheritance(name), now));
            if is_first {
                changed.add(Changed::of(&board.inherit_endpoints(&known.board, now)));
            }
            changed
        });
    }

    /// Reports transitions from now on, in place of `before`. States that differ between the two
    /// registries are reported as transitions.
    pub fn report_instead_of(&self, before: &Self) {
        let known = before.lock();
        before.reports.store(false, Ordering::Release);
        let inner = self.lock();
        self.reports.store(true, Ordering::Release);
        let report = Report::record(&inner, &inner.board.changed_since(&known.board));
        drop(inner);
        drop(known);
        report.write();
    }

    /// Returns this registry and the earlier ones that still exist, for the `predecessors` of a
    /// successor. `places` maps the checks of the successor to positions in this registry.
    fn with_predecessors(self: &Arc<Self>, places: &[Option<usize>]) -> Vec<Predecessor> {
        let own = Predecessor { registry: Arc::downgrade(self), places: places.to_vec() };
        let living = self
            .predecessors
            .get()
            .into_iter()
            .flatten()
            .filter(|predecessor| predecessor.registry.strong_count() > 0);
        let seen = |predecessor: &Predecessor| {
            let there = |place: &Option<usize>| predecessor.places.get((*place)?).copied().flatten();
            Predecessor { registry: predecessor.registry.clone(), places: places.iter().map(there).collect() }
        };
        std::iter::once(own).chain(living.map(seen)).collect()
    }

    /// The start of a check's last run and the time of its next run, if the previous registry had
    /// the same check. So a reload alone does not cause a run.
    #[must_use]
    pub fn last_run(&self, check: usize) -> Option<(Time, Time)> {
        self.predecessors.get()?.first()?.places.get(check).copied().flatten()?;
        let index = *self.checks.get(check)?;
        let inner = self.lock();
        let (ended, result) = inner.board.check(index)?.last()?;
        Some((ended.before(result.latency), inner.board.next_due(index)))
    }

    /// Applies a result to the registries that this one replaced.
    pub(super) fn pass_on(&self, check: usize, result: &CheckResult<'_>, now: Time) {
        for (registry, places) in self.predecessors() {
            if let Some(there) = places.get(check).copied().flatten() {
                registry.take_in(there, result, now);
            }
        }
    }

    pub(super) fn predecessors(&self) -> impl Iterator<Item = (Arc<Self>, &[Option<usize>])> {
        let predecessors = self.predecessors.get().into_iter().flatten();
        predecessors
            .filter_map(|predecessor| Some((predecessor.registry.upgrade()?, predecessor.places.as_slice())))
    }
}
