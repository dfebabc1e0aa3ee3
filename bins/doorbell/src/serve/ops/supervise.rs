//! What the supervisor does: the end of the program, and of whatever ends by itself.
//!
//! Does not know about: signals, servers.

use super::Operator;
use crate::config::format_duration;
use std::time::Duration;

impl Operator {
    /// Begins the drain before the end; false where it has begun and was not called off.
    pub(in crate::serve) fn begin_stop(&self, reason: &str) -> bool {
        let lifecycle = self.running().map(|running| running.lifecycle.clone()).unwrap_or_default();
        let mut inside = self.lock();
        if inside.life.stop().is_some() {
            return false;
        }
        let moved = inside.life.set_stop(reason.to_owned(), lifecycle.drain_delay, self.0.clock.now());
        self.record(&inside, moved);
        inside.keepers().for_each(|keeper| keeper.drain(true));
        drop(inside);
        tracing::info!(
            delay = format_duration(lifecycle.drain_delay),
            timeout = format_duration(lifecycle.drain_timeout),
            reason,
            "draining: not ready any more, still serving; a second signal stops at once"
        );
        true
    }

    /// Lets time pass: what is over ends. True when listeners are to be closed now, from when on nothing can be called off.
    pub(in crate::serve) fn let_time_pass(&self) -> bool {
        let now = self.0.clock.now();
        let mut inside = self.lock();
        for (target, source, hold) in inside.holds.expire(now) {
            tracing::info!(reason = hold.reason, "{target}: maintenance is over");
            self.changed_hold(&inside, &target, source, None, now);
        }
        self.look_at_windows(&mut inside, now);
        let was_closing = inside.life.is_closing();
        let moved = inside.life.close_if_due(now);
        self.record(&inside, moved);
        inside.life.is_closing() && !was_closing
    }

    /// Whether something drains and is not done: it is once load balancers had `drain_delay` to hear of it and nobody is connected.
    pub(in crate::serve) fn has_to_drain(&self) -> bool {
        let Some(running) = self.running() else { return false };
        let inside = self.lock();
        if !inside.life.is_draining() {
            return false;
        }
        let begun = inside.life.drain().map_or_else(|| inside.life.since(), |drain| drain.since);
        drop(inside);
        let is_heard = self.0.clock.now().saturating_sub(begun) >= running.lifecycle.drain_delay;
        !is_heard || running.conns_open() > 0
    }

    /// The end begins now, whatever was wanted.
    pub(in crate::serve) fn close(&self, reason: &str) {
        let mut inside = self.lock();
        let moved = inside.life.close(reason, self.0.clock.now());
        self.record(&inside, moved);
    }

    /// Nothing more is told of: those who follow get what happened up to here.
    pub(in crate::serve) fn end_events(&self) {
        self.0.journal.end();
    }

    /// How long until [`Self::let_time_pass`] has something to do.
    pub(in crate::serve) fn idle_for(&self) -> Option<Duration> {
        let inside = self.lock();
        let closes = inside.life.stop().filter(|_| !inside.life.is_closing()).map(|stop| stop.closes_at);
        let next = closes.into_iter().chain(inside.holds.next_end()).chain(inside.windows.look_at()).min()?;
        Some(next.saturating_sub(self.0.clock.now()))
    }
}
