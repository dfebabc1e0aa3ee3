//! Numbers the threads that have counters; the number of an ended thread is reused.

use std::sync::{Mutex, PoisonError};

/// Maximum number of shards with counters of their own; threads with higher numbers share one set
/// of counters.
pub const SHARDS_MAX: usize = 512;

thread_local! {
    static GUARD: ShardGuard = ShardGuard::first();
}

/// Shards released by ended threads, and the lowest shard that was never used.
static FREE: Mutex<Shards> = Mutex::new(Shards { free: Vec::new(), next: 0 });

struct Shards {
    free: Vec<usize>,
    next: usize,
}

/// The shard of this thread, released when the thread ends.
struct ShardGuard(usize);

/// Returns the shard of the calling thread. No two living threads have the same shard. During
/// thread exit the result may be `usize::MAX`, which is not a valid shard.
#[must_use]
pub fn current() -> usize {
    GUARD.try_with(|taken| taken.0).unwrap_or(usize::MAX)
}

impl ShardGuard {
    fn first() -> Self {
        let mut shards = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let shard = shards.free.pop().unwrap_or_else(|| {
            shards.next += 1;
            shards.next - 1
        });
        Self(shard)
    }
}

impl Drop for ShardGuard {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.0);
    }
}
