//! Models of a heartbeat that ends while it beats.
//!
//! Does not know about: who else shares something.

use std::sync::Arc;

use loom::thread;

use super::explore;
use crate::pulse::{Place, Pulse};

/// A beat that meets the end is not missed for ever: the place is empty then.
pub fn last_beat() -> usize {
    explore(None, || assert_eq!(beat_beside(|_| ()), 0))
}

/// Somebody who takes the place at once has it alone: a late beat of the one before neither changes it nor empties it.
pub fn next_heart() -> usize {
    explore(None, || assert_eq!(beat_beside(|place| assert!(place.take(9), "it is empty")), 9))
}

/// What is in the place after beats of one who ends meanwhile, with `then` behind the end.
fn beat_beside(then: impl FnOnce(&Place)) -> u64 {
    let shared = Arc::new((Place::default(), Pulse::default()));
    assert!(shared.0.take(1));
    let beating = Arc::clone(&shared);
    let beats = thread::spawn(move || {
        let (place, pulse) = &*beating;
        let _runs = pulse.beat(place, 2) && pulse.beat(place, 3);
    });
    let (place, pulse) = &*shared;
    pulse.end(place);
    then(place);
    beats.join().expect("it ends");
    place.nanos()
}
