//! The wake-up of a worker: an eventfd as a number, with a place to wait for it and a count of all that came.
//!
//! Does not know about: who wakes, what for.

use std::sync::Arc;

use loom::sync::{Condvar, Mutex};

#[derive(Debug, Default)]
struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What a read of the descriptor would give.
    count: u64,
    /// Calls of [`Waker::wake`].
    wakes: usize,
}

/// As the engine's.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<Bell>);

/// As the engine's, with a wait that no driver is needed for.
#[derive(Debug)]
pub(crate) struct WakeSource(Arc<Bell>);

impl Waker {
    pub(crate) fn pair() -> (Self, WakeSource) {
        let bell = Arc::new(Bell::default());
        (Self(Arc::clone(&bell)), WakeSource(bell))
    }

    pub(crate) fn wake(&self) {
        let mut state = self.0.state.lock().expect("no model panics while it holds this");
        state.count += 1;
        state.wakes += 1;
        drop(state);
        self.0.rung.notify_one();
    }
}

impl WakeSource {
    /// Waits until the descriptor is readable, and reads it.
    pub(crate) fn wait(&self) {
        let mut state = self.0.state.lock().expect("no model panics while it holds this");
        while state.count == 0 {
            state = self.0.rung.wait(state).expect("no model panics while it holds this");
        }
        state.count = 0;
    }

    /// How often it was woken in all.
    pub(crate) fn wakes(&self) -> usize {
        self.0.state.lock().expect("no model panics while it holds this").wakes
    }
}
