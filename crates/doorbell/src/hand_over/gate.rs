//! Counts connections that are handed over, limits their number, and wakes workers that wait for a
//! permit.
//!
//! A worker that gets no permit sets `has_waiters` and tries once more. A permit that is dropped
//! lowers the count and then checks `has_waiters`. Both sequences are sequentially consistent, so
//! at least one side sees the other.
//!
//! A server and its successor have one gate each, with separate caps, and share one count
//! ([`SharedCount`]). A permit that is dropped wakes the waiting workers of all gates.

use core::fmt;
use std::sync::{Arc, Weak};

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Mutex, PoisonError};

/// A function that wakes the workers of a server.
type Wake = Box<dyn Fn() + Send + Sync>;

/// The limit of hand-overs of one server. The [module](self) documents it.
pub(crate) struct Gate {
    shared: Arc<SharedCount>,
    max: AtomicU32,
    closed: AtomicBool,
    own_wakers: Arc<Wakers>,
}

/// The count that several gates share.
struct SharedCount {
    out: AtomicU32,
    has_waiters: AtomicBool,
    /// The wake functions of all gates. Those of dropped gates are removed when a gate is added.
    wakers: Mutex<Vec<Weak<Wakers>>>,
}

/// Wake functions for the workers that wait at one gate.
struct Wakers(Mutex<Vec<Wake>>);

/// A permit for one handed-over connection. Dropping the permit makes room for another connection.
pub struct Permit {
    gate: Arc<Gate>,
}

impl Gate {
    pub(crate) fn new(max: u32) -> Self {
        let shared = SharedCount {
            out: AtomicU32::new(0),
            has_waiters: AtomicBool::new(false),
            wakers: Mutex::new(Vec::new()),
        };
        Self::to(Arc::new(shared), max)
    }

    /// Creates another gate that shares the count of this gate.
    pub(crate) fn with_same_count(&self, max: u32) -> Self {
        Self::to(Arc::clone(&self.shared), max)
    }

    fn to(shared: Arc<SharedCount>, max: u32) -> Self {
        let own_wakers = Arc::new(Wakers(Mutex::new(Vec::new())));
        let mut wakers = shared.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.retain(|gate| gate.strong_count() > 0);
        wakers.push(Arc::downgrade(&own_wakers));
        drop(wakers);
        Self { shared, max: AtomicU32::new(max), closed: AtomicBool::new(false), own_wakers }
    }

    pub(crate) fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::SeqCst);
    }

    pub(crate) fn max(&self) -> u32 {
        self.max.load(Ordering::SeqCst)
    }

    /// Number of connections currently handed over through this gate and all gates that share its
    /// count.
    pub(crate) fn out(&self) -> u32 {
        self.shared.out.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.own_wakers.wake_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn on_room(&self, wake: Wake) {
        self.own_wakers.0.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    /// Raises the count by one, or returns false at the cap and after [`Self::close`].
    /// [`Self::leave`] lowers the count again, and so does dropping the [`Permit`] created by
    /// [`Self::permit`].
    pub(crate) fn enter(&self) -> bool {
        let max = self.max();
        // The count must never exceed the cap, not even briefly: another worker would get no permit
        // and would not be woken.
        let one_more = |out: u32| (out < max).then_some(out + 1);
        let out = &self.shared.out;
        !self.is_closed() && out.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    /// Creates the permit after a successful [`Self::enter`].
    pub(crate) fn permit(self: &Arc<Self>) -> Permit {
        Permit { gate: Arc::clone(self) }
    }

    pub(crate) fn leave(&self) {
        let SharedCount { out, has_waiters, .. } = &*self.shared;
        out.fetch_sub(1, Ordering::SeqCst);
        if has_waiters.load(Ordering::SeqCst) && has_waiters.swap(false, Ordering::SeqCst) {
            self.shared.wake();
        }
    }

    /// Records that a worker waits for a permit. The worker must try once more before it sleeps.
    pub(crate) fn waits(&self) {
        self.shared.has_waiters.store(true, Ordering::SeqCst);
    }
}

impl SharedCount {
    /// Wakes the workers. A worker that gets no permit waits again.
    #[cold]
    fn wake(&self) {
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.iter().filter_map(Weak::upgrade).for_each(|gate| gate.wake_all());
    }
}

impl Wakers {
    #[cold]
    fn wake_all(&self) {
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
        f.debug_struct("Gate").field("out", &self.shared.out).field("max", &self.max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_admits_up_to_its_cap_and_a_dropped_permit_makes_room() {
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
    fn gates_share_a_count_and_a_dropped_permit_wakes_the_workers_of_all() {
        let first = Arc::new(Gate::new(3));
        let second = Arc::new(first.with_same_count(2));
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
        let _third = first.with_same_count(1);
        assert_eq!(first.shared.wakers.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_closed_gate_admits_no_connection() {
        let gate = Gate::new(2);
        gate.close();
        assert!(!gate.enter() && gate.is_closed());
        assert_eq!(gate.out(), 0);
    }
}
