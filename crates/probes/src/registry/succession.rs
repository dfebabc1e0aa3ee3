//! Succession of registries at a reload: what the new one takes over, and how the old one stays
//! current for its remaining connections.
//!
//! Does not know about: configurations, servers.
//!
//! Several registries may serve probes, but only one reports transitions. Results go to the newest,
//! which passes them on to earlier ones that still live. Order of locks: the older registry first.

use super::{Changed, Registry, Report};
use doorbell_health::{Carry, CheckResult, Time};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A registry that this one succeeded.
#[derive(Clone, Debug)]
pub(super) struct Elder {
    registry: Weak<Registry>,
    /// For each check here, by position: its position there.
    places: Vec<Option<usize>>,
}

/// The checks that test the same thing as before.
#[derive(Clone, Debug, Default)]
pub struct SameChecks {
    /// For each check, by its position now: its position before.
    pub places: Vec<Option<usize>>,
    /// For each check that tests something else, by name: how long to wait for its first result.
    pub awaited: HashMap<String, Duration>,
}

impl SameChecks {
    fn carry(&self, check: &str) -> Carry {
        self.awaited.get(check).map_or(Carry::State, |time| Carry::Awaits(*time))
    }
}

impl Registry {
    /// Takes over the state of `before`. Checks that test the same thing keep their results, judged
    /// by the new thresholds. Endpoints keep their memory, and their verdict about a check that
    /// tests something else until its first result. From then on, results found here are passed on
    /// to `before` while it lives. A second call takes over results only.
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

    /// This registry and the earlier ones that still live, for a successor whose checks have the
    /// positions `places` here.
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

    /// The start of a check's last run and the time of its next run, if the previous registry had
    /// the same check: a new configuration is no reason to run it again.
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
