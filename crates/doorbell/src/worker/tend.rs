//! Step 6 of a [turn](super): arming, disarming, watching and closing the listeners.

use doorbell_http::Misuses;

use super::{Flow, Gate, Worker};
use crate::driver::{Driver, Errno, Fault};
use crate::id::ListenerIndex;
use crate::time::{Clock, Time};
use crate::worker::accept::fault_of;

impl<D: Driver, C: Clock> Worker<D, C> {
    #[inline]
    pub(super) fn tend(&mut self) {
        if self.admission.is_full() {
            self.tend_full();
        }
        if self.gates_changed || self.gates_due <= self.now || self.drain.is_on() {
            self.tend_now();
            self.gates_due = self.next_look();
        }
    }

    /// Accepts again if enough connections have ended since the table was full. Until then, free
    /// slots are used only for connections that other workers have passed to this worker.
    #[cold]
    fn tend_full(&mut self) {
        let live = self.table.live();
        if self.admission.opens(live) {
            self.gates_changed = true;
        } else if self.admission.has_room(live) {
            self.adopt_later();
        }
    }

    fn tend_now(&mut self) {
        if self.watch.takes(self.now) {
            self.watch_gates();
            self.watch_datagrams();
        }
        let paused_over = self.all_gates().filter_map(Gate::paused_until).any(|until| until <= self.now);
        if self.drain.is_on() {
            self.close_empty_gates();
            self.close_drained_datagrams();
            self.leave_to_successors();
        }
        if self.gates_changed || paused_over {
            self.tend_gates();
        }
    }

    /// Returns the time at which a gate must be checked even without events.
    fn next_look(&self) -> Time {
        let watch = self.all_gates().any(Gate::is_armed).then(|| self.watch.due());
        // The end of a pause needs no check while no gate may be armed.
        let stops = self.drain.stops_accepting();
        let may_accept = self.gates.iter().filter(|_| !self.admission.is_full());
        let may_arm = may_accept.chain(&self.datagrams.gates).filter(|_| !stops);
        let paused = may_arm.filter_map(Gate::paused_until).min();
        let last_call = (self.drain.is_on() && self.now < self.last_call).then_some(self.last_call);
        [watch, paused, last_call, self.drain.deadline()].into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// The gates of listeners and of datagram sockets.
    fn all_gates(&self) -> impl Iterator<Item = &Gate> {
        self.gates.iter().chain(&self.datagrams.gates)
    }

    /// Arms every gate that should be armed.
    pub(super) fn tend_gates(&mut self) {
        self.gates_changed = false;
        if self.drain.stops_accepting() {
            return;
        }
        self.arm_datagrams();
        if self.admission.is_full() {
            return;
        }
        self.adopt_later();
        for listener in self.listeners() {
            let gate = &mut self.gates[listener.index()];
            if !gate.should_arm(self.now) {
                continue;
            }
            if gate.takes_downgrade() && self.driver.downgrade_accept(listener).is_some() {
                self.shared.counters.accept_downgrades.add(1);
            }
            self.shared.counters.accept_rearms.add(1);
            self.driver.arm_accept(listener);
        }
    }

    pub(super) fn disarm_gates(&mut self) {
        for listener in self.listeners() {
            if self.gates[listener.index()].should_disarm() {
                self.driver.disarm_accept(listener);
            }
        }
        self.disarm_datagrams();
        self.gates_changed = true;
    }

    pub(super) fn on_accept_ended(&mut self, listener: ListenerIndex, errno: Option<Errno>) {
        let gate = &mut self.gates[listener.index()];
        self.gates_changed = true;
        match errno {
            None => gate.on_ended(),
            Some(errno) => {
                self.shared.counters.accept_errors.add(1);
                self.by_listener[listener.index()].accept_failed(errno);
                gate.on_error(fault_of(errno), self.now);
            }
        }
    }

    /// Arms accept again. If the kernel has woken a thread that no longer accepts, the wake-up is
    /// lost and the client waits in the backlog; arming accept again finds the client.
    pub(super) fn relisten(&mut self) {
        if !self.drain.is_on() {
            self.disarm_gates();
        }
    }

    /// Notifies the successors once this worker no longer accepts on the listeners that they have
    /// inherited.
    fn leave_to_successors(&mut self) {
        if self.has_left || !self.all_gates().all(|gate| gate.exclusive || gate.is_closed()) {
            return;
        }
        self.has_left = true;
        if let Some(successors) = self.shared.successors.get() {
            successors.wake();
        }
        self.shared.leave();
    }

    fn watch_gates(&mut self) {
        for listener in self.listeners() {
            let driver = &mut self.driver;
            if self.gates[listener.index()].watch(|| driver.accept_backlogged(listener)) {
                self.shared.counters.accept_stalls.add(1);
                if self.gates[listener.index()].should_disarm() {
                    self.driver.disarm_accept(listener);
                }
            }
        }
    }

    /// Closes listeners during a drain. A listener whose clients no successor or other process will
    /// serve is closed only when no client is connecting to it or waiting in its backlog, so that
    /// no client is reset.
    fn close_empty_gates(&mut self) {
        let (mut closed, is_last_call) = (false, self.now < self.last_call);
        for listener in self.listeners() {
            let gate = &mut self.gates[listener.index()];
            if gate.is_closed() {
                continue;
            }
            let empties = gate.exclusive && !self.drain.stops_accepting();
            let is_for_others = gate.lent;
            if empties && (is_last_call || (!is_for_others && self.driver.accept_backlogged(listener))) {
                continue;
            }
            if gate.is_armed() && gate.should_disarm() {
                self.driver.disarm_accept(listener);
            }
            // Clients that arrived while accept was disarmed are accepted first.
            let empties = empties && !is_for_others;
            if gate.can_close() && !(empties && self.driver.accept_backlogged(listener)) {
                gate.close();
                self.driver.close_listener(listener);
                closed = true;
            }
        }
        if closed && self.drain.shortens_timeouts() {
            self.finish_idle();
        }
    }

    /// Runs turns until the worker is finished. `report` gets the invalid replies of handlers in
    /// each turn, usually none.
    ///
    /// # Errors
    /// The driver failed, as in [`Worker::turn`].
    pub fn run(&mut self, mut report: impl FnMut(Misuses)) -> Result<(), Fault> {
        loop {
            let flow = self.turn();
            report(core::mem::take(&mut self.misuses));
            if flow? == Flow::Finished {
                return Ok(());
            }
        }
    }
}
