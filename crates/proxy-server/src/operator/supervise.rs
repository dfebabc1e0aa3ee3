//! Operations for the supervisor: the stop of the program, and the end of limited drains and
//! maintenance.

use super::Operator;
use crate::parent;
use doorbell_proxy_config::format_duration;
use std::time::Duration;

impl Operator {
    /// Starts the drain that precedes a stop; false if a stop is already in progress.
    pub(crate) fn begin_stop(&self, reason: &str) -> bool {
        let lifecycle = self.running().map(|running| running.lifecycle.clone()).unwrap_or_default();
        let mut inner = self.lock();
        if inner.life.stop().is_some() {
            return false;
        }
        let change = inner.life.set_stop(reason.to_owned(), lifecycle.drain_delay, self.0.clock.now());
        self.record(&inner, change);
        self.publish_drain(&inner);
        drop(inner);
        tracing::info!(
            delay = format_duration(lifecycle.drain_delay),
            timeout = format_duration(lifecycle.drain_timeout),
            reason,
            "draining: not ready, requests are still served; a second signal stops immediately"
        );
        true
    }

    /// Starts a stop on SIGTERM. The first SIGTERM during a stop by a command changes nothing. False
    /// if this is a further SIGTERM of the same stop.
    pub(crate) fn begin_stop_on_sigterm(&self) -> bool {
        let has_begun = self.begin_stop("SIGTERM");
        let mut inner = self.lock();
        let is_first = inner.life.is_first_sigterm();
        let is_closing = inner.life.is_closing();
        drop(inner);
        if is_first && !has_begun {
            tracing::info!("SIGTERM: the stop continues; a second signal stops immediately");
        }
        if is_first && is_closing {
            // `doorbell run` stops its command when listeners close after SIGTERM.
            parent::send_report(parent::ServerReport::Closing);
        }
        is_first
    }

    /// Records that the command of `doorbell run` has exited; the instance never becomes ready
    /// again.
    pub(crate) fn record_command_exit(&self, reason: &str) {
        let mut inner = self.lock();
        let change = inner.life.record_command_exit(reason.to_owned(), self.0.clock.now());
        self.record(&inner, change);
        self.publish_drain(&inner);
        drop(inner);
        tracing::warn!(reason, "not ready; doorbell keeps running until it is stopped");
    }

    /// Ends drains and maintenance whose time limit is reached, and saves the state again if that
    /// failed before. True if listeners must be closed now.
    pub(crate) fn expire_due(&self) -> bool {
        let now = self.0.clock.now();
        let mut inner = self.lock();
        // Windows come first, because a step of the time of day may have postponed the end of a
        // window.
        self.evaluate_windows(&mut inner, now);
        let maintenance = inner.maintenance.expire(now);
        let mut is_saved =
            maintenance.is_empty() && inner.unsaved.as_ref().is_none_or(|(_, again_at)| *again_at > now);
        for (target, source, hold) in maintenance {
            tracing::info!(reason = hold.reason, "{target}: maintenance ended: time limit reached");
            self.publish_hold(&inner, &target, source, None, now);
        }
        is_saved &= !self.expire_drains(&mut inner, now);
        let was_closing = inner.life.is_closing();
        let change = inner.life.close_if_due(now);
        self.record(&inner, change);
        let closes_now = inner.life.is_closing() && !was_closing;
        // The last chance to save a change that could not be saved before.
        is_saved &= !(closes_now && inner.unsaved.is_some());
        drop(inner);
        if !is_saved && self.has_state_file() {
            // `save` logs a failure.
            let _note = self.save();
        }
        closes_now
    }

    /// Records an immediate stop; the caller closes the listeners.
    pub(crate) fn close(&self, reason: &str) {
        let mut inner = self.lock();
        let change = inner.life.close(reason, self.0.clock.now());
        self.record(&inner, change);
    }

    /// Time until [`Self::expire_due`] must be called again.
    pub(crate) fn next_deadline_in(&self) -> Option<Duration> {
        let inner = self.lock();
        let closes = inner.life.stop().filter(|_| !inner.life.is_closing()).map(|stop| stop.closes_at);
        let drains = inner.life.drains().next_end().into_iter().chain(inner.drains.next_end());
        let maintenance = inner.maintenance.next_end().into_iter().chain(inner.windows.evaluate_at());
        let next = closes
            .into_iter()
            .chain(drains)
            .chain(maintenance)
            .chain(inner.unsaved.as_ref().map(|(_, again_at)| *again_at))
            .min()?;
        Some(next.saturating_sub(self.0.clock.now()))
    }
}
