//! The compute lane on real sockets: each way a request that waits can go on, on each driver, with jobs that run when a test says so.
//!
//! Does not know about: seeds (see `simulator`), figures (see `promise_offload.rs`).
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real sockets and stop at the first surprise"
)]

#[path = "../promise/mod.rs"]
mod promise;

#[cfg(feature = "jwt")]
mod auth;
mod auto;
mod cases;
mod hand;
mod options;
