//! Succession of boards at a reload: what the new one takes over, and how the old one stays current for its remaining connections.
//!
//! Does not know about: configurations, servers.
//!
//! Of the boards that answer somebody only one speaks: it writes the log and the event log. Results go to the newest, which passes on what
//! it finds to those before it that live. Order of locks: the older board's first.

use super::log_lines::Line;
use super::{Changed, HealthRegistry};
use doorbell_checks::{Finding, LastRun, ResultSink as _};
use doorbell_health::Carry;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A board before.
#[derive(Clone, Debug)]
pub(super) struct Elder {
    registry: Weak<HealthRegistry>,
    /// By the position of a check here, where it is there.
    places: Vec<Option<usize>>,
}

/// Which checks ask the same as before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Same {
    /// By their position now: where they were.
    pub(crate) places: Vec<Option<usize>>,
    /// By name, for how long the first result of those is awaited that ask something new.
    pub(crate) awaited: HashMap<String, Duration>,
}

impl Same {
    fn carry(&self, check: &str) -> Carry {
        self.awaited.get(check).map_or(Carry::State, |time| Carry::Awaits(*time))
    }
}

impl HealthRegistry {
    /// Takes over what `before` knows: of checks that ask the same their results, judged as the configuration says now; of endpoints what they
    /// remember, and their verdict about a check that asks something new until its first result. From then on `before` is told of results
    /// found here, as long as it lives. Called again, only results are taken over.
    pub(crate) fn inherit(&self, before: &Arc<Self>, same: &Same) {
        let is_first = self.elders.set(before.with_elders(&same.places)).is_ok();
        let now = self.now();
        let known = before.lock();
        self.change(|board| {
            let mut changed = Changed::of(&board.inherit_checks(&known.board, |name| same.carry(name), now));
            if is_first {
                changed.add(Changed::of(&board.inherit_endpoints(&known.board, now)));
            }
            changed
        });
    }

    /// Writes log and event log from now on, in the stead of `before`. What is different here is a transition like any other.
    pub(crate) fn speak_after(&self, before: &Self) {
        let known = before.lock();
        before.speaks.store(false, Ordering::Release);
        let inside = self.lock();
        self.speaks.store(true, Ordering::Release);
        let lines = self.report(&inside, &inside.board.changed_since(&known.board));
        drop(inside);
        drop(known);
        lines.iter().for_each(Line::write);
    }

    /// This board and those before it that live, as seen from one whose checks are here at `places`.
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

    /// The last run of a check that was there before: a new configuration is no reason to ask anew.
    pub(super) fn last_run_of(&self, check: usize) -> Option<LastRun> {
        self.elders.get()?.first()?.places.get(check).copied().flatten()?;
        let index = *self.places.checks.get(check)?;
        let inside = self.lock();
        let (ended, result) = inside.board.check(index)?.last()?;
        Some(LastRun { started: ended.before(result.latency), next_due: inside.board.next_due(index) })
    }

    /// Tells those before what was found of a check.
    pub(super) fn pass_on(&self, check: usize, finding: &Finding) {
        for (registry, places) in self.elders() {
            if let Some(there) = places.get(check).copied().flatten() {
                registry.take_in(there, finding);
            }
        }
    }

    pub(super) fn elders(&self) -> impl Iterator<Item = (Arc<Self>, &[Option<usize>])> {
        let elders = self.elders.get().into_iter().flatten();
        elders.filter_map(|elder| Some((elder.registry.upgrade()?, elder.places.as_slice())))
    }
}
