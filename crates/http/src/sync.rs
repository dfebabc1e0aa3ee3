//! Primitives for state shared between threads. `doorbell-models` compiles the unchanged sources
//! that use these names, but replaces these primitives by the types of a model checker.

pub(crate) use std::hint::spin_loop;

/// Re-exports parts of `core::sync::atomic`.
pub(crate) mod atomic {
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
}
