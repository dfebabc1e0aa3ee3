//! Counters of outgoing connections.
//!
//! Does not know about: readers of the counters.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters shared by all connecting threads.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) begun: AtomicU64,
    pub(super) exhausted: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) port_retries: AtomicU64,
}

/// Counters of outgoing connections at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressCounters {
    /// Connections begun: a port is chosen and a SYN is on its way.
    pub begun: u64,
    /// Connections not begun because no port was free, after trying all of them.
    pub exhausted: u64,
    /// Connections not begun for another reason: no route, no descriptor, or a source address of
    /// another machine.
    pub failed: u64,
    /// Attempts that found no free port among their candidates and were repeated with others.
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
