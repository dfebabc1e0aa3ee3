//! What the ring threads and the runtime share state with. A source that names these here is run by `doorbell-models` as it is, with parts
//! of a checker of interleavings in their place.
//!
//! Does not know about: what is built of it.

pub(crate) use std::sync::atomic;
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
