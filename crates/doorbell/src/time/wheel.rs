//! Deadlines by slot: a hashed timer wheel with intrusive lists, so that arming, moving and
//! removing a deadline takes a few stores.
//!
//! The wheel is lazy: a deadline that moves to a later time keeps its bucket and is checked when
//! that bucket expires, so a keep-alive request usually costs the wheel nothing.

use super::Time;
use crate::id::SlotIndex;

/// Width of a bucket. A deadline expires at most this time late, plus the delay until the worker
/// checks the wheel.
const TICK_NANOS: u64 = 64_000_000;

/// Number of buckets, a power of two; together they cover 65 s. A later deadline is put into the
/// last bucket and armed again when that bucket expires.
const BUCKETS: usize = 1024;

const NONE: u32 = u32::MAX;

/// The timer wheel. The [module](self) documents it.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Box<[u32]>,
    /// One bit per bucket, set if the bucket is not empty.
    occupied: [u64; BUCKETS / 64],
    nodes: Vec<Node>,
    /// First tick that may have deadlines: all earlier ticks are empty.
    tick_next: u64,
    /// Tick of the last call of [`Wheel::expire`] that found a slot due.
    tick_now: u64,
    /// Lower bound of the ticks of all armed slots; valid while a slot is armed. After a disarm the
    /// bound may be lower than necessary.
    earliest: u64,
    armed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    prev: u32,
    next: u32,
    /// Start of the tick of the slot's deadline, in nanoseconds, or [`UNTIMED`]. The time is stored
    /// instead of the number of the tick, because every request compares a deadline with it, and a
    /// division would cost more than the comparison.
    since: u64,
}

impl Node {
    const fn is_armed(self) -> bool {
        self.since != UNTIMED
    }

    const fn tick(self) -> u64 {
        self.since / TICK_NANOS
    }
}

/// A time later than any tick.
const UNTIMED: u64 = u64::MAX;

const UNARMED: Node = Node { prev: NONE, next: NONE, since: UNTIMED };

