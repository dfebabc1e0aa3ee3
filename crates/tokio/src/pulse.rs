//! A reusable slot that records the time of the last beat of a heartbeat.
//!
//! Does not know about: runtimes, clocks, the number of slots ([`crate::health`]).

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A slot for one heartbeat at a time.
#[derive(Debug, Default)]
pub(crate) struct PulseSlot {
    /// Time of the last beat; 0 if the slot is free. A free slot never counts as a missed beat.
    nanos: AtomicU64,
}

/// Ownership of a slot, until the end of the heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    ended: AtomicBool,
}

impl PulseSlot {
    /// Reserves the slot and records a first beat. False if the slot is in use.
    pub(crate) fn take(&self, nanos: u64) -> bool {
        self.nanos.compare_exchange(0, nanos, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }
}

impl Pulse {
    /// Records a beat in the owned slot. False after the end.
    pub(crate) fn beat(&self, slot: &PulseSlot, nanos: u64) -> bool {
        let last = slot.nanos.load(Ordering::SeqCst);
        if self.ended.load(Ordering::SeqCst) {
            return false;
        }
        // After this check, another thread may end the heartbeat, and a new owner may take the
        // slot. A plain store could then occupy a free slot forever. The compare-exchange fails
        // instead, because the value has changed. It succeeds only if the first beat of a new owner
        // has the time `last`, and then merely replaces that beat by a later one.
        let _not_after_the_end =
            slot.nanos.compare_exchange(last, nanos, Ordering::SeqCst, Ordering::Relaxed);
        true
    }

    /// Frees the slot.
    pub(crate) fn end(&self, slot: &PulseSlot) {
        if !self.ended.swap(true, Ordering::SeqCst) {
            slot.nanos.store(0, Ordering::SeqCst);
        }
    }
}
