//! One endpoint: the classes of its checks, the commands of operators, and the resulting state.
//!
//! The first of these rules that applies determines the state: maintenance, a drain, a forced
//! state, the latch, the checks. A drain ranks above a forced state: an endpoint that an operator
//! once forced "up" still drains at the next stop and loses no requests.
//!
//! Rules for checks: a required check that is down makes the endpoint down, and so does a missed
//! quorum. The endpoint may fail open ([`FailOpen`]) if its quorum is missed or, without a quorum,
//! if required checks are down. A required check in maintenance puts the endpoint into maintenance,
//! and so does a quorum that is missed only because of maintenance. A degrading check that is not
//! up, or a required check that is degraded, makes the endpoint degraded. Unknown checks count as
//! down, or as up within [`Grace`].

mod config;
mod tally;
#[cfg(test)]
mod tests;
mod verdict;

pub use config::{
    Audience, Codes, Details, EndpointConfig, FailOpen, Grace, OnDrain, OnStale, Quorum, Severity, Use,
};
pub use tally::Class;
pub use verdict::{Cause, EndpointState, Verdict};

use crate::check::Check;
use crate::format::Rendered;
use crate::maintenance::Maintenance;
use crate::reason::Reason;
use crate::time::Time;
use fixedbitset::FixedBitSet;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use tally::Tally;
use verdict::Conditions;

/// The end of the grace period. An endpoint with a latch has no grace period; otherwise it would
/// report "started" without any result.
fn grace_until(config: &EndpointConfig, start: Time) -> Time {
    config.grace.filter(|_| !config.latch).map_or(Time::ZERO, |grace| start.after(grace.duration))
}

/// A forced state, which applies regardless of the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forced {
    /// The state: up, degraded or down.
    pub state: ForcedState,
    /// The reason.
    pub reason: Reason,
    /// The time at which the forced state ends automatically; `None` means never.
    pub until: Option<Time>,
}

/// The states that can be forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedState {
    /// Degraded.
    Degraded,
    /// Down.
    Down,
    /// Up.
    Up,
}

/// One endpoint: its state, the classes of its checks and its replies.
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<EndpointConfig>,
    weighted: bool,
    classes: Box<[Class]>,
    /// The uses whose class is not up. A search for them skips all other uses, of which there may
    /// be ten thousand.
    not_up: FixedBitSet,
    /// The uses with a status code of their own, in the order of the configuration.
    coded: Arc<[usize]>,
    tally: Tally,
    /// Whether the endpoint has ever been up or degraded by its checks.
    was_up: bool,
    /// The time since which the fail-open group has counted as failed.
    group_failed_since: Option<Time>,
    /// Start of the grace period, if there is one.
    start: Time,
    grace_until: Time,
    in_grace: bool,
    /// Class that stands in for the class of a check whose first result is awaited, by position of
    /// the use.
    provisional: BTreeMap<usize, Class>,
    may_fail_open: bool,
    /// The reason of the current drain of all endpoints.
    drain_of_all: Option<Reason>,
    /// The reason of this endpoint's own drain.
    drain: Option<Reason>,
    maintenance: Option<Maintenance>,
    forced: Option<Forced>,
    verdict: Verdict,
    /// The verdict without a drain.
    without_drain: Verdict,
    since: Time,
    /// Whether a change may have affected replies to requests that exclude checks.
    moved: bool,
    pub(crate) rendered: Rendered,
    pub(crate) rendered_at: Time,
}

impl Endpoint {
    /// Creates an endpoint that is down, because its checks have no results yet.
    pub(crate) fn new(config: EndpointConfig, now: Time) -> Self {
        let mut tally = Tally::default();
        for one in &config.uses {
            tally.add(one, Class::Unknown);
        }
        let start = Verdict::new(EndpointState::Down, Cause::Checks);
        let mut not_up = FixedBitSet::with_capacity(config.uses.len());
        not_up.insert_range(..);
        let coded = config.uses.iter().enumerate().filter(|(_, one)| one.code.is_some()).map(|(at, _)| at);
        Self {
            weighted: config.is_weighted(),
            classes: vec![Class::Unknown; config.uses.len()].into(),
            not_up,
            coded: coded.collect(),
            tally,
            was_up: false,
            group_failed_since: None,
            start: now,
            grace_until: grace_until(&config, now),
            in_grace: false,
            provisional: BTreeMap::new(),
            may_fail_open: false,
            drain_of_all: None,
            drain: None,
            maintenance: None,
            forced: None,
            verdict: start,
            without_drain: start,
            since: now,
            moved: false,
            rendered: Rendered::default(),
            rendered_at: now,
            config: Arc::new(config),
        }
    }

