//! Shared limits: each instance leases tokens in advance, in batches.
//!
//! [`Gcra`] is the algorithm of the store; [`Leaser`] determines the lease requests of an instance.
//! Requests take tokens from [`Leases`](doorbell_http::limit::Leases), which never waits for the
//! store.
//!
//! **Not more than the limit,** except by credits beyond the reserve. The store counts a token when
//! it is granted, and the token is used within the lifetime of its lease. The store therefore
//! shortens the burst by this time. It also reserves credits (see [`INSTANCES_COVERED`]), because a
//! credit is charged after its use.
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
