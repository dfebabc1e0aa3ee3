//! Shared limits: each instance leases tokens in advance, in batches.
//!
//! [`Gcra`] is the algorithm of the store; [`Leaser`] determines the lease requests of an instance.
//! Requests of clients take tokens from [`Leases`](doorbell_http::limit::Leases), which never waits
//! for the store.
//!
//! **All instances together allow no more than the limit,** except for credits beyond the reserve.
//! A credit is the number of requests that an instance allows a client without tokens before it
//! asks the store. The store counts a token when it is granted, and the token is used within the
//! lifetime of its lease. The store therefore reduces the burst by the number of requests that the
//! rate allows in this lifetime. It also reserves a part of the burst for credits (see
//! [`INSTANCES_COVERED`]), because a credit is charged after its use.

mod gcra;
mod leaser;
#[cfg(test)]
mod tests;

#[cfg(feature = "redis")]
pub use gcra::seed;
pub use gcra::{BurstTooSmall, Charge, Gcra, Granted, INSTANCES_COVERED, SCRIPT, credit_default};
pub use leaser::{Ask, KEYS_PER_CALL, Leaser, ROUND_EVERY};
