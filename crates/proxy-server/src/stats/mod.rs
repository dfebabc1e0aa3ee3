//! Counters of the process, which reloads do not reset, and their output for scrapers.
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod requests;
pub(crate) mod server;
