//! What the `doorbell` binary is made of, as a library so that tests and fuzzers can reach it.
//!
//! Does not know about: other users; nothing here is a stable interface.
#![forbid(unsafe_code)]
#![doc(hidden)]

mod checks;
pub mod cli;
pub mod config;
mod control;
mod doctor;
pub mod exit;
mod http;
mod log;
mod parent;
mod probe;
mod serve;
pub use serve::service;
pub mod wire;
mod workers;
