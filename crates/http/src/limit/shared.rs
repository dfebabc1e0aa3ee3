//! The table shared by all workers, without a lock.
//!
//! **Concurrent requests.** A word is changed only by a compare-exchange with the value on which
//! the decision is based. If two requests read the same TAT, the compare-exchange of one of them
//! fails, and that request is decided again.
//!
//! **One key, one word.** New keys enter a set only at its first word, so that two threads with the
//! same new key compete for the same word. Before the first word is overwritten, its old key is
//! copied to the word with the smallest debt; the compare-exchange on the first word fails unless
//! the copy is exact. A failed attempt can leave an outdated copy behind. The newest copy applies,
//! and outdated copies are evicted first. While a key is in the first word, that word is its newest
//! copy: every request finds the key there and changes no other word.

use super::decision::{Counts, Decision};
use super::leases::Leases;
use super::quota::Quota;
use super::set::{self, EMPTY, Found, KeyHasher, KeyPosition, WAYS};
use super::sweep::{Sweep, SweepWork};
use crate::Time;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::spin_loop;
use std::net::IpAddr;
use std::sync::Arc;

/// A limiter shared by all workers of a process.
///
/// See [the module](super) for the algorithm.
#[derive(Debug)]
pub struct Limiter {
    quota: Quota,
    places: KeyHasher,
    sets: Box<[Set]>,
    sweep: AtomicU64,
    counts: Box<[SharedCounts; COUNTS]>,
    /// Decides if there are no sets.
    leased: Option<Box<Leased>>,
}

/// A limit that several processes share.
#[derive(Debug)]
struct Leased {
    leases: Arc<Leases>,
    /// The limit of this process alone.
    local: Limiter,
}

/// One cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

/// Counters for a part of the keys, so that workers rarely write to the same cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct SharedCounts {
    allowed: AtomicU64,
    denied: AtomicU64,
    evicted_live: AtomicU64,
}

const COUNTS: usize = 16;
/// Maximum number of attempts. A failed compare-exchange means that another thread succeeded, but
/// no thread may wait without end.
const TRIES_MAX: u32 = 1 << 10;
/// Maximum number of spins while another thread wipes the table, which takes microseconds.
const WIPE_SPINS_MAX: u32 = 1 << 20;

impl Limiter {
    /// Creates a limiter for `keys_max` keys (at most [`KEYS_MAX`](super::KEYS_MAX)) of 8 bytes
    /// each. The seed must be random, because with a known seed an attacker can choose keys that
    /// collide. The example of [`RateLimit`](crate::layer::RateLimit) takes it from the standard
    /// library.
    pub fn new(quota: Quota, keys_max: usize, seed: [u64; 2]) -> Self {
        let places = KeyHasher::new(keys_max, seed);
        Self {
            quota,
            sets: (0..places.sets()).map(|_| Set(Default::default())).collect(),
            places,
            sweep: AtomicU64::new(Sweep::NEW.0),
            counts: Box::default(),
            leased: None,
        }
    }

    /// Creates a limiter that shares its limit with other processes by leases. The seed must be a
    /// secret, the same in all of them.
    ///
    /// It has no sets: every look-up of a set fails and takes the cold path `check_setless`, so
    /// that leases cost other limiters nothing.
    pub fn leased(quota: Quota, keys_max: usize, seed: [u64; 2], leases: Arc<Leases>) -> Self {
        Self {
            quota,
            places: KeyHasher::whole(seed),
            sets: Box::default(),
            sweep: AtomicU64::new(Sweep::NEW.0),
            counts: Box::default(),
            leased: Some(Box::new(Leased { leases, local: Self::new(quota, keys_max, seed) })),
        }
    }

    /// Decides about one request of this key, and counts the request if it is allowed.
    #[inline]
    pub fn check(&self, key: &[u8], time: Time) -> Decision {
        self.check_place(self.places.of(key), time)
    }

    /// Decides about one request as [`Self::check`] does, for the key
    /// [`KeyBytes::ip`](super::KeyBytes::ip).
    #[inline]
    pub fn check_ip(&self, addr: IpAddr, v6_len: u8, time: Time) -> Decision {
        self.check_place(self.places.of_ip(addr, v6_len), time)
    }

    /// Like [`Self::check`], for a key with this hash.
    pub(super) fn check_hash(&self, hash: u64, time: Time) -> Decision {
        self.check_place(self.places.place(hash), time)
    }

    /// A refusal of a key whose whole burst is available at `full_at`.
    pub(super) fn refusal(&self, now: Time, full_at: Time) -> Decision {
        Decision::refused(self.quota.ticks(full_at).saturating_sub(self.quota.ticks(now)), &self.quota)
    }

