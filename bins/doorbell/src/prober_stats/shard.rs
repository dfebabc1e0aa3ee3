//! A number for each thread that counts, as small as possible.
//!
//! Does not know about: what is counted.

use std::sync::{Mutex, PoisonError};

thread_local! {
    static TAKEN: Taken = Taken::first();
}

/// Lanes that are free below the first that never was taken.
static FREE: Mutex<Lanes> = Mutex::new(Lanes { free: Vec::new(), next: 0 });

struct Lanes {
    free: Vec<usize>,
    next: usize,
}

/// The lane of this thread, given back with it.
struct Taken(usize);

/// The lane of this thread. No two threads that live have the same; one that is about to end may have none any more, which is a number
/// that no lane has.
pub(crate) fn current() -> usize {
    TAKEN.try_with(|taken| taken.0).unwrap_or(usize::MAX)
}

impl Taken {
    fn first() -> Self {
        let mut lanes = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.free.pop().unwrap_or_else(|| {
            lanes.next += 1;
            lanes.next - 1
        });
        Self(lane)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.0);
    }
}