    /// Updates the class of one use from its check. The next [`settle`](Self::settle) updates the
    /// verdict.
    pub(crate) fn count(&mut self, at: usize, check: &Check) {
        let mut class = Class::of(check, self.config.on_stale);
        if let Entry::Occupied(set_provisional) = self.provisional.entry(at) {
            if check.awaited_until().is_some() {
                class = *set_provisional.get();
            } else {
                set_provisional.remove();
            }
        }
        let before = std::mem::replace(&mut self.classes[at], class);
        if before != class {
            let one = &self.config.uses[at];
            self.tally.remove(one, before);
            self.tally.add(one, class);
            self.not_up.set(at, class != Class::Up);
            self.moved |= one.counts();
        }
    }

    /// Applies the rules and returns the old and the new verdict if they differ.
    pub(crate) fn settle(&mut self, now: Time) -> Option<(Verdict, Verdict)> {
        if self.maintenance.as_ref().is_some_and(|maintenance| maintenance.is_over(now)) {
            self.maintenance = None;
        }
        if self.forced.as_ref().is_some_and(|forced| forced.until.is_some_and(|until| now >= until)) {
            self.forced = None;
        }
        let in_grace = now < self.grace_until;
        if !verdict::group_is_failed(&self.config, &self.tally, in_grace) {
            self.group_failed_since = None;
        } else if self.group_failed_since.is_none() {
            self.group_failed_since = Some(now);
        }
        let may_fail_open = now < self.open_until();
        self.moved |= (in_grace, may_fail_open) != (self.in_grace, self.may_fail_open);
        (self.in_grace, self.may_fail_open) = (in_grace, may_fail_open);
        let given = Conditions { in_grace, may_fail_open };
        let judged = verdict::judge(&self.config, &self.tally, given);
        // Grace, fail-open and provisional classes do not set the latch.
        let strict = Conditions { in_grace: false, may_fail_open: false };
        let earned = verdict::judge(&self.config, &self.tally, strict).state;
        self.was_up |=
            self.provisional.is_empty() && matches!(earned, EndpointState::Degraded | EndpointState::Up);
        self.without_drain = self.apply_overrides(judged);
        let reported = self.reported(self.without_drain);
        let before = std::mem::replace(&mut self.verdict, reported);
        if before.state != reported.state {
            self.since = now;
        }
        (before != reported).then_some((before, reported))
    }

    fn apply_overrides(&self, judged: Verdict) -> Verdict {
        if self.maintenance.is_some() {
            return Verdict::new(EndpointState::Maintenance, Cause::Maintenance);
        }
        if let Some(forced) = &self.forced {
            let state = match forced.state {
                ForcedState::Degraded => EndpointState::Degraded,
                ForcedState::Down => EndpointState::Down,
                ForcedState::Up => EndpointState::Up,
            };
            return Verdict::new(state, Cause::Forced);
        }
        let serving = matches!(judged.state, EndpointState::Degraded | EndpointState::Up);
        if self.config.latch && self.was_up && !serving {
            return Verdict::new(EndpointState::Up, Cause::Latch);
        }
        judged
    }

    /// The reported verdict: "drain" during a drain without maintenance, otherwise `without_drain`.
    const fn reported(&self, without_drain: Verdict) -> Verdict {
        match self.is_draining() && self.maintenance.is_none() {
            true => Verdict::new(EndpointState::Drain, Cause::Drain),
            false => without_drain,
        }
    }

    /// The time at which fail-open ends; the origin of time if the group does not count as failed,
    /// or if the endpoint must not fail open.
    fn open_until(&self) -> Time {
        match (self.config.fail_open, self.group_failed_since) {
            (Some(rule), Some(since)) if self.was_up => since.after(rule.max_age),
            _ => Time::ZERO,
        }
    }