    /// Decides without a set.
    #[cold]
    fn check_setless(&self, place: KeyPosition, time: Time) -> Decision {
        match &self.leased {
            Some(leased) => leased.leases.check(&leased.local, place.whole(), time),
            None => Decision::blind(&self.quota),
        }
    }

    #[inline(always)]
    fn check_place(&self, place: KeyPosition, time: Time) -> Decision {
        let now = self.quota.ticks(time);
        let sweep = Sweep(self.sweep.load(Ordering::Acquire));
        let now = if sweep == Sweep::idle(now, self.sets.len()) { Some(now) } else { self.perform(now) };
        let decision = match (now, self.sets.get(place.set)) {
            (Some(now), Some(set)) => self.ask(set, place, now),
            _ => self.check_setless(place, time),
        };
        let counts = self.counts_of(place);
        let counter = if decision.is_allowed() { &counts.allowed } else { &counts.denied };
        counter.fetch_add(1, Ordering::Relaxed);
        decision
    }

    /// The quota.
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Maximum number of keys in the table.
    pub fn keys_max(&self) -> usize {
        self.leased.as_ref().map_or(self.sets.len() * WAYS, |leased| leased.local.keys_max())
    }

    /// Number of keys with a debt at `time`. Reads the whole table.
    pub fn keys_live(&self, time: Time) -> usize {
        if let Some(leased) = &self.leased {
            return leased.local.keys_live(time);
        }
        let now = self.quota.ticks(time);
        let words = self.sets.iter().flat_map(|set| &set.0);
        words.filter(|word| set::owed(word.load(Ordering::Relaxed), now) > 0).count()
    }

    /// The statistics.
    pub fn counts(&self) -> Counts {
        let evicted_live = self.leased.as_ref().map_or(0, |leased| leased.local.counts().evicted_live);
        let mut sum = Counts { evicted_live, ..Counts::default() };
        for counts in self.counts.iter() {
            sum.allowed += counts.allowed.load(Ordering::Relaxed);
            sum.denied += counts.denied.load(Ordering::Relaxed);
            sum.evicted_live += counts.evicted_live.load(Ordering::Relaxed);
        }
        sum
    }

    #[inline]
    fn ask(&self, set: &Set, place: KeyPosition, now: u64) -> Decision {
        // In a set with a single key, that key is in the first word. If the first word has the tag
        // of the key, it is the newest copy of the key.
        let [first, ..] = &set.0;
        let word = first.load(Ordering::Acquire);
        let decided = if set::tag_of(word) == place.tag { self.ask_known(first, word, now) } else { None };
        match decided {
            Some(decision) => decision,
            None => self.ask_all(set, place, now),
        }
    }

    #[inline(never)]
    fn ask_all(&self, set: &Set, place: KeyPosition, now: u64) -> Decision {
        for _ in 0..TRIES_MAX {
            let words = set.load();
            let decided = match set::find(&words, place.tag, now) {
                Found::At(way) => {
                    let known = words.get(way).zip(set.0.get(way));
                    known.and_then(|(&word, slot)| self.ask_known(slot, word, now))
                }
                Found::Least { way, live } => self.ask_new(set, &words, (way, live), place, now),
            };
            if let Some(decision) = decided {
                return decision;
            }
        }
        Decision::blind(&self.quota)
    }

    /// Decides about a key in `slot`; `None` if another thread changed the word first.
    #[inline(always)]
    fn ask_known(&self, slot: &AtomicU64, word: u64, now: u64) -> Option<Decision> {
        let decision = Decision::of(set::owed(word, now), &self.quota);
        let new = set::word(set::tag_of(word), set::tat(now, decision.owed()));
        (!decision.is_allowed() || change(slot, word, new)).then_some(decision)
    }

    fn ask_new(
        &self,
        set: &Set,
        words: &[u64; WAYS],
        (way, live): (usize, bool),
        place: KeyPosition,
        now: u64,
    ) -> Option<Decision> {
        // A new key has no debt, and a quota allows at least one request.
        let decision = Decision::of(0, &self.quota);
        let lost = set.insert(words, way, set::word(place.tag, set::tat(now, decision.owed())))?;
        if live && lost {
            self.counts_of(place).evicted_live.fetch_add(1, Ordering::Relaxed);
        }
        Some(decision)
    }

    #[inline]
    fn counts_of(&self, place: KeyPosition) -> &SharedCounts {
        #[expect(clippy::indexing_slicing, reason = "a remainder")]
        &self.counts[place.set % COUNTS]
    }

