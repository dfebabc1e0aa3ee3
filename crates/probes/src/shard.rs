//! A number for each thread with counters; the numbers of ended threads are used again.
//!
//! Does not know about: what is counted.

use std::sync::{Mutex, PoisonError};

/// Maximum number of shards with memory of their own.
pub const SHARDS_MAX: usize = 512;

thread_local! {
    static TAKEN: Taken = Taken::first();
}

/// Shards given back by ended threads, and the lowest shard that was never taken.
static FREE: Mutex<Shards> = Mutex::new(Shards { free: Vec::new(), next: 0 });

struct Shards {
    free: Vec<usize>,
    next: usize,
}

/// The shard of this thread, given back when the thread ends.
struct Taken(usize);

/// The shard of this thread. No two living threads have the same one. A thread that is ending may
/// have none: the result is then a number that no shard has.
#[must_use]
pub fn current() -> usize {
    TAKEN.try_with(|taken| taken.0).unwrap_or(usize::MAX)
}

impl Taken {
    fn first() -> Self {
        let mut shards = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let shard = shards.free.pop().unwrap_or_else(|| {
            shards.next += 1;
            shards.next - 1
        });
        Self(shard)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.0);
    }
}
