//! Counts connections that are handed over, limits their number, and wakes workers that wait for a
//! permit.
//!
//! Does not know about: connections.
//!
//! A worker that gets no permit sets `hungry` and tries once more; a permit that is dropped lowers
//! the count and then checks `hungry`. Both sequences are sequentially consistent, so that at least
//! one side sees the other.
//!
//! A server and its successor have one gate each, with separate caps, and share one count
//! ([`House`]). A permit that is dropped wakes the waiting workers of all gates.

use core::fmt;
use std::sync::{Arc, Weak};

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Mutex, PoisonError};

/// A function that wakes a worker.
type Wake = Box<dyn Fn() + Send + Sync>;

/// The limit of hand-overs of one server. The [module](self) documents it.
pub(crate) struct Gate {
    house: Arc<House>,
    max: AtomicU32,
    closed: AtomicBool,
    bell: Arc<Bell>,
}

/// The count that several gates share.
struct House {
    out: AtomicU32,
    hungry: AtomicBool,
    /// The bells of all gates; those of dropped gates are removed when a gate is added.
    bells: Mutex<Vec<Weak<Bell>>>,
}

/// Wake functions for the workers that wait at one gate.
struct Bell(Mutex<Vec<Wake>>);

/// A permit for one handed-over connection. Dropping the permit makes room for another connection.
pub struct Permit {
    gate: Arc<Gate>,
}

impl Gate {
    pub(crate) fn new(max: u32) -> Self {
        let house =
            House { out: AtomicU32::new(0), hungry: AtomicBool::new(false), bells: Mutex::new(Vec::new()) };
        Self::to(Arc::new(house), max)
    }

    /// Creates another gate with the same count.
    pub(crate) fn beside(&self, max: u32) -> Self {
        Self::to(Arc::clone(&self.house), max)
    }

    fn to(house: Arc<House>, max: u32) -> Self {
        let bell = Arc::new(Bell(Mutex::new(Vec::new())));
        let mut bells = house.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.retain(|bell| bell.strong_count() > 0);
        bells.push(Arc::downgrade(&bell));
        drop(bells);
        Self { house, max: AtomicU32::new(max), closed: AtomicBool::new(false), bell }
    }

    pub(crate) fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::SeqCst);
    }

    pub(crate) fn max(&self) -> u32 {
        self.max.load(Ordering::SeqCst)
    }

    /// Number of connections handed over through all gates with this count.
    pub(crate) fn out(&self) -> u32 {
        self.house.out.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn on_room(&self, wake: Wake) {
        self.bell.0.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    /// Raises the count by one, or returns false at the cap. [`Self::leave`] lowers the count
    /// again, and so does dropping the [`Permit`] created by [`Self::permit`].
    pub(crate) fn enter(&self) -> bool {
        let max = self.max();
        // The count must never exceed the cap, not even briefly: another worker would get no permit
        // and would not be woken.
        let one_more = |out: u32| (out < max).then_some(out + 1);
        let out = &self.house.out;
        !self.is_closed() && out.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// Creates the permit after a successful [`Self::enter`].
    pub(crate) fn permit(self: &Arc<Self>) -> Permit {
        Permit { gate: Arc::clone(self) }
    }

    pub(crate) fn leave(&self) {
        let House { out, hungry, .. } = &*self.house;
        out.fetch_sub(1, Ordering::SeqCst);
        if hungry.load(Ordering::SeqCst) && hungry.swap(false, Ordering::SeqCst) {
            self.house.wake();
        }
    }

    /// Records that a worker waits for a permit. The worker must try once more before it sleeps.
    pub(crate) fn waits(&self) {
        self.house.hungry.store(true, Ordering::SeqCst);
    }
}

impl House {
    /// Wakes the workers. A worker that gets no permit waits again.
    #[cold]
    fn wake(&self) {
        let bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
    }
}

impl Bell {
    #[cold]
    fn ring(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|wake| wake());
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
        f.debug_struct("Gate").field("out", &self.house.out).field("max", &self.max).finish_non_exhaustive()
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
        assert_eq!((gate.out(), woken.load(Ordering::SeqCst)), (0, 1), "one wake-up for all waiters");
        assert!(gate.enter());
    }

    #[test]
    fn gates_of_one_house_share_a_count_and_a_returned_place_wakes_all_of_them() {
        let first = Arc::new(Gate::new(3));
        let second = Arc::new(first.beside(2));
        let woken = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        for (at, gate) in [&first, &second].into_iter().enumerate() {
            let counter = Arc::clone(&woken);
            gate.on_room(Box::new(move || {
                counter[at].fetch_add(1, Ordering::SeqCst);
            }));
        }
        let woken = || woken.each_ref().map(|count| count.load(Ordering::SeqCst));
        let held: Vec<_> = (0..2).filter(|_| first.enter()).map(|_| first.permit()).collect();
        assert_eq!((held.len(), second.out()), (2, 2));
        assert!(!second.enter() && first.enter(), "each gate has a separate cap");
        second.waits();
        first.leave();
        assert_eq!(woken(), [1, 1]);
        drop(held);
        assert!(second.enter());
        second.close();
        assert!(!first.is_closed() && woken() == [1, 2], "only one of the gates is closed");
        // A dropped gate no longer wakes its workers.
        drop(second);
        first.waits();
        first.leave();
        assert_eq!(woken(), [2, 2]);
        let _third = first.beside(1);
        assert_eq!(first.house.bells.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_closed_gate_admits_no_connection() {
        let gate = Gate::new(2);
        gate.close();
        assert!(!gate.enter() && gate.is_closed());
        assert_eq!(gate.out(), 0);
    }
}
