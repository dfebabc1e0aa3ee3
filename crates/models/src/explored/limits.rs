//! Models of the limiter that workers share: one token never admits two concurrent requests.
//!
//! The limiter of a model has a single set of entries, so that all keys of the model can collide.

use std::sync::Arc;
use std::time::Duration;

use loom::thread::{self, JoinHandle};

use super::explore;
use crate::Time;
use crate::limit::{Limiter, Quota};

/// Fixed time, so that no tokens are refilled while a model runs.
const NOW: Time = Time::from_nanos(1_000_000_000_000);

/// Creates a limiter with a single set, which has no entry for the keys of the models.
fn limiter(burst: u32) -> Arc<Limiter> {
    let quota = Quota::new(burst, 1, Duration::from_secs(3600)).expect("a quota");
    let limiter = Limiter::new(quota, 1, [1, 2]);
    // The first request starts the sweep of expired entries. It uses a separate key, so that no key
    // of a model loses a token.
    assert!(limiter.check(b"first", NOW).is_allowed());
    Arc::new(limiter)
}

fn ask(limiter: &Arc<Limiter>, key: &'static [u8]) -> JoinHandle<bool> {
    let limiter = Arc::clone(limiter);
    thread::spawn(move || limiter.check(key, NOW).is_allowed())
}

fn allowed(asked: JoinHandle<bool>) -> u32 {
    u32::from(asked.join().expect("the limiter does not panic"))
}

/// Returns how many consecutive requests of a key are still allowed.
fn left(limiter: &Limiter, key: &[u8]) -> u32 {
    (0..4).map(|_| u32::from(limiter.check(key, NOW).is_allowed())).sum()
}

/// Two threads check an unknown key at the same time with a burst of one: one request is allowed.
pub fn new_key() -> usize {
    explore(None, || {
        let limiter = limiter(1);
        let other = ask(&limiter, b"a");
        let here = u32::from(limiter.check(b"a", NOW).is_allowed());
        assert_eq!(here + allowed(other), 1);
        assert_eq!(left(&limiter, b"a"), 0);
    })
}

/// Two threads check a key with one token left: one request is allowed.
pub fn last_token() -> usize {
    explore(None, || {
        let limiter = limiter(2);
        assert!(limiter.check(b"a", NOW).is_allowed());
        let other = ask(&limiter, b"a");
        let here = u32::from(limiter.check(b"a", NOW).is_allowed());
        assert_eq!(here + allowed(other), 1);
        assert_eq!(left(&limiter, b"a"), 0);
    })
}

/// Key `a` spends its last token while the new key `b` takes the slot of `a`, whose entry moves:
/// both requests are allowed, and `a` has no token left.
pub fn pushed_aside() -> usize {
    explore(None, || {
        let limiter = limiter(2);
        assert!(limiter.check(b"a", NOW).is_allowed());
        let other = ask(&limiter, b"b");
        let here = u32::from(limiter.check(b"a", NOW).is_allowed());
        assert_eq!((here, allowed(other)), (1, 1), "each key has a token");
        assert_eq!((left(&limiter, b"a"), left(&limiter, b"b")), (0, 1));
    })
}

/// Three threads check two new keys with a burst of one: each key is allowed once.
pub fn two_new_keys() -> usize {
    explore(Some(2), || {
        let limiter = limiter(1);
        let others = [ask(&limiter, b"a"), ask(&limiter, b"b")];
        let here = u32::from(limiter.check(b"a", NOW).is_allowed());
        let [a, b] = others.map(allowed);
        assert_eq!((here + a, b), (1, 1));
        assert_eq!((left(&limiter, b"a"), left(&limiter, b"b")), (0, 0));
    })
}
