//! Tokens of a limit that several instances share, granted in advance by a store.
//!
//! Requests take tokens here without waiting; the owner of the connection to the store reads the
//! demand of each key and adds what was granted.
//!
//! **A lease.** Time is divided into generations of equal length. A grant belongs to the generation
//! in which it was asked for, and ends with the following generation. A token is therefore used at
//! most [`Leases::lifetime`] after the store granted it, and a store that shortens the burst by
//! this time never admits more than the limit.
//!
//! **A key without tokens**, such as a new one, gets *credit*: a few requests that the store
//! charges afterwards. Condition: as far as known, most of its burst is available. The next grant
//! ends the credit, and there is no further credit until the store has charged all of it.
//!
//! **Without the store** [`OnError`] applies after the time of [`Leases::set_valid_until`]. About
//! keys beyond the capacity of the table, the local limit decides. Both cases are counted.

use super::Limiter;
use super::decision::Decision;
use super::set::WAYS;
use crate::Time;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Minimum of [`Leases::lifetime`].
pub const LIFETIME_MIN: Duration = Duration::from_nanos(2 << GENERATION_BITS_MIN);

/// Nanoseconds of a generation, as a power of two: 134 ms to 69 s.
const GENERATION_BITS_MIN: u32 = 27;
const GENERATION_BITS_MAX: u32 = 36;
/// Maximum number of attempts to change a word. A failed attempt means that another thread
/// succeeded, but no thread may wait without end.
const TRIES_MAX: u32 = 1 << 10;
const COUNTS: usize = 16;
/// Flag in the credit of a slot.
const OPEN: u64 = 1 << 31;
const BITS: usize = u64::BITS as usize;

/// The leased tokens of one limit, shared by all workers of a process.
#[derive(Debug)]
pub struct Leases {
    keys: Box<[Keys]>,
    slots: Box<[Slot]>,
    /// A bit for each slot with demand since the last [`Leases::take_active`].
    active: Box<[AtomicU64]>,
    /// Nanoseconds of the time from which on [`OnError`] applies.
    valid_until: AtomicU64,
    /// A generation of leases lasts `1 << generation_bits` nanoseconds.
    generation_bits: u32,
    credit: Credit,
    on_error: OnError,
    counts: Box<[Shard; COUNTS]>,
}

/// The decision about requests while the store does not reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnError {
    /// The local limit decides.
    #[default]
    Local,
    /// Requests are refused.
    Refuse,
}

/// Requests of a key without tokens that are allowed before the store is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Number of requests before a grant.
    pub requests: u32,
    /// Maximum debt of the key: time until its whole burst is available again.
    pub debt_max: Duration,
}

/// Statistics of leases since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// Tokens granted by the store.
    pub granted: u64,
    /// Requests allowed on credit.
    pub credited: u64,
    /// Requests refused because the key had no token.
    pub refused: u64,
    /// Requests decided without the store, because it did not reply.
    pub without_store: u64,
    /// Requests decided by the local limit, because the table was full.
    pub table_full: u64,
}

impl LeaseCounts {
    /// Names and values of the counters.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { granted, credited, refused, without_store, table_full } = *self;
        let names = ["granted", "credited", "refused", "without_store", "table_full"];
        names.into_iter().zip([granted, credited, refused, without_store, table_full])
    }
}

/// A reply of the store for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Number of new tokens.
    pub tokens: u32,
    /// When the tokens were requested.
    pub asked: Time,
    /// When the whole burst of the key is available again.
    pub full_at: Time,
    /// The value of [`Usage::credited`] up to which the store has charged the requests on credit.
    pub charged: u32,
}

/// The use of a slot since the previous [`Leases::usage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The keyed hash that identifies the client; never zero.
    pub hash: u64,
    /// Number of requests, allowed or not.
    pub demand: u64,
    /// Number of unused tokens.
    pub held: u64,
    /// Number of requests allowed on credit since the slot was last free, wrapping around.
    pub credited: u32,
}

/// The hashes of the keys in one set of slots: one cache line. Zero: the slot is free.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Keys([AtomicU64; WAYS]);

/// The state of one key: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// Tokens of an even and of an odd generation: 32 bits of the generation, 32 bits of tokens.
    tokens: [AtomicU64; 2],
    demand: AtomicU64,
    /// 32 bits of requests allowed on credit, [`OPEN`] from the first one until the store has
    /// charged all, and 31 bits of remaining credit.
    credit: AtomicU64,
    /// Nanoseconds of the time at which the whole burst is available again, according to the store.
    full_at: AtomicU64,
}

