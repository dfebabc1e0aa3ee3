//! The place of a heartbeat, which records the time of its last beat and can be reused after its
//! end.
//!
//! Does not know about: runtimes, clocks, the number of places ([`crate::health`]).

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The place of one heartbeat at a time.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Time of the last beat; 0 if the place is free, which never counts as a missed beat.
    nanos: AtomicU64,
}

/// The owner of a place, until its end.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    ended: AtomicBool,
}

impl Place {
    /// Reserves the place and records a first beat. False if the place is in use.
    pub(crate) fn take(&self, nanos: u64) -> bool {
        self.nanos.compare_exchange(0, nanos, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }
}

impl Pulse {
    /// Records a beat in the owned place. False after the end.
    pub(crate) fn beat(&self, place: &Place, nanos: u64) -> bool {
        let last = place.nanos.load(Ordering::SeqCst);
        if self.ended.load(Ordering::SeqCst) {
            return false;
        }
        // The end may happen after the load, and a new owner may take the place. The value has then
        // changed and must not be overwritten: a plain store would leave a beat that is never
        // removed. (If the new owner's first beat equals our last one, a later beat does no harm.)
        let _not_after_the_end =
            place.nanos.compare_exchange(last, nanos, Ordering::SeqCst, Ordering::Relaxed);
        true
    }

    /// Frees the place.
    pub(crate) fn end(&self, place: &Place) {
        if !self.ended.swap(true, Ordering::SeqCst) {
            place.nanos.store(0, Ordering::SeqCst);
        }
    }
}