impl Wheel {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            heads: vec![NONE; BUCKETS].into_boxed_slice(),
            occupied: [0; BUCKETS / 64],
            nodes: Vec::new(),
            tick_next: now.as_nanos() / TICK_NANOS,
            tick_now: 0,
            earliest: 0,
            armed: 0,
        }
    }

    /// Ensures that `slot` expires at most one tick after `deadline`. It may also expire earlier.
    #[inline(always)]
    pub(crate) fn arm(&mut self, slot: SlotIndex, deadline: Time) {
        // A deadline at or after the armed one needs no change: it is checked again when the armed
        // deadline expires.
        if self.nodes.get(slot.index()).is_none_or(|node| node.since > deadline.as_nanos()) {
            self.link(slot, deadline.as_nanos() / TICK_NANOS);
        }
    }

    #[inline(never)]
    fn link(&mut self, slot: SlotIndex, tick: u64) {
        let index = slot.index();
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, UNARMED);
        }
        // A tick expires when it is over, so its deadlines have passed. Every armed tick is the
        // current one, or less than one lap ahead of it. While slots expire, the current tick is
        // not over: a slot that is armed again with a passed deadline expires in a later turn.
        let last = self.tick_next + BUCKETS as u64 - 1;
        let tick = tick.clamp(self.tick_next.max(self.tick_now).min(last), last);
        self.disarm(slot);
        let bucket = bucket_of(tick);
        let head = self.heads[bucket];
        self.nodes[index] = Node { prev: NONE, next: head, since: tick * TICK_NANOS };
        if head != NONE {
            self.nodes[head as usize].prev = slot.0;
        }
        self.heads[bucket] = slot.0;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.earliest = if self.armed == 0 { tick } else { self.earliest.min(tick) };
        self.armed += 1;
    }

    /// Removes `slot`; does nothing if it is not armed.
    #[inline(always)]
    pub(crate) fn disarm(&mut self, slot: SlotIndex) {
        if self.nodes.get(slot.index()).is_some_and(|node| node.is_armed()) {
            self.unlink(slot);
        }
    }

    fn unlink(&mut self, slot: SlotIndex) {
        let node = self.nodes[slot.index()];
        match node.prev {
            NONE => self.set_head(bucket_of(node.tick()), node.next),
            prev => self.nodes[prev as usize].next = node.next,
        }
        if node.next != NONE {
            self.nodes[node.next as usize].prev = node.prev;
        }
        self.nodes[slot.index()].since = UNTIMED;
        self.armed -= 1;
    }

    /// True if the tick of an armed slot may have passed.
    #[inline(always)]
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let tick_now = now.as_nanos() / TICK_NANOS;
        let is_due = self.armed != 0 && self.earliest < tick_now;
        if !is_due {
            self.tick_next = self.tick_next.max(tick_now);
        }
        is_due
    }

    /// Disarms and returns the next slot whose tick has passed. The caller compares the actual
    /// deadline of the slot, and arms the slot again if the deadline has moved.
    pub(crate) fn expire(&mut self, now: Time) -> Option<SlotIndex> {
        if self.is_due(now) { self.expire_before(now.as_nanos() / TICK_NANOS) } else { None }
    }

    fn expire_before(&mut self, tick_now: u64) -> Option<SlotIndex> {
        self.tick_now = tick_now;
        while self.tick_next < tick_now {
            let head = self.heads[bucket_of(self.tick_next)];
            if head == NONE {
                self.tick_next += 1;
                continue;
            }
            let slot = SlotIndex(head);
            debug_assert!(self.nodes[slot.index()].tick() <= self.tick_next, "a bucket holds one lap only");
            self.disarm(slot);
            return Some(slot);
        }
        self.earliest = self.tick_next + self.first_occupied_ahead().unwrap_or(0);
        None
    }

    /// Returns the time at which to call [`Wheel::expire`] next; [`Time::MAX`] if no slot is armed.
    #[inline]
    pub(crate) const fn due(&self) -> Time {
        if self.armed == 0 { Time::MAX } else { Time::from_nanos((self.earliest + 1) * TICK_NANOS) }
    }

    /// Number of armed slots.
    pub(crate) const fn armed(&self) -> usize {
        self.armed
    }

    fn set_head(&mut self, bucket: usize, head: u32) {
        self.heads[bucket] = head;
        if head == NONE {
            self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        }
    }

    /// Returns the number of ticks from `tick_next` to the first occupied bucket.
    fn first_occupied_ahead(&self) -> Option<u64> {
        let start = bucket_of(self.tick_next);
        let (word, bit) = (start / 64, start % 64);
        let words = self.occupied.len();
        // The first word is read twice: first its bits from the start bit up, and at the end of the
        // lap its bits below the start bit.
        (0..=words).find_map(|step| {
            let mut bits = self.occupied[(word + step) % words];
            if step == 0 {
                bits &= u64::MAX << bit;
            } else if step == words {
                bits &= !(u64::MAX << bit);
            }
            let first = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            let bucket = (word + step) % words * 64 + first;
            Some(((bucket + BUCKETS - start) % BUCKETS) as u64)
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is below 1,024")]
const fn bucket_of(tick: u64) -> usize {
    (tick % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_testkit::sim::Rng;
    use std::collections::BTreeMap;

    const fn at_ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn expired(wheel: &mut Wheel, now: Time) -> Vec<u32> {
        let mut slots: Vec<_> = core::iter::from_fn(|| wheel.expire(now)).map(|slot| slot.0).collect();
        slots.sort_unstable();
        slots
    }

    #[test]
    fn expires_after_the_deadline_and_within_a_tick() {
        for deadline_ms in [1, 63, 64, 65, 1_000, 9_999, 65_000] {
            let mut wheel = Wheel::new(at_ms(0));
            wheel.arm(SlotIndex(3), at_ms(deadline_ms));
            let fired_ms =
                (0..70_000).find(|ms| !expired(&mut wheel, at_ms(*ms)).is_empty()).expect("it fires");
            assert!(fired_ms >= deadline_ms, "{fired_ms} < {deadline_ms}");
            assert!(fired_ms - deadline_ms <= 65, "{fired_ms} ms is late for {deadline_ms} ms");
        }
    }

    #[test]
    fn a_deadline_beyond_the_wheel_comes_up_early_and_can_be_armed_again() {
        let mut wheel = Wheel::new(at_ms(0));
        let hour = at_ms(3_600_000);
        wheel.arm(SlotIndex(0), hour);
        let mut looks = 0;
        let mut now_ms = 0;
        while now_ms < 3_600_000 {
            now_ms += 1_000;
            for slot in expired(&mut wheel, at_ms(now_ms)) {
                looks += 1;
                if at_ms(now_ms) < hour {
                    wheel.arm(SlotIndex(slot), hour);
                }
            }
        }
        assert!((54..=58).contains(&looks), "one check per lap: {looks}");
    }

    #[test]
    fn moving_earlier_moves_and_moving_later_is_lazy() {
        let mut wheel = Wheel::new(at_ms(0));
        wheel.arm(SlotIndex(0), at_ms(1_000));
        wheel.arm(SlotIndex(0), at_ms(5_000));
        assert_eq!(expired(&mut wheel, at_ms(1_100)), [0]);
        wheel.arm(SlotIndex(0), at_ms(5_000));
        wheel.arm(SlotIndex(0), at_ms(2_000));
        assert_eq!(expired(&mut wheel, at_ms(2_100)), [0]);
        assert_eq!(wheel.armed(), 0);
    }

    #[test]
    fn a_disarmed_slot_never_fires_and_its_neighbours_do() {
        for middle in 0..3 {
            let mut wheel = Wheel::new(at_ms(0));
            (0..3).for_each(|slot| wheel.arm(SlotIndex(slot), at_ms(500)));
            wheel.disarm(SlotIndex(middle));
            wheel.disarm(SlotIndex(middle));
            let others: Vec<_> = (0..3).filter(|slot| *slot != middle).collect();
            assert_eq!(expired(&mut wheel, at_ms(600)), others);
        }
    }

    #[test]
    fn a_passed_deadline_that_is_armed_again_expires_in_a_later_turn() {
        // A suspended system wakes up after several laps.
        for now_ms in [1_000, 1_000_000] {
            let mut wheel = Wheel::new(at_ms(0));
            (0..3).for_each(|slot| wheel.arm(SlotIndex(slot), at_ms(500)));
            let mut turns = Vec::new();
            for turn in 1..4 {
                let mut expired = 0;
                while let Some(slot) = wheel.expire(at_ms(now_ms + turn * 64)) {
                    wheel.arm(slot, at_ms(0));
                    expired += 1;
                    assert!(expired < 100, "the turn ends");
                }
                turns.push(expired);
            }
            assert_eq!(turns.last(), Some(&3), "each slot expires once in a turn: {turns:?}");
        }
    }

    #[test]
    fn the_wait_ends_when_something_is_due() {
        let mut wheel = Wheel::new(at_ms(0));
        assert_eq!(wheel.due(), Time::MAX);
        wheel.arm(SlotIndex(0), at_ms(10_000));
        let wait = wheel.due().since(at_ms(0));
        assert!((10_000..=10_064).contains(&wait.as_millis()), "{wait:?}");
        assert_eq!(expired(&mut wheel, at_ms(0).after(wait)), [0]);
    }

    #[test]
    fn the_first_occupied_bucket_is_found_from_anywhere() {
        for start_ms in (0..70_000).step_by(617) {
            for ahead_ms in (1..65_000).step_by(997) {
                let mut wheel = Wheel::new(at_ms(start_ms));
                wheel.arm(SlotIndex(1), at_ms(start_ms + ahead_ms));
                wheel.arm(SlotIndex(0), at_ms(start_ms + 65_000));
                let wait_ms = wheel.due().since(at_ms(start_ms)).as_millis();
                let ahead_ms = u128::from(ahead_ms);
                assert!((ahead_ms..=ahead_ms + 64).contains(&wait_ms), "{start_ms}+{ahead_ms}: {wait_ms}");
            }
        }
    }

    /// Arms and removes slots at any point of several laps. The reference is a map of deadlines.
    #[test]
    fn the_wait_ends_when_a_deadline_is_due_after_any_history() {
        for seed in 0..300 {
            let (mut rng, mut now_ms) = (Rng::new(seed), seed * 977);
            let (mut wheel, mut armed) = (Wheel::new(at_ms(now_ms)), BTreeMap::new());
            for _ in 0..200 {
                let slot = u32::try_from(rng.range(0..3)).expect("a small number");
                if armed.remove(&slot).is_some() {
                    wheel.disarm(SlotIndex(slot));
                } else {
                    // Half of the deadlines are nearly a lap ahead. Their bits are in the word of the
                    // current tick, which the search reads first and, after the wrap, once more.
                    let ahead_ms = if rng.hits(500_000) { 1..61_000 } else { 61_000..65_000 };
                    let deadline_ms = now_ms + rng.range(ahead_ms);
                    wheel.arm(SlotIndex(slot), at_ms(deadline_ms));
                    armed.insert(slot, deadline_ms);
                }
                now_ms += rng.range(0..9_000);
                let is_due = wheel.due() <= at_ms(now_ms);
                // A worker also checks the wheel once per turn.
                for slot in expired(&mut wheel, at_ms(now_ms)) {
                    let deadline_ms = armed.remove(&slot).expect("only armed slots expire");
                    assert!(deadline_ms <= now_ms, "seed {seed}: {slot} is early");
                }
                assert_eq!(wheel.armed(), armed.len(), "seed {seed}");
                let due = armed.values().min().map_or(Time::MAX, |first_ms| at_ms((first_ms / 64 + 1) * 64));
                // After a slot was disarmed, the wait may end too early.
                assert!(wheel.due() <= due, "seed {seed}: {now_ms}, {armed:?}, {:?}", wheel.due());
                assert!(wheel.due() > at_ms(now_ms), "seed {seed}: a turn expires every past deadline");
                assert!(!is_due || wheel.due() == due, "seed {seed}: {now_ms}, {armed:?}, {:?}", wheel.due());
            }
        }
    }

    #[test]
    fn a_long_pause_expires_everything_once() {
        let mut wheel = Wheel::new(at_ms(0));
        (0..100).for_each(|slot| wheel.arm(SlotIndex(slot), at_ms(u64::from(slot) * 700)));
        assert_eq!(expired(&mut wheel, at_ms(10_000_000)).len(), 100);
        wheel.arm(SlotIndex(5), at_ms(10_000_500));
        assert_eq!(expired(&mut wheel, at_ms(10_000_600)), [5]);
    }
}
