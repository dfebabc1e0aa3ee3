//! Leases: tokens, credit, the local limit without the store, and concurrent requests.
//!
//! Does not know about: what an instance asks for; see `doorbell-shared`.

use doorbell_http::Time;
use doorbell_http::limit::{
    Credit, Grant, LIFETIME_MIN, LeaseCounts, Leases, Limiter, OnError, Quota, Usage,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const SEED: [u64; 2] = [5, 6];
const CREDIT: Credit = Credit { requests: 2, debt_max: Duration::from_secs(1) };
const HOUR: Duration = Duration::from_secs(3600);

/// The beginning of a generation.
fn start() -> Time {
    Time::from_nanos(1 << 40)
}

/// A limit of one request an hour, and its leases.
fn limiter(burst: u32, keys_max: usize, on_error: OnError) -> (Arc<Leases>, Limiter) {
    leased(Quota::new(burst, 1, HOUR).expect("a quota"), keys_max, on_error)
}

fn leased(quota: Quota, keys_max: usize, on_error: OnError) -> (Arc<Leases>, Limiter) {
    let leases = Arc::new(leases(keys_max, on_error));
    (Arc::clone(&leases), Limiter::leased(quota, 64, SEED, leases))
}

fn leases(keys_max: usize, on_error: OnError) -> Leases {
    let leases = Leases::new(keys_max, LIFETIME_MIN, CREDIT, on_error);
    leases.set_valid_until(start().after(HOUR));
    leases
}

/// Number of allowed requests out of ten.
fn allowed(limiter: &Limiter, key: &[u8], now: Time) -> usize {
    (0..10).filter(|_| limiter.check(key, now).is_allowed()).count()
}

fn active(leases: &Leases) -> Vec<usize> {
    let mut active = Vec::new();
    leases.take_active(|slot| active.push(slot));
    active
}

#[test]
fn credit_comes_first_and_tokens_end_with_the_next_generation() {
    let (leases, limiter) = limiter(100, 64, OnError::Local);
    assert_eq!(leases.lifetime(), LIFETIME_MIN);
    assert_eq!(allowed(&limiter, b"a", start()), 2, "the credit");
    let [slot] = active(&leases)[..] else { panic!("one key") };
    assert!(active(&leases).is_empty());
    let usage = leases.usage(slot, start()).unwrap();
    assert_eq!(usage, Usage { hash: usage.hash, demand: 10, held: 0, credited: 2 });
    // The debt is larger than the maximum for credit.
    let full_at = start().after(Duration::from_secs(60));
    leases.grant(slot, Grant { tokens: 12, asked: start(), full_at, charged: 2 });
    assert_eq!(allowed(&limiter, b"a", start()), 10);
    assert_eq!(leases.usage(slot, start()).unwrap(), Usage { demand: 10, held: 2, ..usage });
    let last = start().after(leases.lifetime() - Duration::from_nanos(1));
    assert_eq!(leases.usage(slot, last).unwrap().held, 2);
    assert_eq!(leases.usage(slot, start().after(leases.lifetime())).unwrap().held, 0);
    assert_eq!(allowed(&limiter, b"a", last), 2);
    leases.grant(slot, Grant { tokens: 3, asked: start(), full_at, charged: 2 });
    let next = start().after(leases.lifetime() / 2);
    leases.grant(slot, Grant { tokens: 4, asked: next, full_at, charged: 2 });
    assert_eq!(allowed(&limiter, b"a", next), 7, "of both generations");
    leases.grant(slot, Grant { tokens: 5, asked: start(), full_at, charged: 2 });
    assert_eq!(allowed(&limiter, b"a", start().after(leases.lifetime())), 0, "ended");
    // With a small debt, the key has credit again.
    assert_eq!(allowed(&limiter, b"a", start().after(Duration::from_secs(59))), 2);
    assert_eq!(leases.usage(slot, start()).unwrap().credited, 4);
    let counts = leases.counts();
    assert_eq!((counts.granted, counts.credited, counts.refused), (24, 4, 37));
    assert_eq!((limiter.counts().allowed, limiter.keys_max()), (23, 64));
    assert_eq!(limiter.keys_live(start()), 1, "the local limit counts them, too");
    assert_eq!(limiter.counts().denied, counts.refused);
}

#[test]
fn credit_needs_that_the_last_one_is_charged() {
    let (leases, limiter) = limiter(100, 64, OnError::Local);
    let now = start();
    let ask = || limiter.check(b"a", now).is_allowed();
    assert!(ask());
    let slot = active(&leases)[0];
    assert_eq!(leases.usage(slot, now).unwrap().credited, 1);
    assert!(ask(), "while the store is asked");
    let grant = Grant { tokens: 0, asked: now, full_at: now, charged: 1 };
    leases.grant(slot, grant);
    assert!(!ask(), "the second request is not charged yet");
    leases.grant(slot, Grant { charged: 2, ..grant });
    assert_eq!([ask(), ask(), ask()], [true, true, false]);
}

#[test]
fn a_refusal_contains_the_time_known_from_the_store() {
    let (leases, limiter) = limiter(3, 64, OnError::Local);
    allowed(&limiter, b"a", start());
    let slot = active(&leases)[0];
    leases.grant(
        slot,
        Grant {
            tokens: 0,
            asked: start(),
            full_at: start().after(HOUR * 3 - Duration::from_secs(60)),
            charged: 2,
        },
    );
    let refused = limiter.check(b"a", start());
    let wait = refused.retry_after(limiter.quota()).unwrap();
    assert!(wait.abs_diff(HOUR - Duration::from_secs(60)) < Duration::from_secs(1), "{wait:?}");
}

#[test]
fn without_the_store_the_local_limit_decides() {
    for (on_error, expected) in [(OnError::Local, 7), (OnError::Refuse, 0)] {
        let (leases, limiter) = limiter(7, 64, on_error);
        leases.set_valid_until(start());
        assert_eq!(allowed(&limiter, b"a", start()), expected);
        assert_eq!(leases.counts(), LeaseCounts { without_store: 10, ..LeaseCounts::default() });
        assert_eq!(active(&leases).len(), 1, "the demand is known when the store is back");
        let refused = limiter.check(b"a", start());
        assert!(refused.retry_after(limiter.quota()).unwrap() > Duration::ZERO);
    }
}

#[test]
fn keys_beyond_the_table_have_the_local_limit() {
    let (leases, limiter) = limiter(5, 8, OnError::Refuse);
    assert_eq!(leases.keys_max(), 8);
    for key in 0..8u8 {
        assert_eq!(allowed(&limiter, &[key], start()), 2);
    }
    assert_eq!(allowed(&limiter, &[8], start()), 5);
    assert_eq!(leases.counts().table_full, 10);
    let mut slots = active(&leases);
    slots.sort_unstable();
    assert_eq!(slots, (0..8).collect::<Vec<_>>());
    leases.free(3);
    assert_eq!(leases.usage(3, start()), None);
    assert_eq!(allowed(&limiter, &[9], start()), 2);
    assert_eq!(active(&leases), [3]);
    assert_eq!(leases.usage(3, start()).unwrap().credited, 2);
    assert_eq!(leases.usage(8, start()), None, "no such slot");
}

#[test]
fn each_token_is_used_once() {
    let quota = Quota::new(1 << 20, 1 << 20, HOUR).unwrap();
    let (leases, limiter) = leased(quota, 64, OnError::Refuse);
    assert_eq!(allowed(&limiter, b"a", start()), 2);
    let slot = active(&leases)[0];
    leases.grant(slot, Grant { tokens: 0, asked: start(), full_at: Time::MAX, charged: 2 });
    let used = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let count = (0..5000).filter(|_| limiter.check(b"a", start()).is_allowed()).count();
                used.fetch_add(count as u64, Ordering::SeqCst);
            });
        }
        (0..1000).for_each(|_| {
            leases.grant(slot, Grant { tokens: 3, asked: start(), full_at: Time::MAX, charged: 2 })
        });
    });
    let held = leases.usage(slot, start()).unwrap().held;
    assert_eq!(used.into_inner() + held, 3000);
}
