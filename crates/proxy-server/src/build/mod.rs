//! Builds parts of a generation from its configuration.
pub(crate) mod access_log;
pub(crate) mod checks;
pub(crate) mod compute;
pub(crate) mod engine;
pub(crate) mod http2;
pub(crate) mod sample;
pub(crate) mod stores;
pub(crate) mod tls;
