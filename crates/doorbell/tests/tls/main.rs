//! TLS in front of a protocol: handshakes, mutual TLS, what is refused, traffic, certificates; in memory and on real sockets.
//!
//! Does not know about: the TLS library's own cryptography, which is not tested again.
#![cfg(feature = "tls")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests on real sockets wait for real time, and say when they skip"
)]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod footprint;
mod given_up;
mod handed;
mod handshake;
mod hostile;
mod jobs;
mod material;
mod memory;
mod mutual;
mod pki;
#[path = "../promise/mod.rs"]
mod promise;
mod real;
mod refusal;
mod traffic;
