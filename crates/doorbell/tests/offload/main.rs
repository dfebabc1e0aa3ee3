//! The compute lane on real sockets: every outcome of a waiting request, on each driver, with jobs
//! that run when a test requests it.
//!
//! Does not know about: seeds (see `simulator`), measurements (see `promises/offload.rs`).
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real sockets and may panic"
)]

#[path = "../promise/mod.rs"]
mod promise;

#[cfg(feature = "jwt")]
mod auth;
mod auto;
mod cases;
mod hand;
mod options;
