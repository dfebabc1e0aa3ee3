//! Counters of the process, carried over reloads, and their text for scrapers.
//!
//! Does not know about: what is counted, and when.
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod requests;
pub(crate) mod server;
