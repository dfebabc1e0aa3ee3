//! Counts requests that the HTTP state machine refused, by reason.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use doorbell_http::RequestError;

/// Counters of refused requests of one protocol, shared by all its connections and workers.
///
/// A refusal ends its connection, so the counters are written rarely.
#[derive(Clone, Debug)]
pub struct Refusals(Arc<[AtomicU64]>);

impl Refusals {
    pub(super) fn new() -> Self {
        Self(RequestError::ALL.iter().map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn count(&self, error: RequestError) {
        self.0[error.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of requests refused because of `error`.
    pub fn of(&self, error: RequestError) -> u64 {
        self.0[error.index()].load(Ordering::Relaxed)
    }

    /// All reasons with their counts.
    pub fn all(&self) -> impl Iterator<Item = (RequestError, u64)> {
        RequestError::ALL.iter().map(|&error| (error, self.of(error)))
    }
}
