//! Types for state shared between threads. Sources that import them from here, not from the
//! standard library, are also compiled by `doorbell-models`, which replaces these types with those
//! of a model checker.
//!
//! Does not know about: what is built with them.

pub(crate) use std::sync::{Mutex, PoisonError, TryLockError};

pub(crate) use crossbeam_queue::ArrayQueue;

/// See `core::sync::atomic`.
pub(crate) mod atomic {
    pub(crate) use core::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}
