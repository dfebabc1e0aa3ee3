//! The timers of a turn: connections whose deadline has passed.
//!
//! Does not know about: the first deadline of a wait, which [`super::apply`] sets.

use doorbell_http::Next;

use super::handler_call::Input;
use super::{CLOCK_RESOLUTION, Todo, Worker};
use crate::conn::{Arriving, Phase};
use crate::driver::Driver;
use crate::error::CloseReason;
use crate::id::ConnId;
use crate::protocol::Protocol as _;
use crate::time::Clock;

impl<D: Driver, C: Clock> Worker<D, C> {
    /// Handles connections whose deadline has passed, except during a pause.
    #[inline(always)]
    pub(super) fn expire(&mut self) {
        if self.wheel.is_due(self.now) {
            let (due, turn) = (self.wheel.due(), self.shared.counters.turns.value());
            if !self.pause.holds(due, self.now, turn, self.table.live()) {
                self.expire_all();
            }
        }
    }

    /// Handles connections whose deadline has passed, and re-arms those whose timer fired early.
    fn expire_all(&mut self) {
        while let Some(slot) = self.wheel.expire(self.now) {
            let Some(id) = self.table.at(slot) else {
                continue;
            };
            let conn = self.table.live_mut(id);
            if conn.deadline > self.now {
                let deadline = conn.deadline;
                self.wheel.arm(slot, deadline);
                continue;
            }
            match conn.phase() {
                Phase::Open if conn.send_in_flight => self.expire_send(id),
                Phase::Open => self.time_out(id),
                Phase::Lingering => {
                    let reason = conn.reason();
                    self.drive(id, Todo::Close(reason));
                }
                Phase::Waiting => {
                    let todo = self.not_taken(id);
                    self.drive(id, todo);
                }
                Phase::Closing | Phase::Free | Phase::Leaving => {}
            }
        }
    }

    /// Handles a send that has not completed within the write timeout. The kernel completes a send
    /// only when much of its buffer is free, so a slow but steady reader may still be making
    /// progress.
    fn expire_send(&mut self, id: ConnId) {
        let unsent = self.driver.unsent(id);
        if unsent.is_none() && self.driver.find_unsent(id) {
            let conn = self.table.live_mut(id);
            conn.deadline = self.now.after(CLOCK_RESOLUTION);
            let deadline = conn.deadline;
            return self.wheel.arm(id.slot, deadline);
        }
        let conn = self.table.live_mut(id);
        let before = core::mem::replace(&mut conn.unsent, unsent);
        let has_fallen = unsent.is_some_and(|now| before.is_none_or(|before| now < before));
        if has_fallen {
            conn.deadline = self.now.after(self.server.limits.write_timeout);
            let deadline = conn.deadline;
            return self.wheel.arm(id.slot, deadline);
        }
        // A partial reply must not look complete to the peer.
        self.driver.reset_on_close(id);
        self.drive(id, Todo::Close(CloseReason::WriteTimeout));
    }

    /// Handles the expiry of the deadline of the protocol or of a drain.
    fn time_out(&mut self, id: ConnId) {
        let is_shortened = self.drain.shortens_timeouts() && !self.is_own_deadline_over(id);
        if is_shortened && (self.may_ask_first(id) || self.is_idle(id)) {
            return self.finish_silent(id);
        }
        let waited = self.table.live_mut(id).arriving == Arriving::JobResult;
        let next = self.pass_input(id, Input::Timeout);
        if waited && next != Next::Wait {
            self.shared.counters.jobs_timed_out.add(1);
            self.jobs.timed_out(id.slot);
        }
        let todo = if next == Next::Close && self.is_given_up(id) {
            Todo::Close(self.reason_of(id))
        } else {
            Todo::Next(next)
        };
        self.drive(id, todo);
    }

    /// True if the deadline of the protocol has passed, and not only an earlier one of a drain: the
    /// protocol may reply to silence.
    fn is_own_deadline_over(&mut self, id: ConnId) -> bool {
        let now = self.now;
        let conn = self.table.live_mut(id);
        let protocol = &self.server.protocols[conn.listener.index()];
        conn.protocol.as_ref().is_some_and(|state| protocol.deadline(state) <= now)
    }

    /// True if the connection can be closed without a linger, because no request of the peer is in
    /// transit.
    fn is_given_up(&mut self, id: ConnId) -> bool {
        let conn = self.table.live_mut(id);
        let protocol = &self.server.protocols[conn.listener.index()];
        conn.protocol.as_ref().is_some_and(|state| protocol.is_given_up(state))
    }
}
