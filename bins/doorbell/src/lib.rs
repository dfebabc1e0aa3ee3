//! The parts of the `doorbell` binary, as a library for its tests, benchmarks and fuzzers only.
//!
//! Does not know about: other dependents. The interface is not stable, so other crates must not
//! depend on it.
#![forbid(unsafe_code)]
#![doc(hidden)]

mod blackbox;
mod build;
pub mod cli;
mod control;
mod control_plane;
mod doctor;
pub mod exit;
mod guards;
mod history;
mod http;
mod links;
mod log;
mod operator;
mod parent;
mod prepared_thread;
mod reaper;
mod registry;
mod reload;
mod routes;
mod serve;
pub use build::sample::service;
mod sharing;
mod sockets;
mod stats;
mod supervisor;
mod workers;
