//! What became of the connections that were begun.
//!
//! Does not know about: who reads it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Shared by all threads that connect.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) begun: AtomicU64,
    pub(super) exhausted: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) port_retries: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressCounters {
    /// Connections that were begun: they have a port and a SYN is on its way.
    pub begun: u64,
    /// Connections that were not begun for want of a free port, with every one tried.
    pub exhausted: u64,
    /// Connections that were not begun for another reason: no route, no descriptor, a source that is not ours.
    pub failed: u64,
    /// Attempts that found no free port among those they might choose and were repeated with others.
    pub port_retries: u64,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> EgressCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EgressCounters {
            begun: read(&self.begun),
            exhausted: read(&self.exhausted),
            failed: read(&self.failed),
            port_retries: read(&self.port_retries),
        }
    }
}
