//! Interface of a store.

use std::future::Future;
use std::time::Duration;
use thiserror::Error;

/// Error: the store is unavailable, or its reply is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// A request to acquire or extend the lease of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Identifies the check and its options.
    pub check: String,
    /// Identifies the process that requests the lease; differs after a restart.
    pub holder: String,
    /// Duration of the lease from now.
    pub lasts: Duration,
    /// The last known result, which the reply does not repeat.
    pub known: Stamp,
}

/// Order of results: by fencing token, then by the number of the run under this token. The default
/// precedes all results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Increases whenever the lease is acquired.
    pub token: u64,
    /// Counts the runs under one token, from 1.
    pub round: u64,
}

/// The lease of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Whether the requesting instance holds the lease.
    pub is_own: bool,
    /// The fencing token of the holder.
    pub token: u64,
    /// Time until the lease ends.
    pub remaining: Duration,
    /// The last result, unless it is the known one.
    pub latest: Option<Stored>,
}

/// A value in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The value.
    pub value: Vec<u8>,
    /// Time since it was stored, on the clock of the store.
    pub age: Duration,
}

/// A result that the holder of a lease stores for all instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Identifies the check and its options.
    pub check: String,
    /// Identifies the process that holds the lease; differs after a restart.
    pub holder: String,
    /// Position in the order of all results of the check.
    pub stamp: Stamp,
    /// The encoded result.
    pub value: Vec<u8>,
    /// Time for which the result is stored.
    pub keep: Duration,
}

/// A message that the holder of a lease sends to all followers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Identifies the check and its options.
    pub check: String,
    /// Identifies the process that holds the lease; differs after a restart.
    pub holder: String,
    /// The fencing token of the holder.
    pub token: u64,
    /// The encoded message.
    pub message: Vec<u8>,
}

/// A store that all instances use. Every function except [`Self::follow`] fails at once while the
/// store is unavailable; otherwise it completes within the timeout of the store.
pub trait SharedStore: Clone + Send + Sync + 'static {
    /// Acquires the lease of a check if it is free, extends it if the holder requests it, and reads
    /// the last result. A new holder gets a higher token than all previous holders, even if the
    /// store has lost its data, unless its clock was also set back.
    fn lease(&self, request: LeaseRequest) -> impl Future<Output = Result<Lease, StoreError>> + Send;

    /// Stores a result and sends it to all followers. Returns `false` if the sender does not hold
    /// the lease, or if a result with the same or a later stamp is stored.
    fn publish(&self, result: Publication) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Sends a message to all followers. Returns `false` if the sender does not hold the lease. The
    /// message may be lost.
    fn notify(&self, notification: Notification) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Passes all messages and results of these checks to `receive`, with the position of the check
    /// in `checks`. Reconnects after each failure, and never completes.
    fn follow(
        &self,
        checks: Vec<String>,
        receive: impl FnMut(usize, Vec<u8>) + Send,
    ) -> impl Future<Output = ()> + Send;

    /// Stores the description of an instance, which expires after `lasts`. All instances use the same
    /// duration.
    fn announce(
        &self,
        instance: String,
        value: Vec<u8>,
        lasts: Duration,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Returns all descriptions that have not expired, with the names of their instances. `lasts` is
    /// the duration with which they were stored.
    fn announced(
        &self,
        lasts: Duration,
    ) -> impl Future<Output = Result<Vec<(String, Vec<u8>)>, StoreError>> + Send;
}
