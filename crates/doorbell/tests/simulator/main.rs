//! Tests of the engine in a simulated world: random runs with faults, and promises that must hold
//! in every run.
//!
//! `DOORBELL_SIM_SEEDS=10000` runs that number of seeds instead of 256; `DOORBELL_SIM_SEED=n` runs
//! a single seed and prints all its events.
#![expect(clippy::print_stdout, reason = "a seed that fails prints its events")]

mod app;
mod cast;
mod datagrams;
mod drains;
mod oracle;
mod pool;
mod run;
mod scenarios;
mod seeds;
mod service;
mod stalls;
mod verdict;
