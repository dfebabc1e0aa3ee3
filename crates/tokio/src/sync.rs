//! Types for state shared by ring threads and the runtime. Sources that import them from here are
//! also compiled by `doorbell-models`, which replaces these types with those of a model checker.
//!
//! Does not know about: the data structures that use these types.

pub(crate) use std::sync::atomic;
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
