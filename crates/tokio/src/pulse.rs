//! The place of one heartbeat: whoever has it notes the time there, and leaves nothing behind at the end.
//!
//! Does not know about: runtimes, clocks, how many places there are ([`crate::health`]).

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where one heart beats, and after its end another one.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The last beat. 0: nobody has the place, and nobody is missed.
    nanos: AtomicU64,
}

/// Who has a place, until the end.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    ended: AtomicBool,
}

impl Place {
    /// Takes the place with a first beat. False when somebody has it.
    pub(crate) fn take(&self, nanos: u64) -> bool {
        self.nanos.compare_exchange(0, nanos, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }
}

impl Pulse {
    /// Notes a beat in the place it has. False after the end.
    pub(crate) fn beat(&self, place: &Place, nanos: u64) -> bool {
        let last = place.nanos.load(Ordering::SeqCst);
        if self.ended.load(Ordering::SeqCst) {
            return false;
        }
        // The end may come in between, and after it somebody else: then the place is not what it was, and stays as it is. A plain store
        // would be a beat that nobody ever takes back. (Who has begun in the very moment of our last beat does not mind a later one.)
        let _not_after_the_end =
            place.nanos.compare_exchange(last, nanos, Ordering::SeqCst, Ordering::Relaxed);
        true
    }

    /// Leaves the place to others.
    pub(crate) fn end(&self, place: &Place) {
        if !self.ended.swap(true, Ordering::SeqCst) {
            place.nanos.store(0, Ordering::SeqCst);
        }
    }
}
