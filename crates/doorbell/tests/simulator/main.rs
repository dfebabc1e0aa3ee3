//! The engine in a simulated world: seeds with faults, and the promises that must hold in every one.
//!
//! Does not know about: real sockets. `DOORBELL_SIM_SEEDS=10000` runs more seeds than the ordinary 256;
//! `DOORBELL_SIM_SEED=n` plays one and prints every event of it.
#![expect(clippy::print_stdout, reason = "a seed that fails prints its events")]

mod app;
mod cast;
mod drains;
mod oracle;
mod pool;
mod run;
mod scenarios;
mod seeds;
mod service;
mod verdict;
