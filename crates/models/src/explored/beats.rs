//! Models of a heartbeat that ends during a beat.

use std::sync::Arc;

use loom::thread;

use super::explore;
use crate::pulse::{Pulse, PulseSlot};

/// The `PulseSlot` of a heartbeat is free after the heartbeat has ended, even if a beat races with
/// its end.
pub fn last_beat() -> usize {
    explore(None, || assert_eq!(beats_during_end(|_| ()), 0))
}

/// A new owner that takes the slot immediately after the end keeps it: a late beat of the previous
/// owner neither changes nor frees the slot.
pub fn next_heart() -> usize {
    explore(None, || assert_eq!(beats_during_end(|slot| assert!(slot.take(9), "the slot is free")), 9))
}

/// Ends a heartbeat while another thread beats, runs `then` after the end, and returns the final
/// value of the slot.
fn beats_during_end(then: impl FnOnce(&PulseSlot)) -> u64 {
    let shared = Arc::new((PulseSlot::default(), Pulse::default()));
    assert!(shared.0.take(1));
    let beating = Arc::clone(&shared);
    let beats = thread::spawn(move || {
        let (slot, pulse) = &*beating;
        let _runs = pulse.beat(slot, 2) && pulse.beat(slot, 3);
    });
    let (slot, pulse) = &*shared;
    pulse.end(slot);
    then(slot);
    beats.join().expect("the beating thread ends");
    slot.nanos()
}
