//! Counters of outgoing connections.

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
    /// Connections begun: a port was chosen and, with TCP, a SYN was sent.
    pub begun: u64,
    /// Connections not begun because every port was in use.
    pub exhausted: u64,
    /// Connections not begun for another reason, such as no route, no descriptor, or a source
    /// address that is not local.
    pub failed: u64,
    /// Attempts that were repeated with other candidate ports, because no candidate was free.
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
