//! A load tool for servers of tiny replies, on io_uring: command line → plan → engine → report. Beside it, a study of `connect()`.
//!
//! Does not know about: the servers it talks to.
//! Start at [`cli::run`]; a program that wants the figures and not the text fills in a [`plan::Plan`] and calls
//! [`engine::run`]; for a study of `connect()`, a [`connect::Study`].
#![forbid(unsafe_code)]

pub mod cli;
mod clock;
mod conn;
pub mod connect;
pub mod engine;
mod exit;
pub mod plan;
pub mod reply;
pub mod report;
pub mod stats;

pub use exit::{Exit, Failure};
