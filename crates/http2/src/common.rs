//! Counters that the threads of all generations share, so that a reload does not reset the budgets of
//! clients: connections, connections by address, Watch streams.

use super::addresses::Addresses;
use super::counters::Counters;
use doorbell::HandOver;
use doorbell::hand_over::HandedCount;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

/// The shared counters; one value per process.
#[derive(Debug, Default)]
pub struct Common {
    counters: Arc<Counters>,
    addresses: Addresses,
    watches: Arc<AtomicU32>,
    /// The connection count and limit of the generation that was built last, even if it was never
    /// started.
    places: Mutex<Option<HandedCount>>,
}

impl Common {
    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(super) const fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Number of open Watch streams.
    pub(super) const fn watches(&self) -> &Arc<AtomicU32> {
        &self.watches
    }

    /// Makes `to` count its connections together with those of earlier generations.
    pub(super) fn count_together(&self, to: HandOver) -> HandOver {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let to = match &*places {
            Some(before) => to.share_count(before),
            None => to,
        };
        *places = Some(to.places());
        to
    }
}
