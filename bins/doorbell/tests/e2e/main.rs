//! The `doorbell` binary end to end: real clients, signals, failures at start, memory. Each on io_uring and on epoll, by name.
//!
//! Does not know about: the inside of the binary. `DOORBELL_BIN` runs another build of it.

#![expect(clippy::disallowed_methods, reason = "a foreign process lives in real time")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests may panic, and a skip must be loud"
)]

mod support;

mod ab_wrk;
mod curl;
mod denied;
mod descriptors;
mod failures;
mod haproxy;
mod memory;
mod nginx;
mod readme;
mod restart;
mod signals;
