//! A doorbell on threads of its own inside a Tokio program: probes and redirects are answered there, everything else is handed over.
//!
//! Does not know about: HTTP beyond which requests are ours, what the program does with what it gets.
//!
//! ```no_run
//! # #[cfg(feature = "axum")]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::{Router, routing::get};
//! use doorbell::{Http1, Listen, Server};
//! use doorbell_tokio::{Embed, Health, Probes};
//!
//! let health = Health::new();
//! let service = Http1::new(Probes::new(&health));
//! let server = Server::builder().listen(Listen::tcp(([127, 0, 0, 1], 8080).into()), service);
//! let (control, handed) = Embed::new(server).health(&health).start();
//! control.ready().await?;
//! health.set_ready(true);
//!
//! let app = Router::new().route("/", get(|| async { "hello\n" }));
//! axum::serve(handed, app).with_graceful_shutdown(control.delivered()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What runs where
//!
//! [`Embed::start`] starts the server's ring threads. They accept, read and answer without the runtime: a probe costs it nothing, and is
//! answered while every thread of it is busy. A connection on which something else is asked leaves its ring thread with the bytes that
//! were read and comes out of [`Handed`], in batches, with one wake-up a batch. At most [`HandOver::conns_max`](doorbell::HandOver) are
//! out; beyond that a client waits or gets a 503.
//!
//! # A stuck runtime is not alive
//!
//! Ring threads would report a program alive whose runtime is stuck. So [`Embed::health`] starts a task in the runtime that notes the
//! time, and `/livez` fails once the last note is older than [`Health::stalled_after`].
#![forbid(unsafe_code)]

#[cfg(feature = "axum")]
mod axum;
mod control;
mod desk;
mod embed;
mod handed;
mod health;
mod preread;
mod probes;
mod sync;

#[cfg(feature = "axum")]
pub use crate::axum::Peer;
pub use control::{Control, Ended, Stats};
pub use embed::Embed;
pub use handed::{Accept, Connection, Handed};
pub use health::Health;
pub use preread::{Parts, Preread};
pub use probes::{Front, Probes, Rest};