    /// Performs the request's share of the sweep, and returns the tick for the decision. `None`
    /// while the table is being wiped.
    #[cold]
    fn perform(&self, now: u64) -> Option<u64> {
        for _ in 0..WIPE_SPINS_MAX {
            let sweep = Sweep(self.sweep.load(Ordering::Acquire));
            match sweep.work(now, self.sets.len()) {
                SweepWork::None => return Some(now),
                SweepWork::Behind { now } => return Some(now),
                SweepWork::Sweep { from, to, then } => {
                    if change(&self.sweep, sweep.0, then.0) {
                        self.sets
                            .get(from..to)
                            .unwrap_or_default()
                            .iter()
                            .for_each(|set| set.clear_expired(now));
                        return Some(now);
                    }
                }
                SweepWork::Wait => spin_loop(),
                SweepWork::Wipe { wiping, then } => {
                    if change(&self.sweep, sweep.0, wiping.0) {
                        let words = self.sets.iter().flat_map(|set| &set.0);
                        words.for_each(|word| word.store(EMPTY, Ordering::Relaxed));
                        self.sweep.store(then.0, Ordering::Release);
                        return Some(now);
                    }
                }
            }
        }
        None
    }
}

impl Set {
    /// Loads the words in order, so that a key that moves from the first word to another one is
    /// found in at least one of them.
    #[inline]
    fn load(&self) -> [u64; WAYS] {
        self.0.each_ref().map(|word| word.load(Ordering::Acquire))
    }

    /// Writes `new` into the first word and moves the key in that word to the word `least`. Returns
    /// whether the word `least` was overwritten; `None` if another thread changed a word first.
    fn insert(&self, words: &[u64; WAYS], least: usize, new: u64) -> Option<bool> {
        let ([entry, ..], [first, ..]) = (&self.0, words);
        if least == 0 {
            return change(entry, *first, new).then_some(true);
        }
        let copy = words.iter().skip(1).position(|&word| set::tag_of(word) == set::tag_of(*first));
        let to = copy.map_or(least, |position| position + 1);
        let (&old, slot) = words.get(to).zip(self.0.get(to))?;
        (change(slot, old, *first) && change(entry, *first, new)).then_some(copy.is_none())
    }

    fn clear_expired(&self, now: u64) {
        for slot in &self.0 {
            let word = slot.load(Ordering::Relaxed);
            if word != EMPTY && set::owed(word, now) == 0 {
                // If the word has changed since it was read, its key is live again, and the
                // exchange fails.
                change(slot, word, EMPTY);
            }
        }
    }
}

/// Replaces `old` by `new` in `slot`; returns false if `slot` no longer contained `old`.
#[inline]
fn change(slot: &AtomicU64, old: u64, new: u64) -> bool {
    slot.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two threads with the same new key, the second finds the word of the first, whatever both
    /// have read before.
    #[test]
    fn new_keys_meet_in_the_first_word() {
        for first_least in 0..WAYS {
            for second_least in 0..WAYS {
                let set =
                    Set([10, 11, 12, 13, 14, 15, 16, 17].map(|tag| AtomicU64::new(set::word(tag, 100))));
                let seen = set.load();
                assert_eq!(set.insert(&seen, first_least, set::word(7, 200)), Some(true));
                assert_eq!(set.insert(&seen, second_least, set::word(7, 200)), None);
                let words = set.load();
                assert_eq!(words.iter().filter(|&&word| set::tag_of(word) == 7).count(), 1);
                // Only the words chosen for eviction are lost; the key from the first word is still
                // in the set.
                for (way, &word) in seen.iter().enumerate() {
                    let gone = way == first_least || (way == second_least && first_least != second_least);
                    assert!(words.contains(&word) || gone, "{first_least} {second_least} {way}");
                }
                assert_eq!(words.contains(&seen[0]), first_least != 0 || second_least != 0);
            }
        }
    }

    /// An outdated copy left by an interrupted insertion has no effect, and is overwritten first.
    #[test]
    fn an_outdated_copy_does_no_harm() {
        let quota = Quota::new(3, 1, std::time::Duration::from_secs(1)).unwrap();
        let limiter = Limiter::new(quota, 1, [1, 2]);
        let now = Time::from_nanos(5_000_000_000);
        assert!(limiter.check(b"k", now).is_allowed());
        let slots = &limiter.sets[0].0;
        slots[4].store(slots[0].load(Ordering::SeqCst), Ordering::SeqCst);
        assert!(limiter.check(b"k", now).is_allowed());
        assert!(limiter.check(b"k", now).is_allowed());
        assert!(!limiter.check(b"k", now).is_allowed(), "the newest copy counts");
        let newest = slots[0].load(Ordering::SeqCst);
        for key in 1..=7u8 {
            limiter.check(&[key], now);
        }
        let copies =
            slots.iter().filter(|slot| set::tag_of(slot.load(Ordering::SeqCst)) == set::tag_of(newest));
        assert_eq!(copies.map(|slot| slot.load(Ordering::SeqCst)).collect::<Vec<_>>(), [newest]);
        assert!(!limiter.check(b"k", now).is_allowed());
        assert_eq!(limiter.counts().evicted_live, 0);
    }
}
