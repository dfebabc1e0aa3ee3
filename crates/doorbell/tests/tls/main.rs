//! Tests of TLS around a protocol: handshakes, mutual TLS, refusals, traffic, certificates; in
//! memory and on real sockets.
#![cfg(feature = "tls")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests on real sockets wait for real time, and report when they are skipped"
)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod footprint;
mod given_up;
mod handed;
mod handshake;
mod hostile;
mod jobs;
#[cfg(feature = "rayon")]
#[path = "../stream/handlers.rs"]
mod lines;
mod material;
mod memory;
mod mutual;
mod pki;
#[path = "../promise/mod.rs"]
mod promise;
mod real;
mod refusal;
mod streams;
mod traffic;
