//! Models of the limiter that workers share: two requests at once never get in for the price of one token.
//!
//! Does not know about: requests. All keys are of one set, which is where they can meet.

use std::sync::Arc;
use std::time::Duration;

use loom::thread::{self, JoinHandle};

use super::explore;
use crate::Time;
use crate::limit::{Limiter, Quota};

/// Nothing is regained while a model runs.
const NOW: Time = Time::from_nanos(1_000_000_000_000);

/// A limiter with one set, which keys of the models' own have not come to.
fn limiter(burst: u32) -> Arc<Limiter> {
    let quota = Quota::new(burst, 1, Duration::from_secs(3600)).expect("a quota");
    let limiter = Limiter::new(quota, 1, [1, 2]);
    // The first request begins the sweep, and is none of theirs.
    assert!(limiter.check(b"first", NOW).is_allowed());
    Arc::new(limiter)
}

fn ask(limiter: &Arc<Limiter>, key: &'static [u8]) -> JoinHandle<bool> {
    let limiter = Arc::clone(limiter);
    thread::spawn(move || limiter.check(key, NOW).is_allowed())
}

fn allowed(asked: JoinHandle<bool>) -> u32 {
    u32::from(asked.join().expect("a look at a table does not panic"))
}

/// How many of some requests of a key get in one after the other.
fn left(limiter: &Limiter, key: &[u8]) -> u32 {
    (0..4).map(|_| u32::from(limiter.check(key, NOW).is_allowed())).sum()
}

/// A key that nobody has seen comes twice at once, and has one token.
pub fn new_key() -> usize {
    explore(None, || {
        let limiter = limiter(1);
        let other = ask(&limiter, b"a");
        let here = u32::from(limiter.check(b"a", NOW).is_allowed());
        assert_eq!(here + allowed(other), 1);
        assert_eq!(left(&limiter, b"a"), 0);
    })
}

/// A key with one token left comes twice at once.
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

/// A key spends its last token while a new one takes its place in the set, and it has to move.
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

/// Two new keys come at once, one of them twice.
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
