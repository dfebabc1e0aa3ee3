//! A load generator for servers with tiny replies, on io_uring: command line → plan → engine →
//! report. Includes a study of `connect()`.
//!
//! Start at [`cli::run`]. A program that needs figures instead of text builds a [`plan::Plan`] and
//! calls [`engine::run`], or builds a [`connect::Study`] for the cost of `connect()`.
//!
//! | module | what it owns |
//! |---|---|
//! | [`cli`] | command lines, progress, output |
//! | [`plan`] | a validated description of a run |
//! | [`engine`] | threads, rings and connections of a run |
//! | [`reply`] | parsing and checking of replies |
//! | [`stats`], [`report`] | counters, latencies and their presentation |
//! | [`connect`] | the study of `connect()` |
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
