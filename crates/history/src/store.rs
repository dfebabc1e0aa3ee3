//! Interface of a store.

use crate::buffer::Batch;
use std::future::Future;
use thiserror::Error;

/// A store of rows.
pub trait Store: Send + Sync + 'static {
    /// Checks that the store is reachable and has the expected schema. Called before the first
    /// batch, and again after the store was unavailable.
    fn check(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes all rows of a batch. A failed batch is retried, so the store receives rows twice if
    /// an attempt succeeded but its response was lost.
    fn insert(&self, batch: &Batch) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Error of a [`Store`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The store has refused the batch permanently. The rows are dropped.
    #[error("{0}")]
    Refused(String),
    /// The batch is too large for the store. It is sent again in two halves; a single row is
    /// dropped.
    #[error("{0}")]
    TooLarge(String),
    /// The store is unavailable. The rows are kept.
    #[error("{0}")]
    Unavailable(String),
}
