//! The lifecycle of the program as a state machine: commands and signals are the input, state
//! transitions the output.
//!
//! An operator's drain lasts until it is cancelled or its time limit is reached; a stop drains for
//! `drain_delay` before listeners close. The drain and the stop can be cancelled until the
//! listeners close. When the command of `doorbell run` exits, a drain starts that cannot be
//! cancelled.

use doorbell_control::Lifecycle;
use std::time::Duration;

/// State of the program. Times are since the start of the program.
#[derive(Debug, Default)]
pub(super) struct Life {
    serving: bool,
    drain: Option<Drain>,
    stop: Option<Stop>,
    closing: bool,
    /// How the command of `doorbell run` exited, if it has.
    command_exit: Option<String>,
    /// Time at which the current state was reached.
    since: Duration,
}

/// A drain by an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Drain {
    pub(super) reason: String,
    pub(super) since: Duration,
    /// The end, if the drain has a time limit.
    pub(super) until: Option<Duration>,
    /// Whether the drain is kept across a restart.
    pub(super) is_kept: bool,
}

impl Drain {
    pub(super) fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Returns this drain as the continuation of `before`: with the start of `before`, and kept if
    /// either drain is kept.
    pub(super) fn continuing(self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        Self { since: before.since, is_kept: self.is_kept || before.is_kept, ..self }
    }
}

/// A requested stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) reason: String,
    /// Time at which listeners close.
    pub(super) closes_at: Duration,
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
        self.drain.is_some() || self.stop.is_some() || self.closing || self.command_exit.is_some()
    }

    /// Whether listeners are closing; nothing can be cancelled then.
    pub(super) const fn is_closing(&self) -> bool {
        self.closing
    }

    pub(super) const fn drain(&self) -> Option<&Drain> {
        self.drain.as_ref()
    }

    pub(super) const fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// The reason of the drain or stop.
    pub(super) fn reason(&self) -> &str {
        let stop = self.stop.as_ref().map(|stop| stop.reason.as_str());
        let drain = || Some(self.drain.as_ref()?.reason.as_str());
        stop.or(self.command_exit.as_deref()).or_else(drain).unwrap_or_default()
    }

    /// The operator's reason (may be empty) for the drain of all endpoints; `None` without such a
    /// drain.
    pub(super) fn drain_reason(&self) -> Option<&str> {
        self.is_draining().then(|| self.drain.as_ref().map_or("", |drain| &drain.reason))
    }

    /// How the command of `doorbell run` exited, if it has.
    pub(super) fn command_exit(&self) -> Option<&str> {
        self.command_exit.as_deref()
    }

    /// Records that listeners are open.
    pub(super) fn set_serving(&mut self, now: Duration) -> StateChange {
        self.change_state(now, |life| life.serving = true)
    }

    /// Starts an operator's drain, or changes the current one, which keeps its start.
    pub(super) fn set_drain(&mut self, drain: Drain, now: Duration) -> StateChange {
        self.change_state(now, |life| life.drain = Some(drain.continuing(life.drain.as_ref())))
    }

    /// Ends an operator's drain if its time limit is reached; `None` if there is no such drain. A
    /// stop continues to drain.
    pub(super) fn end_drain_if_due(&mut self, now: Duration) -> Option<StateChange> {
        self.drain.as_ref().filter(|drain| drain.is_over(now))?;
        Some(self.change_state(now, |life| life.drain = None))
    }

    /// Requests a stop after a drain of length `delay`; the elapsed time of an operator's drain
    /// counts towards `delay`.
    pub(super) fn set_stop(&mut self, reason: String, delay: Duration, now: Duration) -> StateChange {
        self.change_state(now, |life| {
            let begun = life.drain.as_ref().map_or(now, |drain| drain.since);
            let closes_at = begun.saturating_add(delay).max(now);
            life.stop.get_or_insert(Stop { reason, closes_at });
        })
    }

    /// Records that the command of `doorbell run` has exited: starts a drain that cannot be
    /// cancelled.
    pub(super) fn record_command_exit(&mut self, reason: String, now: Duration) -> StateChange {
        self.change_state(now, |life| {
            life.command_exit.get_or_insert(reason);
        })
    }

    /// Cancels an operator's drain and a stop, unless listeners are already closing.
    pub(super) fn cancel(&mut self, now: Duration) -> StateChange {
        self.change_state(now, |life| {
            if !life.closing {
                life.drain = None;
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
            life.stop.get_or_insert_with(|| Stop { reason: reason.to_owned(), closes_at: now });
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
        Drain { reason: reason.to_owned(), since: at(since), until: None, is_kept: true }
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
        assert_eq!(life.set_drain(drain("kernel", 10), at(10)), Some((Ready, Draining)));
        assert_eq!(life.set_drain(drain("new kernel", 12), at(12)), None);
        assert_eq!(life.close_if_due(at(999)), None);
        assert_eq!(life.reason(), "new kernel");
        assert_eq!(life.set_stop("SIGTERM".to_owned(), DELAY, at(13)), None);
        assert_eq!(life.stop().map(|stop| stop.closes_at), Some(at(15)));
        assert_eq!(life.reason(), "SIGTERM");
        let mut long = serving();
        long.set_drain(drain("", 10), at(10));
        long.set_stop(String::new(), DELAY, at(60));
        assert_eq!(long.close_if_due(at(60)), Some((Draining, Stopping)));
    }

    #[test]
    fn a_limited_drain_ends_and_a_stop_does_not() {
        let until = |secs, is_kept| Drain { until: Some(at(secs)), is_kept, ..drain("short", 10) };
        let mut life = serving();
        life.set_drain(until(20, false), at(10));
        assert_eq!(life.end_drain_if_due(at(19)), None);
        assert_eq!(life.end_drain_if_due(at(20)), Some(Some((Draining, Ready))));
        life.set_drain(until(20, true), at(15));
        life.set_drain(until(40, false), at(16));
        let kept = life.drain().map(|drain| (drain.since, drain.is_kept));
        assert_eq!(kept, Some((at(10), true)), "the start does not change");
        assert_eq!(life.end_drain_if_due(at(20)), None, "the last end counts");
        life.set_stop("SIGTERM".to_owned(), DELAY, at(39));
        assert_eq!(life.drain_reason(), Some("short"));
        assert_eq!(life.end_drain_if_due(at(40)), Some(None), "the stop keeps draining");
        assert_eq!(
            (life.state(), life.drain_reason()),
            (Draining, Some("")),
            "without the reason of the drain"
        );
    }

    #[test]
    fn a_restored_drain_applies_from_the_first_reply_on() {
        let mut life = Life::default();
        assert_eq!(life.set_drain(drain("kept", 0), at(0)), Some((Starting, Draining)));
        assert_eq!(life.set_serving(at(1)), None);
        assert_eq!(life.cancel(at(2)), Some((Draining, Ready)));
    }

    #[test]
    fn the_drain_of_a_lost_command_cannot_be_cancelled() {
        let mut life = serving();
        assert_eq!(life.record_command_exit("exit status: 7".to_owned(), at(10)), Some((Ready, Draining)));
        life.set_drain(drain("kernel", 11), at(11));
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
