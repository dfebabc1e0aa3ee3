//! The wake-up of a worker, modelled as an eventfd: a counter, a condition variable and a count of
//! all wake-ups.

use std::sync::Arc;

use loom::sync::{Condvar, Mutex};

#[derive(Debug, Default)]
struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The value that a read of the descriptor would return.
    count: u64,
    /// Number of calls of [`Waker::wake`].
    wakes: usize,
}

/// Stands in for the engine's waker.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<Bell>);

/// Stands in for the engine's wake source; a thread can wait for it without a driver.
#[derive(Debug)]
pub(crate) struct WakeSource(Arc<Bell>);

impl Waker {
    pub(crate) fn pair() -> (Self, WakeSource) {
        let bell = Arc::new(Bell::default());
        (Self(Arc::clone(&bell)), WakeSource(bell))
    }

    pub(crate) fn wake(&self) {
        let mut state = self.0.state.lock().expect("no panic while the lock is held");
        state.count += 1;
        state.wakes += 1;
        drop(state);
        self.0.rung.notify_one();
    }
}

impl WakeSource {
    /// Waits until the modelled descriptor is readable, then reads it.
    pub(crate) fn wait(&self) {
        let mut state = self.0.state.lock().expect("no panic while the lock is held");
        while state.count == 0 {
            state = self.0.rung.wait(state).expect("no panic while the lock is held");
        }
        state.count = 0;
    }

    /// Total number of wake-ups.
    pub(crate) fn wakes(&self) -> usize {
        self.0.state.lock().expect("no panic while the lock is held").wakes
    }
}
