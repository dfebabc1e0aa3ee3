//! Models of the limiter that workers share: two concurrent requests never pass for the price of
//! one token.
//!
//! Does not know about: requests. All keys fall into one set, because only keys of one set can
//! collide.

use std::sync::Arc;
use std::time::Duration;

use loom::thread::{self, JoinHandle};

use super::explore;
use crate::Time;
use crate::limit::{Limiter, Quota};

/// Constant time: no tokens are refilled while a model runs.
const NOW: Time = Time::from_nanos(1_000_000_000_000);

/// A limiter with one set that contains none of the models' own keys.
fn limiter(burst: u32) -> Arc<Limiter> {
    let quota = Quota::new(burst, 1, Duration::from_secs(3600)).expect("a quota");
    let limiter = Limiter::new(quota, 1, [1, 2]);
    // The first request starts the sweep; it uses a key of its own.
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

/// An unknown key arrives twice at once and has one token.
pub fn new_key() -> usize {
    explore(None, || {
        let limiter = limiter(1);
        let other = ask(&limiter, b"a");
        let here = u32::from(limiter.check(b"a", NOW).is_allowed());
        assert_eq!(here + allowed(other), 1);
        assert_eq!(left(&limiter, b"a"), 0);
    })
}

/// A key with one token left arrives twice at once.
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

/// A key spends its last token while a new key takes its slot in the set, so that its entry moves.
pub fn pushed_aside() -> usize {
    explore(None, || {
        let limiter = limiter(2);
        assert!(limiter.check(b"a", NOW).is_allowed());
        let other = ask(&limiter, b"b");
        let here = u32::from(limiter.check(b"a", NOW).is_allowed());
        assert_eq!((here, allowed(other)), (1, 1), "each has a token");
        assert_eq!((left(&limiter, b"a"), left(&limiter, b"b")), (0, 1));
    })
}

/// Two new keys arrive at once, one of them twice.
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
