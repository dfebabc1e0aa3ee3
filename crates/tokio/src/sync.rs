//! Types for state shared by ring threads and the runtime. `doorbell-models` also compiles the
//! files that import them from here, and replaces these types with those of a model checker.

pub(crate) use std::sync::atomic;
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
pub(crate) use tokio::sync::watch;
