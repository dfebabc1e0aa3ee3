//! Primitives for state shared between threads. `doorbell-models` compiles sources that use these
//! names unchanged, with the types of a model checker instead.
//!
//! Does not know about: their users.

pub(crate) use std::hint::spin_loop;

/// Stands for `core::sync::atomic`.
pub(crate) mod atomic {
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
}
