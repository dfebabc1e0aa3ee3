//! Embedding tests that count descriptors, threads or time of the whole process: a lock lets only
//! one of them run at a time.
//!
//! Does not know about: the `doorbell` program.

#[path = "../embedding/common.rs"]
mod common;

mod handed_over;
mod portable;
mod stuck;