    /// The time at which the state may change without input.
    pub(crate) fn deadline(&self, now: Time) -> Time {
        let maintained = self.maintenance.as_ref().and_then(|maintenance| maintenance.until);
        let forced = self.forced.as_ref().and_then(|forced| forced.until);
        let ends = [maintained, forced, Some(self.open_until()), Some(self.grace_until)];
        ends.into_iter().flatten().filter(|&end| end > now).min().unwrap_or(Time::MAX)
    }

    /// Takes over the state of the previous endpoint with the same name. The next
    /// [`settle`](Self::settle) updates the verdict.
    pub(crate) fn inherit(&mut self, predecessor: &Self) {
        self.start = predecessor.start;
        self.grace_until = grace_until(&self.config, self.start);
        self.was_up = predecessor.was_up;
        self.group_failed_since = predecessor.group_failed_since;
        self.drain.clone_from(&predecessor.drain);
        self.verdict = predecessor.verdict;
        self.since = predecessor.since;
    }

    /// The class of a check that is added at a reload, until its first result. This class leaves
    /// the endpoint's state unchanged. `one` is the check's use in the new `config`.
    pub(crate) fn provisional_class(&self, config: &EndpointConfig, one: &Use) -> Class {
        let given = Conditions { in_grace: self.in_grace, may_fail_open: self.may_fail_open };
        match verdict::judge(&self.config, &self.tally, given).state {
            EndpointState::Down | EndpointState::Drain => Class::Unknown,
            // The endpoint fails open because its group counts as failed. One more healthy member
            // could end fail-open.
            _ if self.may_fail_open && verdict::is_in_group(config, one) => Class::Down,
            EndpointState::Degraded | EndpointState::Up => Class::Up,
            EndpointState::Maintenance => Class::Maintenance,
        }
    }

    /// Counts a use as `class` until its check has its first result or the time limit for that
    /// result ends.
    pub(crate) fn set_provisional(&mut self, at: usize, class: Class, check: &Check) {
        self.provisional.insert(at, class);
        self.count(at, check);
    }

    pub(crate) fn set_drain_of_all(&mut self, drain: Option<Reason>) {
        self.moved |= self.drain_of_all != drain;
        self.drain_of_all = drain;
    }

    pub(crate) fn set_drain(&mut self, drain: Option<Reason>) {
        self.moved |= self.drain != drain;
        self.drain = drain;
    }

    pub(crate) fn set_maintenance(&mut self, maintenance: Option<Maintenance>) {
        self.moved |= self.maintenance != maintenance;
        self.maintenance = maintenance;
    }

    pub(crate) fn set_forced(&mut self, forced: Option<Forced>) {
        self.moved |= self.forced != forced;
        self.forced = forced;
    }

    /// The verdict and the status code for one audience.
    pub fn answer(&self, audience: Audience) -> (Verdict, u16) {
        let on_drain = self.config.on_drain[audience as usize];
        let (verdict, code) = verdict::answer(&self.config, self.verdict, self.without_drain, on_drain);
        if verdict.state != EndpointState::Down {
            return (verdict, code);
        }
        (verdict, self.code_of(verdict, &[]).unwrap_or(code))
    }

    /// The status code of the first use that led to `verdict`, has its own code and is not in
    /// `left_out`.
    fn code_of(&self, verdict: Verdict, left_out: &[usize]) -> Option<u16> {
        let mut deciding = self.coded.iter().map(|&at| (at, &self.config.uses[at])).filter(|&(at, one)| {
            verdict::decides(verdict, one, self.classes[at], self.in_grace) && !left_out.contains(&at)
        });
        deciding.find_map(|(_, one)| one.code)
    }

    /// The verdict and the status code that would apply if the uses at the positions `left_out`
    /// were up, which is how the Kubernetes API server treats excluded checks. Removing the uses
    /// instead could make a quorum unreachable. Each position must occur only once.
    pub(crate) fn answer_without(&self, left_out: &[usize], audience: Audience) -> (Verdict, u16) {
        let mut tally = self.tally;
        for &at in left_out {
            tally.remove(&self.config.uses[at], self.classes[at]);
            tally.add(&self.config.uses[at], Class::Up);
        }
        let given = Conditions { in_grace: self.in_grace, may_fail_open: self.may_fail_open };
        let without_drain = self.apply_overrides(verdict::judge(&self.config, &tally, given));
        let on_drain = self.config.on_drain[audience as usize];
        let (verdict, code) =
            verdict::answer(&self.config, self.reported(without_drain), without_drain, on_drain);
        if verdict.state != EndpointState::Down {
            return (verdict, code);
        }
        (verdict, self.code_of(verdict, left_out).unwrap_or(code))
    }

