//! Waiting times of handed-over connections. The queue writes them under its lock; health reads
//! them with relaxed loads.
//!
//! Does not know about: connections, the maximum waiting time ([`crate::health`]).

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Since when connections of one server wait: times in nanoseconds on one clock; 0 if no connection
/// waits.
#[derive(Debug)]
pub(crate) struct Waits {
    now: fn() -> u64,
    /// Arrival of the connection that has waited longest.
    oldest: AtomicU64,
    /// Time of the last accept, or the arrival of the first waiting connection if that is later.
    idle: AtomicU64,
    /// The receiver was dropped.
    gone: AtomicBool,
}

impl Waits {
    pub(crate) fn new(now: fn() -> u64) -> Self {
        Self { now, oldest: AtomicU64::new(0), idle: AtomicU64::new(0), gone: AtomicBool::new(false) }
    }

    /// Current time, for an arrival.
    pub(crate) fn now(&self) -> u64 {
        (self.now)()
    }

    /// A connection arrived while none waited.
    pub(crate) fn begin(&self, arrived: u64) {
        self.oldest.store(arrived, Ordering::Relaxed);
        self.idle.store(arrived, Ordering::Relaxed);
    }

    /// A connection was accepted; `next` is the arrival time of the oldest connection that still
    /// waits.
    pub(crate) fn accepted(&self, next: Option<u64>) {
        self.oldest.store(next.unwrap_or(0), Ordering::Relaxed);
        self.idle.store(next.map_or(0, |_| self.now()), Ordering::Relaxed);
    }

    /// The receiver and all waiting connections were dropped.
    pub(crate) fn leave(&self) {
        self.accepted(None);
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Resets the state for the next server.
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
