//! The lifecycle of the program as a state machine: commands and signals are the input, state
//! transitions the output.
//!
//! A drain by command lasts until it is cancelled or its time limit is reached; a stop drains for
//! `drain_delay` before listeners close. The drain and the stop can be cancelled until the
//! listeners close. When the command of `doorbell run` exits, a drain starts that cannot be
//! cancelled.

use super::drains::{Drain, TargetDrains};
use doorbell_control::Lifecycle;
use std::time::Duration;

/// State of the program. Times are since the start of the program.
#[derive(Debug, Default)]
pub(super) struct Life {
    serving: bool,
    drains: TargetDrains,
    stop: Option<Stop>,
    closing: bool,
    /// How the command of `doorbell run` exited, if it has.
    command_exit: Option<String>,
    /// Time at which the current state was reached.
    since: Duration,
}

/// A requested stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) reason: String,
    /// Time at which listeners close.
    pub(super) closes_at: Duration,
    /// Whether SIGTERM requested the stop, or was received since.
    has_sigterm: bool,
}

/// A transition: the old and the new state, if they differ.
pub(super) type StateChange = Option<(Lifecycle, Lifecycle)>;

impl Life {
    pub(super) fn state(&self) -> Lifecycle {
        match (self.closing, self.is_draining(), self.serving) {
            (true, _, _) => Lifecycle::Stopping,
            (false, true, _) => Lifecycle::Draining,
            (false, false, true) => Lifecycle::Ready,
            (false, false, false) => Lifecycle::Starting,
        }
    }

    /// Time at which the current state was reached.
    pub(super) const fn since(&self) -> Duration {
        self.since
    }

    /// Whether all endpoints drain.
    pub(super) const fn is_draining(&self) -> bool {
        !self.drains.is_empty() || self.stop.is_some() || self.closing || self.command_exit.is_some()
    }

    /// Whether listeners are closing; nothing can be cancelled then.
    pub(super) const fn is_closing(&self) -> bool {
        self.closing
    }

    /// The drains of all endpoints by command.
    pub(super) const fn drains(&self) -> &TargetDrains {
        &self.drains
    }

    pub(super) const fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// The reason of the drain or stop.
    pub(super) fn reason(&self) -> &str {
        let stop = self.stop.as_ref().map(|stop| stop.reason.as_str());
        stop.or(self.command_exit.as_deref()).or_else(|| self.drains.reason()).unwrap_or_default()
    }

    /// The operator's reason (may be empty) for the drain of all endpoints; `None` without such a
    /// drain.
    pub(super) fn drain_reason(&self) -> Option<&str> {
        self.is_draining().then(|| self.drains.reason().unwrap_or_default())
    }

    /// How the command of `doorbell run` exited, if it has.
    pub(super) fn command_exit(&self) -> Option<&str> {
        self.command_exit.as_deref()
    }

    /// Records that listeners are open.
    pub(super) fn set_serving(&mut self, now: Duration) -> StateChange {
        self.change_state(now, |life| life.serving = true)
    }

    /// Starts a drain by command ([`TargetDrains::set`]).
    pub(super) fn set_drain(&mut self, drain: Drain, is_kept: bool, now: Duration) -> StateChange {
        self.change_state(now, |life| life.drains.set(drain, is_kept))
    }

    /// Ends the drains by command whose time limit is reached; `None` if there are none. Another
    /// drain, or a stop, continues to drain.
    pub(super) fn end_drains_if_due(&mut self, now: Duration) -> Option<StateChange> {
        let mut has_ended = false;
        let change = self.change_state(now, |life| has_ended = life.drains.expire(now));
        has_ended.then_some(change)
    }

    /// Requests a stop after a drain of length `delay`; the elapsed time of a drain by command
    /// counts towards `delay`.
    pub(super) fn set_stop(&mut self, reason: String, delay: Duration, now: Duration) -> StateChange {
        self.change_state(now, |life| {
            let begun = life.drains.since().unwrap_or(now);
            let closes_at = begun.saturating_add(delay).max(now);
            life.stop.get_or_insert(Stop { reason, closes_at, has_sigterm: false });
        })
    }

    /// Records SIGTERM during a stop; false if it is not the first one, or if there is no stop.
    pub(super) fn is_first_sigterm(&mut self) -> bool {
        self.stop.as_mut().is_some_and(|stop| !std::mem::replace(&mut stop.has_sigterm, true))
    }

    /// Records that the command of `doorbell run` has exited: starts a drain that cannot be
    /// cancelled.
    pub(super) fn record_command_exit(&mut self, reason: String, now: Duration) -> StateChange {
        self.change_state(now, |life| {
            life.command_exit.get_or_insert(reason);
        })
    }

    /// Cancels the drains by command and a stop, unless listeners are already closing.
    pub(super) fn cancel(&mut self, now: Duration) -> StateChange {
        self.change_state(now, |life| {
            if !life.closing {
                life.drains = TargetDrains::default();
                life.stop = None;
            }
        })
    }

    /// Enters [`Lifecycle::Stopping`] if the delay of a stop has passed.
    pub(super) fn close_if_due(&mut self, now: Duration) -> StateChange {
        self.change_state(now, |life| {
            life.closing |= life.stop.as_ref().is_some_and(|stop| stop.closes_at <= now);
        })
    }

    /// Enters [`Lifecycle::Stopping`] immediately.
    pub(super) fn close(&mut self, reason: &str, now: Duration) -> StateChange {
        self.change_state(now, |life| {
            life.stop.get_or_insert_with(|| Stop {
                reason: reason.to_owned(),
                closes_at: now,
                has_sigterm: false,
            });
            life.closing = true;
        })
    }