    /// A copy without the rendered replies.
    pub(crate) fn without_replies(&self) -> Self {
        Self {
            config: Arc::clone(&self.config),
            classes: self.classes.clone(),
            not_up: self.not_up.clone(),
            coded: Arc::clone(&self.coded),
            drain_of_all: self.drain_of_all.clone(),
            drain: self.drain.clone(),
            maintenance: self.maintenance.clone(),
            forced: self.forced.clone(),
            rendered: Rendered::default(),
            provisional: BTreeMap::new(),
            ..*self
        }
    }

    /// Returns whether a change since the last call may have affected replies to requests that
    /// exclude checks.
    pub(crate) const fn take_moved(&mut self) -> bool {
        std::mem::replace(&mut self.moved, false)
    }

    /// The uses that led to `verdict`, in the order of the configuration; none if no check decided.
    pub fn deciding(&self, verdict: Verdict) -> impl Iterator<Item = &Use> {
        // Checks that are up never decide.
        let uses = self.not_up.ones().map(|at| (&self.config.uses[at], self.classes[at]));
        uses.filter(move |&(one, class)| verdict::decides(verdict, one, class, self.in_grace))
            .map(|(one, _)| one)
    }

    /// The positions of all uses in three groups: first those that decided the verdict (ignoring a
    /// drain), then the others that are not up, then those that are up. Each group is in the order
    /// of the configuration.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let decided = |at: &usize| {
            verdict::decides(self.without_drain, &self.config.uses[*at], self.classes[*at], self.in_grace)
        };
        let others = self.not_up.ones().filter(move |at| !decided(at));
        self.not_up.ones().filter(decided).chain(others).chain(self.not_up.zeroes())
    }

    /// The current state and the rule that determined it.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The verdict that would apply without a drain.
    pub const fn verdict_without_drain(&self) -> Verdict {
        self.without_drain
    }

    /// The time since which the endpoint has had its current state.
    pub const fn state_since(&self) -> Time {
        self.since
    }

    /// The weight reported to load balancers; `None` if no check has a weight. Normally the weight
    /// is the sum of the weights of the serving checks, including unknown ones within a [`Grace`].
    /// While the endpoint serves by fail-open, a forced state or the latch, the weight is the sum
    /// over all checks, because a weight of 0 would stop all traffic. A drain does not change the
    /// weight.
    pub fn weight(&self) -> Option<u32> {
        let is_regardless =
            matches!(self.without_drain.cause, Cause::FailOpen | Cause::Forced | Cause::Latch);
        let weight = match self.without_drain.state {
            EndpointState::Degraded | EndpointState::Up if is_regardless => self.tally.weight_of_all(),
            _ => self.tally.weight_serving(self.in_grace),
        };
        self.weighted.then(|| u32::try_from(weight).unwrap_or(u32::MAX))
    }

    /// The configuration.
    pub fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// The class of each use, in the order of the configuration.
    pub const fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The declared maintenance.
    pub const fn maintenance(&self) -> Option<&Maintenance> {
        self.maintenance.as_ref()
    }

    /// The forced state.
    pub const fn forced(&self) -> Option<&Forced> {
        self.forced.as_ref()
    }

    /// Whether the endpoint drains, alone or with all endpoints.
    pub const fn is_draining(&self) -> bool {
        self.drain.is_some() || self.drain_of_all.is_some()
    }

    /// The rendered replies.
    pub const fn rendered(&self) -> &Rendered {
        &self.rendered
    }

    /// The operator's reason for the verdict; empty if none was given.
    pub fn note(&self, verdict: Verdict) -> &str {
        match verdict.cause {
            Cause::Forced => self.forced.as_ref().map_or("", |forced| forced.reason.as_str()),
            Cause::Maintenance => self.maintenance.as_ref().map_or("", |one| one.reason.as_str()),
            Cause::Drain => {
                let notes = [&self.drain, &self.drain_of_all].into_iter().flatten().map(Reason::as_str);
                notes.into_iter().find(|note| !note.is_empty()).unwrap_or_default()
            }
            Cause::Checks | Cause::FailOpen | Cause::Latch | Cause::Quorum => "",
        }
    }
}
