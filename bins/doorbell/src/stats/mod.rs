//! Counters of the process, kept across reloads, and their text for scrapers.
//!
//! Does not know about: when and why values are counted.
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod requests;
pub(crate) mod server;
