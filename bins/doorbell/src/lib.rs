//! What the `doorbell` binary is made of, as a library so that tests and fuzzers can reach it.
//!
//! Does not know about: other users; nothing here is a stable interface.
#![forbid(unsafe_code)]
#![doc(hidden)]

mod blackbox;
mod build;
pub mod cli;
pub mod config;
mod control;
mod control_plane;
mod doctor;
pub mod exit;
mod guards;
mod http;
mod http2;
mod log;
mod operator;
mod parent;
mod probe;
mod reaper;
mod registry;
mod reload;
mod routes;
mod serve;
pub use build::sample::service;
mod sockets;
mod stats;
mod supervisor;
pub mod wire;
mod workers;
