//! During a flood of new keys the table does not grow, and the decisions for known keys do not
//! change.

use allocation_counter::measure;
use doorbell_http::Time;
use doorbell_http::limit::{Decision, Limiter, Quota};
use std::time::Duration;

const KEYS: u64 = if cfg!(debug_assertions) { 1_000_000 } else { 10_000_000 };
const ROOM: usize = 65_536;
const MS: u64 = 1_000_000;
/// Time before the flood.
const WARM_MS: u64 = 3_000;

/// Ten requests a second.
fn quota() -> Quota {
    Quota::per_second(10).expect("a quota")
}

/// The request patterns of known keys: interval in milliseconds, requests per interval.
const KNOWN: [(u64, u32); 4] = [
    // A key far below its quota.
    (150, 1),
    // A key with bursts within its quota.
    (1_000, 5),
    // A key 20 % above its quota, whose excess requests are refused.
    (83, 1),
    // A key with requests at twice its quota.
    (50, 1),
];
/// Number of keys for each of these patterns.
const EACH: u64 = 100;

/// A flood: new keys per millisecond, and requests per key.
#[derive(Clone, Copy)]
struct Flood {
    per_ms: u64,
    times: u32,
}

/// Records the decisions for the known keys, with or without the flood.
fn run<D>(flood: Flood, on: bool, decisions: &mut Vec<D>, mut check: impl FnMut([u64; 2], Time) -> D) {
    let mut new = 0;
    for ms in 0..WARM_MS + KEYS / flood.per_ms {
        let now = Time::from_nanos((1_000_000 + ms) * MS);
        for (way, (every, requests)) in (0..).zip(KNOWN) {
            for key in way * EACH..(way + 1) * EACH {
                if (ms + key * 7).is_multiple_of(every) {
                    decisions.extend((0..requests).map(|_| check([1, key], now)));
                }
            }
        }
        if on && ms >= WARM_MS {
            for _ in 0..flood.per_ms {
                (0..flood.times).for_each(|_| drop(check([2, new], now)));
                new += 1;
            }
        }
    }
}

fn bytes([kind, key]: [u64; 2]) -> [u8; 16] {
    (u128::from(kind) << 64 | u128::from(key)).to_le_bytes()
}

/// Returns the decisions for the known keys without and with the flood, and the limiter after the
/// flood.
fn both(flood: Flood) -> (Vec<Decision>, Vec<Decision>, Limiter) {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let alone = Limiter::new(quota(), ROOM, [5, 6]);
    run(flood, false, &mut without, |key, now| alone.check(&bytes(key), now));
    with.reserve(without.len());
    let flooded = Limiter::new(quota(), ROOM, [5, 6]);
    let info = measure(|| run(flood, true, &mut with, |key, now| flooded.check(&bytes(key), now)));
    assert_eq!(info.count_total, 0, "no memory is allocated: {info:?}");
    assert!(without.iter().any(|decision| !decision.is_allowed()));
    let total = flooded.counts().allowed + flooded.counts().denied;
    assert_eq!(total, with.len() as u64 + KEYS * u64::from(flood.times));
    (without, with, flooded)
}

fn changed<D>(without: &[D], with: &[D], is_allowed: impl Fn(&D) -> bool) -> usize {
    assert_eq!(without.len(), with.len());
    without.iter().zip(with).filter(|(a, b)| is_allowed(a) != is_allowed(b)).count()
}

#[test]
fn a_flood_that_fits_changes_nothing() {
    let (without, with, _) = both(Flood { per_ms: 80, times: 1 });
    assert!(without == with, "all decisions are equal");
}

/// A flood with 1.5 or 3 times as many live keys as the table holds does not change whether
/// requests of known keys are allowed.
#[test]
fn a_flood_that_does_not_fit_changes_no_verdict() {
    for flood in [Flood { per_ms: 1_000, times: 1 }, Flood { per_ms: 1_000, times: 2 }] {
        let (without, with, limiter) = both(flood);
        assert_eq!(changed(&without, &with, Decision::is_allowed), 0);
        assert!(limiter.counts().evicted_live > KEYS / 20, "{:?}", limiter.counts());
        assert_eq!(limiter.keys_max(), ROOM);
    }
}

/// The CLOCK policy would change decisions: it evicts the key that its hand reaches if the key has
/// not been used since the last pass, and then allows requests that exceed the quota of that key.
#[test]
fn a_clock_would_change_verdicts() {
    let flood = Flood { per_ms: 1_000, times: 2 };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut alone = ClockTable::new();
    run(flood, false, &mut without, |key, now| alone.check(key, now));
    let mut flooded = ClockTable::new();
    run(flood, true, &mut with, |key, now| flooded.check(key, now));
    let changed = changed(&without, &with, |allowed| *allowed);
    assert!(changed > without.len() / 100, "{changed} of {}", without.len());
}

/// A table of sets of eight words, each set with its own clock hand. Keys are stored in full, not
/// as hashes.
struct ClockTable {
    sets: Vec<([ClockWord; 8], usize)>,
    window: Duration,
    price: Duration,
}

#[derive(Clone, Copy, Default)]
struct ClockWord {
    key: [u64; 2],
    tat: Time,
    referenced: bool,
}

impl ClockTable {
    fn new() -> Self {
        let sets = vec![([ClockWord::default(); 8], 0); ROOM / 8];
        Self { sets, window: Duration::from_secs(1), price: Duration::from_millis(100) }
    }

    /// Returns whether the request is allowed.
    fn check(&mut self, key: [u64; 2], now: Time) -> bool {
        let mixed = (key[1] ^ key[0] << 60).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51;
        let (words, hand) = &mut self.sets[usize::try_from(mixed).expect("13 bits")];
        let found = words.iter().position(|word| word.key == key && word.tat > now);
        let way = found.or_else(|| words.iter().position(|word| word.tat <= now)).unwrap_or_else(|| {
            loop {
                let way = *hand;
                *hand = (*hand + 1) % 8;
                if !std::mem::take(&mut words[way].referenced) {
                    break way;
                }
            }
        });
        let word = &mut words[way];
        if found.is_none() {
            *word = ClockWord { key, tat: now, referenced: false };
        } else {
            word.referenced = true;
        }
        let next = word.tat.max(now).after(self.price);
        let is_allowed = next.since(now) <= self.window;
        if is_allowed {
            word.tat = next;
        }
        is_allowed
    }
}
