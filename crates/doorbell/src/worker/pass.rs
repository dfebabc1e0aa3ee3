//! The part of a worker in a [balancer](super::balancer): the worker passes accepted connections to
//! other workers, and adopts connections that other workers have accepted for it.

use super::Worker;
use super::balancer::{Membership, Outcome, Passed};
use crate::control::Command;
use crate::driver::Driver;
use crate::id::{ListenerIndex, SlotIndex};
use crate::panics::caught;
use crate::time::Clock;

impl<D: Driver, C: Clock> Worker<D, C> {
    /// Chooses a worker for a connection that this worker has accepted, and passes the connection
    /// to the chosen worker. False if this worker keeps the connection.
    pub(super) fn pass_to_other(&mut self, listener: ListenerIndex, slot: SlotIndex) -> bool {
        let Some(membership) = &self.membership else { return false };
        let driver = &mut self.driver;
        let Outcome { is_passed, was_full } =
            membership.pass(listener, self.table.live(), || driver.release(slot));
        if was_full {
            self.shared.counters.balance_queue_full.add(1);
        }
        if is_passed {
            self.gates[listener.index()].on_passed();
        }
        is_passed
    }

    /// Admits the connections that other workers have accepted for this worker.
    #[cold]
    pub(super) fn adopt(&mut self) {
        while let Err(panic) = caught(|| self.adopt_queue()) {
            self.on_panic(panic);
        }
    }

    fn adopt_queue(&mut self) {
        // Connections that arrive later wait for the next turn.
        for _ in 0..self.membership.as_ref().map_or(0, Membership::len) {
            // While the table is full, the queue waits (see `tend_full`). The queue of a failing
            // worker goes to the other workers.
            let live = self.table.live();
            if !self.admission.has_room(live) || self.drill.is_some() {
                return;
            }
            let passed = self.membership.as_ref().and_then(|membership| membership.take(live));
            let Some(Passed { listener, fd }) = passed else { return };
            if let Some(slot) = self.driver.adopt(fd) {
                self.gates[listener.index()].on_adopted();
                self.admit(listener, slot);
            }
        }
        self.adopt_later();
    }

    /// If the queue is not empty, continues with it in the next turn.
    pub(super) fn adopt_later(&self) {
        if self.membership.as_ref().is_some_and(|membership| !membership.is_empty()) {
            self.shared.send(Command::Adopt);
        }
    }

    /// Leaves the balancer, because this worker drains: no further connection is passed to it. It
    /// still serves the connections in its queue.
    pub(super) fn leave_balancer(&self) {
        self.membership.iter().for_each(Membership::leave);
    }

    /// Leaves the balancer, because this worker stops, and closes the connections in its queue.
    pub(super) fn close_queue(&self) {
        self.membership.iter().for_each(|membership| {
            membership.leave();
            membership.close_queue();
        });
    }
}