    fn change_state(&mut self, now: Duration, change: impl FnOnce(&mut Self)) -> StateChange {
        let before = self.state();
        change(self);
        let after = self.state();
        if before == after {
            return None;
        }
        self.since = now;
        Some((before, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Lifecycle::{Draining, Ready, Starting, Stopping};

    const DELAY: Duration = Duration::from_secs(5);

    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn drain(reason: &str, since: u64) -> Drain {
        Drain { reason: reason.to_owned(), since: at(since), until: None }
    }

    fn serving() -> Life {
        let mut life = Life::default();
        assert_eq!(life.state(), Starting);
        assert_eq!(life.set_serving(at(1)), Some((Starting, Ready)));
        life
    }

    #[test]
    fn a_stop_drains_and_then_closes() {
        let mut life = serving();
        assert_eq!(life.set_stop("SIGTERM".to_owned(), DELAY, at(10)), Some((Ready, Draining)));
        assert_eq!((life.reason(), life.since()), ("SIGTERM", at(10)));
        assert_eq!(life.close_if_due(at(14)), None);
        assert_eq!(life.close_if_due(at(15)), Some((Draining, Stopping)));
        assert_eq!(life.cancel(at(16)), None, "too late");
        assert!(life.is_closing() && life.is_draining());
    }

    #[test]
    fn a_stop_can_be_cancelled_until_it_closes() {
        let mut life = serving();
        life.set_stop("SIGTERM".to_owned(), DELAY, at(10));
        assert_eq!(life.cancel(at(12)), Some((Draining, Ready)));
        assert_eq!(life.close_if_due(at(99)), None);
        life.set_stop("again".to_owned(), DELAY, at(100));
        assert_eq!(life.close_if_due(at(104)), None, "the delay starts again");
        assert_eq!(life.close_if_due(at(105)), Some((Draining, Stopping)));
    }

    #[test]
    fn an_operators_drain_lasts_and_counts_for_the_delay_of_a_stop() {
        let mut life = serving();
        assert_eq!(life.set_drain(drain("kernel", 10), true, at(10)), Some((Ready, Draining)));
        assert_eq!(life.set_drain(drain("new kernel", 12), true, at(12)), None);
        assert_eq!(life.close_if_due(at(999)), None);
        assert_eq!(life.reason(), "new kernel");
        assert_eq!(life.set_stop("SIGTERM".to_owned(), DELAY, at(13)), None);
        assert_eq!(life.stop().map(|stop| stop.closes_at), Some(at(15)));
        assert_eq!(life.reason(), "SIGTERM");
        let mut long = serving();
        long.set_drain(drain("", 10), true, at(10));
        long.set_stop(String::new(), DELAY, at(60));
        assert_eq!(long.close_if_due(at(60)), Some((Draining, Stopping)));
    }

    #[test]
    fn a_limited_drain_ends_and_a_stop_does_not() {
        let until = |secs| Drain { until: Some(at(secs)), ..drain("short", 10) };
        let mut life = serving();
        life.set_drain(until(20), false, at(10));
        assert_eq!(life.end_drains_if_due(at(19)), None);
        assert_eq!(life.end_drains_if_due(at(20)), Some(Some((Draining, Ready))));
        life.set_drain(until(20), true, at(15));
        life.set_drain(until(40), true, at(16));
        assert_eq!(life.drains().since(), Some(at(10)), "the start does not change");
        assert_eq!(life.end_drains_if_due(at(20)), None, "the last end counts");
        life.set_stop("SIGTERM".to_owned(), DELAY, at(39));
        assert_eq!(life.drain_reason(), Some("short"));
        assert_eq!(life.end_drains_if_due(at(40)), Some(None), "the stop keeps draining");
        assert_eq!(
            (life.state(), life.drain_reason()),
            (Draining, Some("")),
            "without the reason of the drain"
        );
    }

    #[test]
    fn a_drain_of_an_operator_and_one_of_a_hook_end_separately() {
        let mut life = serving();
        life.set_drain(Drain { until: Some(at(20)), ..drain("kernel", 10) }, true, at(10));
        life.set_drain(drain("hook", 15), false, at(15));
        assert_eq!(life.drain_reason(), Some("kernel"));
        assert_eq!(life.end_drains_if_due(at(20)), Some(None), "the drain of the hook continues");
        assert_eq!((life.drain_reason(), life.drains().since()), (Some("hook"), Some(at(10))));
        assert_eq!(life.cancel(at(21)), Some((Draining, Ready)));
    }

    #[test]
    fn a_restored_drain_applies_from_the_first_reply_on() {
        let mut life = Life::default();
        assert_eq!(life.set_drain(drain("kept", 0), true, at(0)), Some((Starting, Draining)));
        assert_eq!(life.set_serving(at(1)), None);
        assert_eq!(life.cancel(at(2)), Some((Draining, Ready)));
    }

    #[test]
    fn the_drain_of_a_lost_command_cannot_be_cancelled() {
        let mut life = serving();
        assert_eq!(life.record_command_exit("exit status: 7".to_owned(), at(10)), Some((Ready, Draining)));
        life.set_drain(drain("kernel", 11), true, at(11));
        assert_eq!((life.cancel(at(12)), life.reason()), (None, "exit status: 7"));
        assert!(life.is_draining() && !life.is_closing());
        life.set_stop("SIGTERM".to_owned(), DELAY, at(20));
        assert_eq!(life.close_if_due(at(25)), Some((Draining, Stopping)));
    }

    #[test]
    fn a_second_signal_closes_at_once() {
        let mut life = serving();
        life.set_stop("SIGTERM".to_owned(), DELAY, at(10));
        assert_eq!(life.close("SIGTERM again", at(11)), Some((Draining, Stopping)));
        assert_eq!(life.reason(), "SIGTERM");
        assert_eq!(life.close("SIGINT", at(12)), None);
    }
}
