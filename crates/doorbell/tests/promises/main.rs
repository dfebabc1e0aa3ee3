//! The promises of the engine, on both drivers. One program, so that it is linked once and its tests
//! wait at the same time.
//!
//! Does not know about: the `doorbell` program.

#[path = "../promise/mod.rs"]
mod promise;

mod close;
mod early_close;
mod examples;
mod lifecycle;
mod offload;
mod overload;
mod probes;
mod succession;
mod unique;
mod whole_reply;
