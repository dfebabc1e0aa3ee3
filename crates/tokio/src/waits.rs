//! Which handed-over connections wait to be accepted, as health reads it: written by the desk under its lock, read with plain loads.
//!
//! Does not know about: connections, how long a wait is too long ([`crate::health`]).

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What waits at the desk of one server. All times are nanoseconds of one clock; 0: nothing waits.
#[derive(Debug)]
pub(crate) struct Waits {
    now: fn() -> u64,
    /// When the connection that waits longest arrived.
    oldest: AtomicU64,
    /// Since when a connection waits and none was accepted.
    idle: AtomicU64,
    /// The receiving side was dropped.
    gone: AtomicBool,
}

impl Waits {
    pub(crate) fn new(now: fn() -> u64) -> Self {
        Self { now, oldest: AtomicU64::new(0), idle: AtomicU64::new(0), gone: AtomicBool::new(false) }
    }

    /// The time of an arrival.
    pub(crate) fn now(&self) -> u64 {
        (self.now)()
    }

    /// A connection arrived and none waited.
    pub(crate) fn begin(&self, arrived: u64) {
        self.oldest.store(arrived, Ordering::Relaxed);
        self.idle.store(arrived, Ordering::Relaxed);
    }

    /// One was accepted; the next one arrived then.
    pub(crate) fn accepted(&self, next: Option<u64>) {
        self.oldest.store(next.unwrap_or(0), Ordering::Relaxed);
        self.idle.store(next.map_or(0, |_| self.now()), Ordering::Relaxed);
    }

    /// The receiving side was dropped, and what waited with it.
    pub(crate) fn leave(&self) {
        self.accepted(None);
        self.gone.store(true, Ordering::Relaxed);
    }

    /// For the next server.
    pub(crate) fn reset(&self) {
        self.accepted(None);
        self.gone.store(false, Ordering::Relaxed);
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    pub(crate) fn idle(&self) -> u64 {
        self.idle.load(Ordering::Relaxed)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}
