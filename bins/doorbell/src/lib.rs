//! The commands of the `doorbell` program, as a library for its tests only.
//!
//! The interface is not stable, so other crates must not depend on it.
#![forbid(unsafe_code)]
#![doc(hidden)]

pub mod cli;
mod doctor;
