//! Builds objects of the engine from the configuration.
//!
//! Does not know about: generations, reloads.
pub(crate) mod access_log;
pub(crate) mod checks;
pub(crate) mod compute;
pub(crate) mod engine;
pub(crate) mod sample;
pub(crate) mod stores;
pub(crate) mod tls;
