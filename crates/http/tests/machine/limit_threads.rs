//! Concurrent requests never spend the same token twice.

use doorbell_http::Time;
use doorbell_http::limit::{Limiter, Quota};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const SEED: [u64; 2] = [3, 4];
const ROUNDS: u64 = if cfg!(debug_assertions) { 3_000 } else { 30_000 };
const MS: u64 = 1_000_000;

/// Runs `threads` copies of `each` concurrently.
fn at_once(threads: u32, each: impl Fn(u32) + Sync) {
    let arrived = AtomicU32::new(0);
    thread::scope(|scope| {
        for index in 0..threads {
            let (arrived, each) = (&arrived, &each);
            scope.spawn(move || {
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < threads {
                    thread::yield_now();
                }
                each(index);
            });
        }
    });
}

#[test]
fn one_key_at_one_moment() {
    for (threads, burst) in [(2, 1), (2, 1000), (4, 100_000), (8, 7)] {
        let limiter = Limiter::new(Quota::new(burst, burst, Duration::from_secs(60)).unwrap(), 100, SEED);
        let admitted = AtomicU32::new(0);
        at_once(threads, |_| {
            let allowed =
                (0..burst).filter(|_| limiter.check(b"key", Time::from_nanos(MS)).is_allowed()).count();
            admitted.fetch_add(u32::try_from(allowed).unwrap(), Ordering::SeqCst);
        });
        assert_eq!(admitted.into_inner(), burst, "{threads} threads");
        assert_eq!(limiter.counts().allowed, u64::from(burst));
        assert_eq!(limiter.counts().denied, u64::from(burst) * u64::from(threads - 1));
    }
}

#[test]
fn one_key_over_time() {
    let limiter = Limiter::new(Quota::new(20, 1000, Duration::from_secs(1)).unwrap(), 100, SEED);
    let (clock, admitted) = (AtomicU64::new(1_000 * MS), AtomicU64::new(0));
    at_once(3, |index| {
        for request in 0..ROUNDS {
            // One thread advances the time. The other threads may be interrupted and then use an
            // outdated time.
            let step = if index == 0 { 100_000 } else { 0 };
            let now = clock.fetch_add(step, Ordering::SeqCst);
            let allowed = limiter.check(b"key", Time::from_nanos(now)).is_allowed();
            admitted.fetch_add(u64::from(allowed), Ordering::SeqCst);
            if request % 16 == 0 {
                thread::yield_now();
            }
        }
    });
    let passed = clock.into_inner() - 1_000 * MS;
    let (admitted, most) = (admitted.into_inner(), 20 + passed / MS);
    assert!(admitted <= most && admitted >= passed / MS, "{admitted} of {most}");
}

/// If all threads check the same new key of one set at once, only one request is allowed, even
/// while other keys are moved.
#[test]
fn the_same_new_key_twice() {
    let limiter = Limiter::new(Quota::new(1, 1, Duration::from_millis(1)).unwrap(), 8, SEED);
    let admitted: Vec<AtomicU32> = (0..ROUNDS).map(|_| AtomicU32::new(0)).collect();
    let (done, round_done) = (AtomicU32::new(0), AtomicU64::new(0));
    at_once(3, |index| {
        for round in 0..ROUNDS {
            // All keys of earlier rounds have expired, but some are still stored.
            let now = Time::from_nanos((round + 10) * 2 * MS);
            for other in 0..index % 2 * 3 {
                limiter.check(&[round.to_le_bytes(), u64::from(other + 1).to_le_bytes()].concat(), now);
            }
            let allowed = limiter.check(&round.to_le_bytes(), now).is_allowed();
            admitted[usize::try_from(round).unwrap()].fetch_add(u32::from(allowed), Ordering::SeqCst);
            if done.fetch_add(1, Ordering::SeqCst) == 2 {
                done.store(0, Ordering::SeqCst);
                round_done.store(round + 1, Ordering::SeqCst);
            }
            while round_done.load(Ordering::SeqCst) <= round {
                thread::yield_now();
            }
        }
    });
    let twice = admitted.iter().filter(|count| count.load(Ordering::SeqCst) != 1).count();
    assert_eq!(twice, 0);
    assert_eq!(limiter.counts().evicted_live, 0);
}

/// A wipe of the table after a pause loses no key, even if several threads check keys at that time.
#[test]
fn a_wipe_loses_no_key() {
    let limiter = Limiter::new(Quota::new(10, 10, Duration::from_millis(10)).unwrap(), 4096, SEED);
    let rounds = ROUNDS / 10;
    let (done, round_done, admitted) = (AtomicU32::new(0), AtomicU64::new(0), AtomicU64::new(0));
    at_once(2, |_| {
        for round in 0..rounds {
            let now = Time::from_nanos((round + 1) * 3_600_000 * MS);
            let allowed = (0..20).filter(|_| limiter.check(b"key", now).is_allowed()).count();
            admitted.fetch_add(allowed as u64, Ordering::SeqCst);
            if done.fetch_add(1, Ordering::SeqCst) == 1 {
                done.store(0, Ordering::SeqCst);
                round_done.store(round + 1, Ordering::SeqCst);
            }
            while round_done.load(Ordering::SeqCst) <= round {
                thread::yield_now();
            }
        }
    });
    assert_eq!(admitted.into_inner(), rounds * 10);
}
