//! The deadline of each phase of a connection.

use super::{Conn, Phase};
use crate::{Limits, Time};
use std::time::Duration;

impl Conn {
    /// Updates the deadline between requests, or inside a head when all input is used. A head has
    /// one absolute deadline, which input that arrives slowly does not extend. It is counted from
    /// the first byte of the head; for the first request, from the start of the connection.
    pub(super) fn rest_before_body(&mut self, now: Time, limits: &Limits) {
        if self.phase == Phase::Idle && !self.head.is_empty() {
            self.phase = Phase::Head;
            if self.requests > 0 {
                self.deadline = now.after(limits.header_timeout);
            }
        }
    }

    /// Restarts the wait for the next request, or for the rest of its head, after output that had to
    /// wait for the peer: no input was read meanwhile.
    pub const fn handle_sent(&mut self, now: Time, limits: &Limits) {
        match self.phase {
            Phase::Idle => self.deadline = now.after(limits.idle_timeout),
            Phase::Head => self.deadline = now.after(limits.header_timeout),
            Phase::Body | Phase::Closing | Phase::Waiting => {}
        }
    }

    /// Starts the idle time after a reply that keeps the connection open.
    #[inline]
    pub(super) fn begin_idle(&mut self, now: Time, limits: &Limits) {
        self.phase = Phase::Idle;
        self.deadline = now.after(limits.idle_timeout);
    }

    /// Updates the deadline inside a body, after bytes arrived at `now`. The new deadline is the
    /// earliest of those for progress, total time and minimum rate.
    pub(super) fn rest_in_body(&mut self, now: Time, limits: &Limits) {
        let mut deadline =
            now.after(limits.body_idle_timeout).min(self.body_began.after(limits.body_total_timeout));
        if limits.body_rate_min > 0 {
            // The time at which the bytes received so far fall below the minimum rate.
            let rate = u64::from(limits.body_rate_min);
            let earned = Duration::from_millis(self.body_taken.saturating_mul(1000) / rate);
            deadline = deadline.min(self.body_began.after(limits.body_rate_grace.saturating_add(earned)));
        }
        self.deadline = deadline;
    }
}
