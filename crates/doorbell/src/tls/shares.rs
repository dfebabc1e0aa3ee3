//! What acceptors of one server have together, and those of a server that follows it: places for handshakes in progress, and memory
//! for plaintext that arrived in parts.
//!
//! Does not know about: handshakes, connections.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::Arc;

/// One server's. An acceptor that no server uses yet has one of its own.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    pub(super) places: Arc<Places>,
    pub(super) plain: Arc<AtomicUsize>,
}

/// Places for handshakes in progress.
#[derive(Debug)]
pub(super) struct Places {
    taken: AtomicU32,
    max: AtomicU32,
}

/// The memory, with the cap of the acceptor that looks at it.
#[derive(Clone, Debug)]
pub(crate) struct PlainBytes {
    held: Arc<AtomicUsize>,
    max: usize,
}

impl Shares {
    /// With at most so many handshakes at once.
    pub(crate) fn new(handshakes_max: u32) -> Self {
        let places = Places { taken: AtomicU32::new(0), max: AtomicU32::new(handshakes_max) };
        Self { places: Arc::new(places), plain: Arc::default() }
    }

    /// From now on at most so many at once. Those that are in progress go on.
    pub(crate) fn set_handshakes_max(&self, handshakes_max: u32) {
        self.places.max.store(handshakes_max, Ordering::Relaxed);
    }

    pub(super) fn plain_bytes(&self, max: usize) -> PlainBytes {
        PlainBytes { held: Arc::clone(&self.plain), max }
    }
}

impl Places {
    /// False when it is one too many; it counts until [`Self::leave`] all the same.
    pub(super) fn enter(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) < self.max.load(Ordering::Relaxed)
    }

    pub(super) fn leave(&self) {
        let before = self.taken.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "every leave follows an enter");
    }
}

impl PlainBytes {
    /// Accounts for a buffer whose capacity went from `before` to `after`. False when that is over the cap.
    pub(crate) fn change(&self, before: usize, after: usize) -> bool {
        if after <= before {
            self.held.fetch_sub(before - after, Ordering::Relaxed);
            return true;
        }
        let held = self.held.fetch_add(after - before, Ordering::Relaxed) + (after - before);
        held <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cap_holds_for_all_who_share() {
        let shares = Shares::new(2);
        let other = shares.clone();
        assert!(shares.places.enter() && other.places.enter());
        assert!(!shares.places.enter(), "the third");
        shares.places.leave();
        other.places.leave();
        assert!(shares.places.enter());
        shares.set_handshakes_max(1);
        assert!(!other.places.enter(), "who is in stays, and nobody comes");
        shares.places.leave();
        let (one, two) = (shares.plain_bytes(100), other.plain_bytes(100));
        assert!(one.change(0, 60) && !two.change(0, 60), "120 of 100");
        assert!(one.change(60, 0) && two.change(60, 100));
    }
}
