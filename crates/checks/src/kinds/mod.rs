//! The kinds of checks, one module each, and shared code.
//!
//! Does not know about: when a check runs.

pub(crate) mod blocking;
mod channel;
pub(crate) mod children;
pub(crate) mod dns;
pub(crate) mod exec;
pub(crate) mod expectations;
pub(crate) mod file;
mod first_bytes;
pub(crate) mod gauge;
pub(crate) mod grpc;
pub(crate) mod http;
mod lines;
pub(crate) mod redis;
pub(crate) mod tcp;
pub(crate) mod tls;
mod traceparent;
mod watch;
