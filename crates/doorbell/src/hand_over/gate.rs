//! The count of connections that are out, its cap, and waking those who wait for room.
//!
//! Does not know about: what a connection is.
//!
//! A worker that found no room says so (`hungry`) and looks once more; whoever gives a place back looks at `hungry` afterwards. Both
//! orders are sequentially consistent, so that one of the two sees the other.

use core::fmt;
use std::sync::Arc;

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Mutex, PoisonError};

/// Calls a worker.
type Wake = Box<dyn Fn() + Send + Sync>;

/// See the [module](self).
pub(crate) struct Gate {
    out: AtomicU32,
    max: AtomicU32,
    closed: AtomicBool,
    hungry: AtomicBool,
    wakes: Mutex<Vec<Wake>>,
}

/// A place among the connections that are out, from the hand-over until it is dropped.
pub struct Permit {
    gate: Arc<Gate>,
}

impl Gate {
    pub(crate) fn new(max: u32) -> Self {
        Self {
            out: AtomicU32::new(0),
            max: AtomicU32::new(max),
            closed: AtomicBool::new(false),
            hungry: AtomicBool::new(false),
            wakes: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::SeqCst);
    }

    pub(crate) fn max(&self) -> u32 {
        self.max.load(Ordering::SeqCst)
    }

    pub(crate) fn out(&self) -> u32 {
        self.out.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn on_room(&self, wake: Wake) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    /// Takes a place. It is given back by [`Self::leave`], or by the [`Permit`] that [`Self::permit`] makes of it.
    pub(crate) fn enter(&self) -> bool {
        let max = self.max();
        // Never above the cap, not even for a moment: another worker would take that for a full house and nobody would wake it.
        let one_more = |out: u32| (out < max).then_some(out + 1);
        !self.is_closed() && self.out.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// A place that was taken gets an owner.
    pub(crate) fn permit(self: &Arc<Self>) -> Permit {
        Permit { gate: Arc::clone(self) }
    }

    pub(crate) fn leave(&self) {
        self.out.fetch_sub(1, Ordering::SeqCst);
        if self.hungry.load(Ordering::SeqCst) && self.hungry.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Somebody waits for room and will look once more before he sleeps.
    pub(crate) fn waits(&self) {
        self.hungry.store(true, Ordering::SeqCst);
    }

    #[cold]
    fn wake(&self) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|wake| wake());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("out", &self.out).field("max", &self.max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_cap_and_a_place_comes_back_with_its_permit() {
        let gate = Arc::new(Gate::new(2));
        let woken = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&woken);
        gate.on_room(Box::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }));
        let permits: Vec<_> = (0..2).filter(|_| gate.enter()).map(|_| gate.permit()).collect();
        assert!(!gate.enter());
        assert_eq!((permits.len(), gate.out()), (2, 2));
        gate.waits();
        drop(permits);
        assert_eq!((gate.out(), woken.load(Ordering::SeqCst)), (0, 1), "woken once, not for each");
        assert!(gate.enter());
    }

    #[test]
    fn a_closed_gate_lets_nobody_in() {
        let gate = Gate::new(2);
        gate.close();
        assert!(!gate.enter() && gate.is_closed());
        assert_eq!(gate.out(), 0);
    }
}
