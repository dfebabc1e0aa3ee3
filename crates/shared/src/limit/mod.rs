//! Shared limits: each instance leases tokens in advance, in batches.
//!
//! [`Gcra`] is the algorithm of the store; [`Leaser`] determines the lease requests of an instance.
//! Requests take tokens from [`Leases`](doorbell_http::limit::Leases), which never waits for the
//! store.
//!
//! **Never more than the limit.** The store counts a token when it grants it, and the token is used
//! within the lifetime of its lease. The store therefore shortens the burst by this time. It also
//! reserves credits (see [`INSTANCES_COVERED`]), because it charges a credit after its use.
//!
//! Does not know about: connections, configuration files, the identity of a client.

mod gcra;
mod leaser;
#[cfg(test)]
mod tests;

#[cfg(feature = "redis")]
pub use gcra::seed;
pub use gcra::{BurstTooSmall, Charge, Gcra, Granted, INSTANCES_COVERED, SCRIPT, credit_default};
pub use leaser::{Ask, KEYS_PER_CALL, Leaser, ROUND_EVERY};
