//! Succession of registries at a reload: what the new one takes over, and how the old one stays
//! current for its remaining connections.
//!
//! Does not know about: configurations, servers.
//!
//! Of the registries that serve probes one reports transitions. Results go to the newest, which
//! passes them on to those before it that live. Order of locks: the older registry's first.

use super::{Changed, Registry, Report};
use doorbell_health::{Carry, CheckResult, Time};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A registry before this one.
#[derive(Clone, Debug)]
pub(super) struct Elder {
    registry: Weak<Registry>,
    /// By the position of a check here, its position there.
    places: Vec<Option<usize>>,
}

/// The checks that ask the same as before.
#[derive(Clone, Debug, Default)]
pub struct SameChecks {
    /// By their position now, their position before.
    pub places: Vec<Option<usize>>,
    /// By the name of checks that ask something else, how long to wait for their first result.
    pub awaited: HashMap<String, Duration>,
}

impl SameChecks {
    fn carry(&self, check: &str) -> Carry {
        self.awaited.get(check).map_or(Carry::State, |time| Carry::Awaits(*time))
    }
}

impl Registry {
    /// Takes over the state of `before`: of checks that ask the same the results, judged by the new
    /// thresholds; of endpoints their memory, and their verdict about a check that asks something
    /// else until its first result. From then on results found here are passed on to `before` while
    /// it lives. A second call takes over results only.
    pub fn inherit(&self, before: &Arc<Self>, same: &SameChecks, now: Time) {
        let is_first = self.elders.set(before.with_elders(&same.places)).is_ok();
        let known = before.lock();
        self.change(|board| {
            let mut changed = Changed::of(&board.inherit_checks(&known.board, |name| same.carry(name), now));
            if is_first {
                changed.add(Changed::of(&board.inherit_endpoints(&known.board, now)));
            }
            changed
        });
    }

    /// Reports transitions from now on, in place of `before`. A state that differs is a transition.
    pub fn speak_after(&self, before: &Self) {
        let known = before.lock();
        before.speaks.store(false, Ordering::Release);
        let inside = self.lock();
        self.speaks.store(true, Ordering::Release);
        let report = Report::record(&inside, &inside.board.changed_since(&known.board));
        drop(inside);
        drop(known);
        report.write();
    }

    /// This registry and those before it that live, as seen from one whose checks are here at
    /// `places`.
    fn with_elders(self: &Arc<Self>, places: &[Option<usize>]) -> Vec<Elder> {
        let own = Elder { registry: Arc::downgrade(self), places: places.to_vec() };
        let living =
            self.elders.get().into_iter().flatten().filter(|elder| elder.registry.strong_count() > 0);
        let seen = |elder: &Elder| {
            let there = |place: &Option<usize>| elder.places.get((*place)?).copied().flatten();
            Elder { registry: elder.registry.clone(), places: places.iter().map(there).collect() }
        };
        std::iter::once(own).chain(living.map(seen)).collect()
    }

    /// The start of the last run of a check that the registry before had, too, and when the next
    /// one is due: a new configuration is no reason to run it again.
    #[must_use]
    pub fn last_run(&self, check: usize) -> Option<(Time, Time)> {
        self.elders.get()?.first()?.places.get(check).copied().flatten()?;
        let index = *self.checks.get(check)?;
        let inside = self.lock();
        let (ended, result) = inside.board.check(index)?.last()?;
        Some((ended.before(result.latency), inside.board.next_due(index)))
    }

    /// Applies a result in the registries before this one.
    pub(super) fn pass_on(&self, check: usize, result: &CheckResult<'_>, now: Time) {
        for (registry, places) in self.elders() {
            if let Some(there) = places.get(check).copied().flatten() {
                registry.take_in(there, result, now);
            }
        }
    }

    pub(super) fn elders(&self) -> impl Iterator<Item = (Arc<Self>, &[Option<usize>])> {
        let elders = self.elders.get().into_iter().flatten();
        elders.filter_map(|elder| Some((elder.registry.upgrade()?, elder.places.as_slice())))
    }
}
