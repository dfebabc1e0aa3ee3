//! Runs that are due before their time: somebody asked and what is known is old, or there is something new to be had.
//!
//! Does not know about: when the last run was; the lane does.

use super::Counters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;

/// Calls that wait to be heard. One check has at most one place in it as long as nothing is new.
const CALLS_MAX: usize = 4096;

/// A run that should start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Somebody asked; what is known may be new enough.
    Asked(usize),
    /// Something changed.
    Changed(usize),
}

/// What those who ask share with the lane.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    sender: mpsc::Sender<Call>,
    counters: Arc<Counters>,
}

/// One check that runs when somebody asks. Threads share it.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    run: usize,
    /// Whether the lane knows already. It forgets when the run starts.
    is_asked: Arc<AtomicBool>,
    calls: Calls,
}

/// By which a check says that there is something new.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    run: usize,
    calls: Calls,
}

impl Calls {
    pub(super) fn new(counters: Arc<Counters>) -> (Self, mpsc::Receiver<Call>) {
        let (sender, calls) = mpsc::channel(CALLS_MAX);
        (Self { sender, counters }, calls)
    }

    pub(super) fn demand(&self, run: usize, is_asked: &Arc<AtomicBool>) -> Demand {
        Demand { run, is_asked: Arc::clone(is_asked), calls: self.clone() }
    }

    pub(super) fn teller(&self, run: usize) -> Teller {
        Teller { run, calls: self.clone() }
    }

    fn call(&self, call: Call) -> bool {
        let is_heard = self.sender.try_send(call).is_ok();
        if !is_heard {
            self.counters.calls_refused.fetch_add(1, Ordering::Relaxed);
        }
        is_heard
    }
}

impl Demand {
    /// Has the check run if what is known is old. Nobody waits: all but the first of those who ask look at one flag.
    #[inline]
    pub(crate) fn ask(&self) {
        if !self.is_asked.load(Ordering::Relaxed) {
            self.ask_first();
        }
    }

    #[cold]
    fn ask_first(&self) {
        if self.is_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        self.calls.counters.asked.fetch_add(1, Ordering::Relaxed);
        if !self.calls.call(Call::Asked(self.run)) {
            self.is_asked.store(false, Ordering::Release);
        }
    }
}

impl Teller {
    pub(super) fn changed(&self) {
        self.calls.call(Call::Changed(self.run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_who_ask_one_is_heard() {
        let (calls, mut heard) = Calls::new(Arc::default());
        let is_asked = Arc::new(AtomicBool::new(false));
        let demand = calls.demand(3, &is_asked);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| demand.ask()));
            }
        });
        assert_eq!(heard.try_recv(), Ok(Call::Asked(3)));
        assert!(heard.try_recv().is_err());
        is_asked.store(false, Ordering::Release);
        demand.ask();
        assert_eq!(heard.try_recv(), Ok(Call::Asked(3)));
        assert_eq!(calls.counters.asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_call_without_a_place_may_be_made_again() {
        let (calls, mut heard) = Calls::new(Arc::default());
        let teller = calls.teller(0);
        (0..CALLS_MAX).for_each(|_| teller.changed());
        let is_asked = Arc::new(AtomicBool::new(false));
        let demand = calls.demand(1, &is_asked);
        demand.ask();
        assert!(!is_asked.load(Ordering::Relaxed));
        assert_eq!(calls.counters.calls_refused.load(Ordering::Relaxed), 1);
        assert_eq!(heard.try_recv(), Ok(Call::Changed(0)));
        demand.ask();
        assert!(is_asked.load(Ordering::Relaxed));
    }
}
