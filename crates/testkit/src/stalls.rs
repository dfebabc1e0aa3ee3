//! How long this machine kept everybody waiting while a test measured.
//!
//! An upper bound of time is a promise about our code, and holds on a machine that lets it run. Where other programs, or the host of a
//! virtual machine, take a core away for a while, nobody on it can be on time: that while is added to the bound, and nothing else.
//!
//! Does not know about: what is measured.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

const PAUSE: Duration = Duration::from_millis(1);

/// What a thread that has just slept may be late by where others have work to do: a slice of the scheduler.
const LATE_MIN: Duration = Duration::from_millis(5);

/// More cores than that are not watched.
const CORES_MAX: usize = 64;

/// A thread on each core that sleeps, and notes when it is woken late.
#[derive(Debug)]
pub struct Stalls {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    origin: Instant,
    is_over: AtomicBool,
    cores: Vec<Core>,
}

/// In nanoseconds.
#[derive(Debug, Default)]
struct Core {
    late: AtomicU64,
    /// When its thread went to sleep, from the origin on.
    asleep_since: AtomicU64,
}

impl Stalls {
    /// Watches from now on, until it is dropped.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "what the machine does is real time")]
    pub fn watch() -> Self {
        let count = thread::available_parallelism().map_or(1, NonZero::get).min(CORES_MAX);
        let cores = (0..count).map(|_| Core::default()).collect();
        let shared = Arc::new(Shared { origin: Instant::now(), is_over: AtomicBool::new(false), cores });
        let watcher = |core: usize| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Where it may not be there, it watches wherever it is.
                let mut only = CpuSet::new();
                only.set(core);
                let _refused = sched_setaffinity(None, &only);
                shared.watch(&shared.cores[core]);
            })
        };
        let threads = (0..count).map(watcher).collect();
        Self { shared, threads }
    }

    /// What the core was late by, in all, that was late the most; a stall that has not ended for its watcher yet is one too.
    #[must_use]
    pub fn total(&self) -> Duration {
        let now = self.shared.now();
        let late = self.shared.cores.iter().map(|core| {
            let going_on = now.saturating_sub(core.asleep_since.load(Ordering::SeqCst));
            Duration::from_nanos(core.late.load(Ordering::SeqCst)) + counted(Duration::from_nanos(going_on))
        });
        late.max().unwrap_or(Duration::ZERO)
    }
}

/// What is counted of a sleep that took so long.
fn counted(slept: Duration) -> Duration {
    Some(slept.saturating_sub(PAUSE)).filter(|late| *late >= LATE_MIN).unwrap_or(Duration::ZERO)
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "what the machine does is real time")]
    fn watch(&self, core: &Core) {
        while !self.is_over.load(Ordering::SeqCst) {
            let from = self.now();
            core.asleep_since.store(from, Ordering::SeqCst);
            thread::sleep(PAUSE);
            let late = counted(Duration::from_nanos(self.now() - from)).as_nanos();
            core.late.fetch_add(u64::try_from(late).unwrap_or(u64::MAX), Ordering::SeqCst);
        }
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // It cannot panic, and nothing is lost if it did.
            let _ended = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_by_more_than_a_slice_is_counted() {
        let ms = Duration::from_millis;
        assert_eq!([0, 1, 5, 6, 300].map(|slept| counted(ms(slept))), [0, 0, 0, 5, 299].map(ms));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a watcher is late in real time")]
    fn a_stall_that_goes_on_is_counted_as_well() {
        let core = Core::default();
        core.late.store(7_000_000, Ordering::SeqCst);
        let shared = Shared { origin: Instant::now(), is_over: AtomicBool::new(true), cores: vec![core] };
        let stalls = Stalls { shared: Arc::new(shared), threads: Vec::new() };
        thread::sleep(Duration::from_millis(20));
        assert!(stalls.total() >= Duration::from_millis(7 + 19), "{:?}", stalls.total());
    }

    #[test]
    fn every_core_has_its_watcher() {
        let stalls = Stalls::watch();
        assert_eq!(stalls.shared.cores.len(), stalls.threads.len());
        assert!(!stalls.threads.is_empty());
    }
}
