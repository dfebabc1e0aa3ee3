//! Datagrams: when each socket receives, and how a batch is handled.
//!
//! A socket has a [`Gate`](super::accept::Gate) like a listener: the socket is armed, paused after
//! an error, watched, and closed during a drain. Replies leave in the turn in which their datagrams
//! arrived.

use super::Worker;
use super::accept::fault_of;
use crate::datagram::{Outcome, Service};
use crate::driver::{Driver, Errno, SentBatch};
use crate::id::DatagramIndex;
use crate::stats::DatagramSnapshot;
use crate::time::Clock;

impl DatagramSnapshot {
    fn count(&mut self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Guarded => &mut self.guarded,
            Outcome::Limited => &mut self.limited,
            Outcome::Panicked => &mut self.panicked,
            // The reply is counted when it is sent.
            Outcome::Replied => return,
            Outcome::Silent => &mut self.silent,
            Outcome::Truncated => &mut self.truncated,
        };
        *count += 1;
    }

    fn count_sent(&mut self, sent: SentBatch) {
        self.replied += sent.sent as u64;
        self.send_failed += sent.failed as u64;
    }
}

impl<D: Driver, C: Clock> Worker<D, C> {
    /// Handles a batch, without an allocation, a lock or a clock reading per datagram.
    pub(super) fn on_datagrams(&mut self, socket: DatagramIndex, len: u16) {
        let Self { driver, datagrams, server, shared, now, .. } = self;
        let (Some(replies), service) = (&mut datagrams.replies, &server.datagrams[socket.index()]) else {
            return driver.end_datagrams();
        };
        let mut batch = DatagramSnapshot { received: u64::from(len), ..DatagramSnapshot::default() };
        for index in 0..usize::from(len) {
            if !replies.fits(service.reply_max()) {
                batch.count_sent(driver.send_datagrams(socket, replies));
            }
            match driver.datagram(index) {
                Some(datagram) => batch.count(Service::serve(service, &datagram, *now, replies)),
                None => batch.invalid += 1,
            }
        }
        if !replies.is_empty() {
            batch.count_sent(driver.send_datagrams(socket, replies));
        }
        driver.end_datagrams();
        if batch.panicked != 0 {
            shared.counters.handler_panics.add(batch.panicked);
        }
        datagrams.gates[socket.index()].on_accepted();
        datagrams.counters[socket.index()].add(&batch);
    }

    pub(super) fn on_datagrams_ended(&mut self, socket: DatagramIndex, errno: Option<Errno>) {
        let gate = &mut self.datagrams.gates[socket.index()];
        self.gates_changed = true;
        match errno {
            None => gate.on_ended(),
            Some(errno) => {
                let failed = DatagramSnapshot { recv_errors: 1, ..DatagramSnapshot::default() };
                self.datagrams.counters[socket.index()].add(&failed);
                gate.on_error(fault_of(errno), self.now);
            }
        }
    }

    /// Arms every socket that should be armed.
    pub(super) fn arm_datagrams(&mut self) {
        for socket in self.datagrams.sockets() {
            let gate = &mut self.datagrams.gates[socket.index()];
            if !gate.should_arm(self.now) {
                continue;
            }
            if gate.takes_downgrade() {
                let _lowest = self.driver.downgrade_datagrams(socket);
            }
            self.driver.arm_datagrams(socket);
        }
    }

    pub(super) fn disarm_datagrams(&mut self) {
        for socket in self.datagrams.sockets() {
            if self.datagrams.gates[socket.index()].should_disarm() {
                self.driver.disarm_datagrams(socket);
            }
        }
    }

    pub(super) fn watch_datagrams(&mut self) {
        for socket in self.datagrams.sockets() {
            let driver = &mut self.driver;
            let gate = &mut self.datagrams.gates[socket.index()];
            if gate.watch(|| driver.datagrams_queued(socket)) && gate.should_disarm() {
                self.driver.disarm_datagrams(socket);
            }
        }
    }

    /// Closes sockets during a drain. A socket that no other server or process has is first read
    /// until its queue is empty; a stop counts the datagrams left in the queue as dropped.
    pub(super) fn close_drained_datagrams(&mut self) {
        for socket in self.datagrams.sockets() {
            let gate = &mut self.datagrams.gates[socket.index()];
            let is_last = gate.exclusive && !gate.lent;
            let empties = is_last && !self.drain.stops_accepting();
            if gate.is_closed() || (empties && self.driver.datagrams_queued(socket)) {
                continue;
            }
            if gate.should_disarm() {
                self.driver.disarm_datagrams(socket);
            }
            // Datagrams that arrived while the socket was disarmed are received first.
            if gate.can_close() && !(empties && self.driver.datagrams_queued(socket)) {
                gate.close();
                let dropped = self.driver.close_datagrams(socket, is_last);
                let closed = DatagramSnapshot { dropped, ..DatagramSnapshot::default() };
                self.datagrams.counters[socket.index()].add(&closed);
            }
        }
    }
}
