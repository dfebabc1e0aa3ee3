//! One board after another: what a new one takes over, and how the old one stays right for the connections that still ask it.
//!
//! Does not know about: configurations, servers.
//!
//! Of the boards that answer somebody only one speaks: it writes the log and the journal. Results go to the newest, which passes on what
//! it finds to the one before it. Order of locks: the older board's first.

use super::{Changed, Keeper};
use crate::checks::{Desk as _, Finding};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// The board before.
#[derive(Debug)]
pub(super) struct Elder {
    keeper: Weak<Keeper>,
    same: Same,
}

/// Which checks are the same as before.
#[derive(Clone, Debug, Default)]
pub(in crate::serve) struct Same {
    /// By their position now: where they were.
    pub(in crate::serve) places: Vec<Option<usize>>,
    pub(in crate::serve) names: BTreeSet<String>,
}

impl Keeper {
    /// Takes over what `before` knows: of checks that are the same their state, of endpoints what they remember. From then on `before` is told
    /// of results found here, as long as it lives. Called again, only results are taken over.
    pub(in crate::serve) fn inherit(&self, before: &Arc<Self>, same: &Same) {
        let is_first = self.elder.set(Elder { keeper: Arc::downgrade(before), same: same.clone() }).is_ok();
        let now = self.now();
        let known = before.lock();
        self.change(|board| {
            let mut changed =
                Changed::of(&board.inherit_checks(&known.board, |name| same.names.contains(name), now));
            if is_first {
                changed.add(Changed::of(&board.inherit_endpoints(&known.board, now)));
            }
            changed
        });
    }

    /// Writes log and journal, or not any more.
    pub(in crate::serve) fn speak(&self, speaks: bool) {
        self.speaks.store(speaks, Ordering::Release);
    }

    /// When a check is due that was there before: a new configuration is no reason to ask anew.
    pub(super) fn first_due_of(&self, check: usize) -> Option<doorbell_health::Time> {
        let elder = self.elder.get()?;
        elder.same.places.get(check).copied().flatten()?;
        let index = *self.places.checks.get(check)?;
        let inside = self.lock();
        inside.board.check(index)?.last().map(|_| inside.board.next_due(index))
    }

    pub(super) fn pass_on(&self, check: usize, finding: &Finding) {
        let Some((keeper, elder)) = self.living_elder() else { return };
        if let Some(there) = elder.same.places.get(check).copied().flatten() {
            keeper.found(there, finding);
        }
    }

    pub(super) fn living_elder(&self) -> Option<(Arc<Self>, &Elder)> {
        let elder = self.elder.get()?;
        Some((elder.keeper.upgrade()?, elder))
    }
}
