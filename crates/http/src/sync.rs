//! What threads share state with. Sources that name these here, and not in the standard library, are run by `doorbell-models` as they are,
//! with parts of a checker of interleavings in their place.
//!
//! Does not know about: what is built of it.

pub(crate) use std::hint::spin_loop;

/// As `core::sync::atomic`.
pub(crate) mod atomic {
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
}
