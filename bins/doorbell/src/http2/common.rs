//! What the lanes of all generations count together, so that a reload gives nobody a second budget: connections, those of an address, streams
//! that watch.
//!
//! Does not know about: the caps, which each generation has from its configuration.

use super::addresses::Addresses;
use super::counters::Counters;
use doorbell::HandOver;
use doorbell::hand_over::Places;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

/// One for the process.
#[derive(Debug, Default)]
pub(crate) struct Common {
    counters: Arc<Counters>,
    addresses: Addresses,
    watches: Arc<AtomicU32>,
    /// Of the generation that was built last, whether or not it came to serve.
    places: Mutex<Option<Places>>,
}

impl Common {
    pub(crate) const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(super) const fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Streams that watch now.
    pub(super) const fn watches(&self) -> &Arc<AtomicU32> {
        &self.watches
    }

    /// Has connections that are out counted with those of all generations before.
    pub(super) fn count_together(&self, to: HandOver) -> HandOver {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let to = match &*places {
            Some(before) => to.beside(before),
            None => to,
        };
        *places = Some(to.places());
        to
    }
}