/// Counters for a part of the keys, so that workers rarely write to the same cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    granted: AtomicU64,
    credited: AtomicU64,
    refused: AtomicU64,
    without_store: AtomicU64,
    table_full: AtomicU64,
}

impl Leases {
    /// Creates a table for `keys_max` keys of 72 bytes each. Tokens live for at most `lifetime`,
    /// rounded down to a power of two in nanoseconds, but at least [`LIFETIME_MIN`].
    pub fn new(keys_max: usize, lifetime: Duration, credit: Credit, on_error: OnError) -> Self {
        let nanos = u64::try_from(lifetime.as_nanos()).unwrap_or(u64::MAX).max(2);
        let sets = keys_max.clamp(1, super::KEYS_MAX).div_ceil(WAYS);
        Self {
            keys: (0..sets).map(|_| Keys::default()).collect(),
            slots: (0..sets * WAYS).map(|_| Slot::default()).collect(),
            active: (0..(sets * WAYS).div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect(),
            valid_until: AtomicU64::new(0),
            generation_bits: (nanos.ilog2() - 1).clamp(GENERATION_BITS_MIN, GENERATION_BITS_MAX),
            credit,
            on_error,
            counts: Box::default(),
        }
    }

    /// Decides about one request of the key with this hash, which is not zero. A token or credit is
    /// required. The local limit counts the request, too, so that it can decide alone later; it is
    /// exhausted later than the tokens.
    pub(super) fn check(&self, limiter: &Limiter, hash: u64, now: Time) -> Decision {
        let slot = self.slot_of(hash);
        slot.inspect(|&index| self.demand(index));
        let shard = self.shard(hash);
        if now.as_nanos() >= self.valid_until.load(Ordering::Relaxed) {
            add(&shard.without_store, 1);
            return match self.on_error {
                OnError::Local => limiter.check_hash(hash, now),
                OnError::Refuse => limiter.refusal(now, Time::MAX),
            };
        }
        let Some(slot) = slot.and_then(|index| self.slots.get(index)) else {
            add(&shard.table_full, 1);
            return limiter.check_hash(hash, now);
        };
        let is_credited = !slot.take_token(self.generation(now));
        if is_credited && !slot.take_credit(self.credit, now) {
            add(&shard.refused, 1);
            return limiter.refusal(now, Time::from_nanos(slot.full_at.load(Ordering::Relaxed)));
        }
        add(&shard.credited, is_credited.into());
        limiter.check_hash(hash, now)
    }

    /// Maximum time from asking the store for a token to the use of the token: two generations.
    pub const fn lifetime(&self) -> Duration {
        Duration::from_nanos(2 << self.generation_bits)
    }

    /// Number of slots.
    pub fn keys_max(&self) -> usize {
        self.slots.len()
    }

    /// Declares leases valid until `until`. After this time, [`OnError`] applies.
    pub fn set_valid_until(&self, until: Time) {
        self.valid_until.store(until.as_nanos(), Ordering::Relaxed);
    }

    /// Calls `each` with every slot that has had a request since the previous call.
    pub fn take_active(&self, mut each: impl FnMut(usize)) {
        for (word, bits) in self.active.iter().enumerate() {
            if bits.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let bits = bits.swap(0, Ordering::Acquire);
            (0..BITS).filter(|bit| bits >> bit & 1 == 1).for_each(|bit| each(word * BITS + bit));
        }
    }

    /// Returns the use of a slot and starts to count its demand anew.
    pub fn usage(&self, index: usize, now: Time) -> Option<Usage> {
        let slot = self.slots.get(index)?;
        let hash = self.key(index)?.load(Ordering::Acquire);
        (hash != 0).then(|| Usage {
            hash,
            demand: slot.demand.swap(0, Ordering::Relaxed),
            held: slot.held(self.generation(now)),
            credited: high(slot.credit.load(Ordering::Relaxed)),
        })
    }

    /// Adds the tokens of a grant and ends the credit of the key. There is new credit only after
    /// the store has charged all of the last credit.
    pub fn grant(&self, index: usize, grant: Grant) {
        let Grant { tokens, asked, full_at, charged } = grant;
        let Some(slot) = self.slots.get(index) else { return };
        slot.full_at.store(full_at.as_nanos(), Ordering::Relaxed);
        slot.add_tokens(tokens, self.generation(asked));
        add(&self.shard(index as u64).granted, tokens.into());
        change(&slot.credit, |word| {
            let open = if high(word) == charged { 0 } else { OPEN };
            Some(u64::from(high(word)) << 32 | open)
        });
    }

    /// Frees a slot for another key.
    pub fn free(&self, index: usize) {
        if let (Some(slot), Some(key)) = (self.slots.get(index), self.key(index)) {
            slot.tokens.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            slot.demand.store(0, Ordering::Relaxed);
            slot.full_at.store(0, Ordering::Relaxed);
            slot.credit.store(0, Ordering::Relaxed);
            key.store(0, Ordering::Release);
        }
    }

    /// The statistics.
    pub fn counts(&self) -> LeaseCounts {
        let sum = |of: fn(&Shard) -> &AtomicU64| {
            self.counts.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum()
        };
        LeaseCounts {
            granted: sum(|shard| &shard.granted),
            credited: sum(|shard| &shard.credited),
            refused: sum(|shard| &shard.refused),
            without_store: sum(|shard| &shard.without_store),
            table_full: sum(|shard| &shard.table_full),
        }
    }

    /// The slot of a key. A new key takes a free slot of its set; `None` if there is none. Two
    /// threads that take slots for one new key while another slot of its set is freed may get
    /// different ones: the key then has two leases.
    fn slot_of(&self, hash: u64) -> Option<usize> {
        let set = usize::try_from((u128::from(hash) * self.keys.len() as u128) >> 64).ok()?;
        let Keys(keys) = self.keys.get(set)?;
        let found = || keys.iter().position(|key| key.load(Ordering::Acquire) == hash);
        let index = |way: usize| set * WAYS + way;
        if let Some(way) = found() {
            return Some(index(way));
        }
        for (way, key) in keys.iter().enumerate() {
            match key.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(index(way)),
                Err(other) if other == hash => return Some(index(way)),
                Err(_) => {}
            }
        }
        None
    }

