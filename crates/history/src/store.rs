//! What a store must do.
//!
//! Does not know about: any store, retries.

use crate::buffer::Batch;
use std::future::Future;
use thiserror::Error;

/// A store of rows.
pub trait Store: Send + Sync + 'static {
    /// Whether the store is ready for rows: it can be reached, and its tables have the columns of
    /// this program. Called before the first batch, and again after each failure.
    fn check(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes all rows of a batch. After a failure the same batch is written again, so the store
    /// may get rows twice: if the first attempt succeeded and its response was lost.
    fn insert(&self, batch: &Batch) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Why rows were not written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The store refuses this batch and would refuse it again. The rows are dropped.
    #[error("{0}")]
    Refused(String),
    /// The store cannot be used now. The rows are kept.
    #[error("{0}")]
    Unavailable(String),
}
