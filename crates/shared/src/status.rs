//! Connection state and counters of a store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// State of a store, shared between its connections and readers.
#[derive(Debug, Default)]
pub struct Status {
    is_connected: AtomicBool,
    /// Whether the store recently replied with an error, although it is connected.
    is_failing: AtomicBool,
    commands: AtomicU64,
    errors: AtomicU64,
    refused: AtomicU64,
    connections: AtomicU64,
    last_error: Mutex<String>,
}

/// Counters of a store since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Commands that were sent.
    pub commands: u64,
    /// Commands without a usable reply, and connections that failed.
    pub errors: u64,
    /// Commands that were not sent, because there was no connection or the queue was full.
    pub refused: u64,
    /// Opened connections for commands.
    pub connections: u64,
}

impl Status {
    /// Whether commands can be sent now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Acquire)
    }

    /// Whether the store is connected, and no command or subscription has failed for a minute.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.is_connected() && !self.is_failing.load(Ordering::Acquire)
    }

    /// Reason for the end of the last connection or attempt to connect, or the last error while the
    /// store is connected; empty while the store is usable.
    #[must_use]
    pub fn last_error(&self) -> String {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A snapshot of the counters.
    #[must_use]
    pub fn counters(&self) -> StoreCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreCounters {
            commands: read(&self.commands),
            errors: read(&self.errors),
            refused: read(&self.refused),
            connections: read(&self.connections),
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.usable();
        self.is_connected.store(true, Ordering::Release);
    }

    /// Ends the failure that [`Self::failing`] began.
    #[cfg(feature = "redis")]
    pub(crate) fn usable(&self) {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.is_failing.store(false, Ordering::Release);
    }

    /// Records an error although the store is connected. Returns true if the state or the error is
    /// new.
    #[cfg(feature = "redis")]
    pub(crate) fn failing(&self, why: &crate::store::StoreError) -> bool {
        let was_failing = self.is_failing.swap(true, Ordering::AcqRel);
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        // The text of an error also contains the script.
        let code = |text: &str| text.split(' ').next().map(str::to_owned);
        let is_new = !was_failing || code(&last) != code(&why.0);
        last.clone_from(&why.0);
        is_new
    }

    /// Records the end of a connection or of an attempt to connect. Returns true if the state or
    /// the reason is new.
    #[cfg(feature = "redis")]
    pub(crate) fn lost(&self, why: &crate::store::StoreError) -> bool {
        self.failed();
        let was_connected = self.is_connected.swap(false, Ordering::AcqRel);
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = was_connected || *last != why.0;
        last.clone_from(&why.0);
        is_new
    }

    #[cfg(feature = "redis")]
    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(feature = "redis")]
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(feature = "redis")]
    pub(crate) fn sent(&self) {
        self.commands.fetch_add(1, Ordering::Relaxed);
    }
}
