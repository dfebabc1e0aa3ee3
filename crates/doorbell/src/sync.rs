//! Types for state shared between threads. Files that import the types from this module instead of
//! the standard library are also compiled by `doorbell-models`, which replaces the types with those
//! of a model checker.

pub(crate) use std::sync::{Mutex, PoisonError, TryLockError};

pub(crate) use crossbeam_queue::ArrayQueue;

/// See `core::sync::atomic`.
pub(crate) mod atomic {
    pub(crate) use core::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}
