//! Counts that the acceptors of a server and its successor share: handshakes in progress, and
//! memory for plaintext that arrives in parts.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::Arc;

/// The counts of a server. An acceptor that no server uses yet has separate counts.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    pub(super) places: Arc<HandshakeLimit>,
    pub(super) plain: Arc<AtomicUsize>,
}

/// The count of handshakes in progress, and its maximum.
#[derive(Debug)]
pub(super) struct HandshakeLimit {
    taken: AtomicU32,
    max: AtomicU32,
}

/// The total size of the plaintext buffers of a server, and the maximum that one acceptor permits.
#[derive(Clone, Debug)]
pub(crate) struct PlainBytes {
    held: Arc<AtomicUsize>,
    max: usize,
}

impl Shares {
    /// Creates counts with this maximum number of handshakes.
    pub(crate) fn new(handshakes_max: u32) -> Self {
        let places = HandshakeLimit { taken: AtomicU32::new(0), max: AtomicU32::new(handshakes_max) };
        Self { places: Arc::new(places), plain: Arc::default() }
    }

    /// Changes the maximum number of handshakes. Handshakes in progress continue.
    pub(crate) fn set_handshakes_max(&self, handshakes_max: u32) {
        self.places.max.store(handshakes_max, Ordering::Relaxed);
    }

    pub(super) fn plain_bytes(&self, max: usize) -> PlainBytes {
        PlainBytes { held: Arc::clone(&self.plain), max }
    }
}

impl HandshakeLimit {
    /// Counts a handshake. Returns false if the maximum is exceeded; in both cases the handshake
    /// counts until [`Self::leave`].
    pub(super) fn enter(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) < self.max.load(Ordering::Relaxed)
    }

    pub(super) fn leave(&self) {
        let before = self.taken.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "every leave follows an enter");
    }
}

impl PlainBytes {
    /// Accounts for a buffer whose capacity changed from `before` to `after`. Returns false if the
    /// buffer grew and the total exceeds the maximum.
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
    fn one_cap_applies_to_all_shares() {
        let shares = Shares::new(2);
        let other = shares.clone();
        assert!(shares.places.enter() && other.places.enter());
        assert!(!shares.places.enter(), "the third");
        shares.places.leave();
        other.places.leave();
        assert!(shares.places.enter());
        shares.set_handshakes_max(1);
        assert!(!other.places.enter(), "handshakes in progress continue, and no new one begins");
        shares.places.leave();
        let (one, two) = (shares.plain_bytes(100), other.plain_bytes(100));
        assert!(one.change(0, 60) && !two.change(0, 60), "120 of 100");
        assert!(one.change(60, 0) && two.change(60, 100));
    }
}