    fn demand(&self, index: usize) {
        if let Some(slot) = self.slots.get(index)
            && slot.demand.fetch_add(1, Ordering::Relaxed) == 0
            && let Some(bits) = self.active.get(index / BITS)
        {
            bits.fetch_or(1 << (index % BITS), Ordering::Release);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "generations wrap around after 18 years")]
    const fn generation(&self, time: Time) -> u32 {
        (time.as_nanos() >> self.generation_bits) as u32
    }

    fn key(&self, index: usize) -> Option<&AtomicU64> {
        self.keys.get(index / WAYS)?.0.get(index % WAYS)
    }

    fn shard(&self, hash: u64) -> &Shard {
        #[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "a remainder")]
        &self.counts[hash as usize % COUNTS]
    }
}

impl Slot {
    /// Takes a token, the oldest one first.
    fn take_token(&self, generation: u32) -> bool {
        [generation.wrapping_sub(1), generation].into_iter().any(|generation| {
            let changed = change(self.of(generation), |word| {
                (high(word) == generation && low(word) > 0).then(|| word - 1)
            });
            changed.is_some()
        })
    }

    fn take_credit(&self, credit: Credit, now: Time) -> bool {
        let latest = now.after(credit.debt_max).as_nanos();
        let opens = || credit.requests > 0 && self.full_at.load(Ordering::Relaxed) <= latest;
        let taken = change(&self.credit, |word| {
            let left = word & (OPEN - 1);
            match word & OPEN != 0 {
                true => (left > 0).then(|| word.wrapping_add(1 << 32) - 1),
                false => opens().then(|| word.wrapping_add(1 << 32) | OPEN | u64::from(credit.requests - 1)),
            }
        });
        taken.is_some()
    }

    fn add_tokens(&self, tokens: u32, generation: u32) {
        change(self.of(generation), |word| {
            let left = if high(word) == generation { low(word) } else { 0 };
            Some(u64::from(generation) << 32 | u64::from(left.saturating_add(tokens)))
        });
    }

    /// Number of tokens that requests in this generation can take.
    fn held(&self, generation: u32) -> u64 {
        let of = |generation: u32| {
            let word = self.of(generation).load(Ordering::Relaxed);
            if high(word) == generation { low(word) } else { 0 }
        };
        u64::from(of(generation.wrapping_sub(1))) + u64::from(of(generation))
    }

    const fn of(&self, generation: u32) -> &AtomicU64 {
        let [even, odd] = &self.tokens;
        if generation.is_multiple_of(2) { even } else { odd }
    }
}

/// Replaces the value by that of `next`, and returns it; `None` if `next` returns `None` or every
/// attempt fails.
fn change(word: &AtomicU64, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let mut seen = word.load(Ordering::Relaxed);
    for _ in 0..TRIES_MAX {
        let new = next(seen)?;
        match word.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Some(new),
            Err(other) => seen = other,
        }
    }
    None
}

fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the low half")]
const fn low(word: u64) -> u32 {
    word as u32
}
