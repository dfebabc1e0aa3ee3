//! Embeds a doorbell server in a Tokio program.
//!
//! Ring threads serve probes and redirects; all other connections are handed over to the program.
//!
//! ```text
//! cargo add doorbell
//! cargo add doorbell-tokio --features axum
//! ```
//!
//! In a program that already uses axum and tokio (with `full`, or `macros` and `rt-multi-thread`):
//!
#![cfg_attr(feature = "axum", doc = concat!("```no_run\n", include_str!("../examples/hello.rs"), "```"))]
//!
//! `/livez` and `/readyz` get their replies without the runtime; all other connections come out of
//! `handed`, which replaces a listener.
//!
//! | task | items |
//! |---|---|
//! | start a server in a runtime | [`Embed`], [`Control`] |
//! | receive connections | [`Handed`], [`Connection`], [`Preread`]; `Handed` implements axum's `Listener` |
//! | set the health of the program | [`Health`], [`Verdict`] |
//! | serve probes and redirects on ring threads | [`Probes`], [`Front`], [`Rest`] |
//! | serve probes in the program too | `Health::layer` (feature `axum`), [`Health::ask`] |
//! | share a TLS port | [`Handed`](Handed#tls) |
//!
//! # What runs where
//!
//! [`Embed::start`] starts the ring threads of the server. They accept, read and reply without the
//! runtime: a probe costs the runtime nothing and gets its reply even if all threads of the runtime
//! are busy. A connection with any other request leaves its ring thread with the bytes that were
//! read, and comes out of [`Handed`] in batches, with one wake-up per batch. At most
//! [`HandOver::conns_max`](doorbell::HandOver) connections are handed over at a time; beyond that a
//! client waits or gets a 503.
//!
//! # Health of the runtime
//!
//! Ring threads alone would report a program with a stuck runtime as alive. So [`Embed::health`]
//! starts a heartbeat in the runtime, and `/livez` fails if the last tick is older than
//! [`Health::stalled_after`]. The heartbeat also monitors the runtime's workers, so that a blocked
//! worker is detected while others run. Without [`Embed::health`] all probes fail, with the reason.
//! `/livez` and `/readyz` also fail if [`Handed`] was dropped, or if connections wait longer than
//! [`Health::accept_within`] and none is accepted. If others are accepted meanwhile, only `/readyz`
//! fails.
//!
//! Does not know about: HTTP except which requests ring threads serve, what the program does with
//! connections.
#![forbid(unsafe_code)]

#[cfg(feature = "axum")]
mod axum;
mod control;
mod embed;
mod handed;
mod health;
#[cfg(feature = "axum")]
mod layer;
mod preread;
mod probes;
mod pulse;
mod queue;
mod sync;
mod verdict;
mod waits;
mod workers;

#[cfg(feature = "axum")]
pub use crate::axum::Peer;
pub use control::{Control, Ended, Stats};
pub use embed::Embed;
pub use handed::{Accept, Connection, Handed};
pub use health::Health;
#[cfg(feature = "axum")]
pub use layer::{ProbeLayer, ProbeService};
pub use preread::{Parts, Preread};
pub use probes::{Front, Probes, Rest};
pub use verdict::{Probe, Verdict};
