//! The common start of all threads: none sends a request before every ring is open.

use std::sync::{Condvar, Mutex, PoisonError};

/// A barrier that also ends if a thread fails or cannot be started.
#[derive(Debug)]
pub(super) struct Start {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Number of threads that have not arrived.
    missing: u32,
    failed: bool,
}

impl Start {
    pub(super) fn new(threads: u32) -> Self {
        Self { state: Mutex::new(State { missing: threads, failed: false }), changed: Condvar::new() }
    }

    /// Waits for all other threads. Returns whether every thread is ready.
    pub(super) fn arrive(&self, is_ready: bool) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.missing -= 1;
        state.failed |= !is_ready;
        self.changed.notify_all();
        let ended = self.changed.wait_while(state, |state| state.missing > 0);
        !ended.unwrap_or_else(PoisonError::into_inner).failed
    }

    /// Ends the wait for threads that cannot be started.
    pub(super) fn refused(&self, threads: u32) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.missing -= threads;
        state.failed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::Start;

    /// Returns the results of one thread for each element.
    fn arrive(start: &Start, ready: &[bool]) -> Vec<bool> {
        thread::scope(|scope| {
            let threads: Vec<_> =
                ready.iter().map(|&is_ready| scope.spawn(move || start.arrive(is_ready))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn threads_start_if_all_are_ready() {
        assert_eq!(arrive(&Start::new(3), &[true; 3]), [true; 3]);
        assert_eq!(arrive(&Start::new(3), &[true, false, true]), [false; 3]);
    }

    #[test]
    fn threads_end_if_others_cannot_be_started() {
        let start = Start::new(5);
        start.refused(3);
        assert_eq!(arrive(&start, &[true; 2]), [false; 2]);
    }
}
