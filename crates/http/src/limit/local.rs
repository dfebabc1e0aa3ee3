//! The table of one worker.

use super::decision::{Counts, Decision};
use super::quota::Quota;
use super::set::{self, EMPTY, Found, KeyHasher, WAYS};
use super::sweep::{Sweep, SweepWork};
use crate::Time;

/// A limiter for one worker.
///
/// See [the module](super) for the algorithm and for the choice between this limiter and the shared
/// one.
#[derive(Clone, Debug)]
pub struct LocalLimiter {
    quota: Quota,
    places: KeyHasher,
    sets: Box<[Set]>,
    sweep: Sweep,
    latest: Time,
    counts: Counts,
}

/// One cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Set([u64; WAYS]);

impl LocalLimiter {
    /// Creates a limiter for `keys_max` keys; see [`Limiter::new`](super::Limiter::new) for the
    /// arguments.
    pub fn new(quota: Quota, keys_max: usize, seed: [u64; 2]) -> Self {
        let places = KeyHasher::new(keys_max, seed);
        Self {
            quota,
            sets: vec![Set([EMPTY; WAYS]); places.sets()].into_boxed_slice(),
            places,
            sweep: Sweep::NEW,
            latest: Time::ZERO,
            counts: Counts::default(),
        }
    }

    /// Decides about one request of this key, and counts the request if it is allowed.
    #[inline]
    pub fn check(&mut self, key: &[u8], time: Time) -> Decision {
        let place = self.places.of(key);
        self.latest = self.latest.max(time);
        let now = self.quota.ticks(self.latest);
        if self.sweep != Sweep::idle(now, self.sets.len()) {
            self.perform(now);
        }
        let decision = match self.sets.get_mut(place.set) {
            Some(Set(words)) => {
                let (Found::At(way) | Found::Least { way, .. }) = set::find(words, place.tag, now);
                let word = words.get(way).copied().unwrap_or(EMPTY);
                let owed = set::owed(word, now);
                let same = set::tag_of(word) == place.tag;
                self.counts.evicted_live += u64::from(!same && owed > 0);
                let decision = Decision::of(if same { owed } else { 0 }, &self.quota);
                if let (true, Some(word)) = (decision.is_allowed(), words.get_mut(way)) {
                    *word = set::word(place.tag, set::tat(now, decision.owed()));
                }
                decision
            }
            None => Decision::blind(&self.quota),
        };
        if decision.is_allowed() {
            self.counts.allowed += 1;
        } else {
            self.counts.denied += 1;
        }
        decision
    }

    /// The quota.
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Maximum number of keys in the table.
    pub const fn keys_max(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// The statistics.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    #[cold]
    fn perform(&mut self, now: u64) {
        match self.sweep.work(now, self.sets.len()) {
            // The stored time never goes backward, and no other thread wipes the table.
            SweepWork::Behind { .. } | SweepWork::None | SweepWork::Wait => {}
            SweepWork::Sweep { from, to, then } => {
                let words =
                    self.sets.get_mut(from..to).unwrap_or_default().iter_mut().flat_map(|set| &mut set.0);
                words.filter(|word| set::owed(**word, now) == 0).for_each(|word| *word = EMPTY);
                self.sweep = then;
            }
            SweepWork::Wipe { then, .. } => {
                self.sets.fill(Set([EMPTY; WAYS]));
                self.sweep = then;
            }
        }
    }
}
