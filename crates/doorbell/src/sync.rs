//! What threads share state with. Sources that name these here, and not in the standard library, are run by `doorbell-models` as they are,
//! with parts of a checker of interleavings in their place.
//!
//! Does not know about: what is built of it.

pub(crate) use std::sync::{Mutex, PoisonError, TryLockError};

pub(crate) use crossbeam_queue::ArrayQueue;

/// As `core::sync::atomic`.
pub(crate) mod atomic {
    pub(crate) use core::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}
