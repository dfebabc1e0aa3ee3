//! Counters of the process, which reloads do not reset, and their output for scrapers.
//!
//! Does not know about: when and why values are counted.
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod requests;
pub(crate) mod server;
