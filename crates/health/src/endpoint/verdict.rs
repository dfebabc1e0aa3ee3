//! The rules that derive an endpoint's state and its cause from the tally, and the status code for
//! each audience.

use super::config::{EndpointConfig, FailOpen, OnDrain, Severity, Use};
use super::tally::{Class, Tally};

/// The state of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointState {
    /// Serving, with a warning.
    Degraded,
    /// Not serving.
    Down,
    /// Still serving, while replies ask load balancers to send traffic elsewhere.
    Drain,
    /// Deliberately not serving.
    Maintenance,
    /// Serving.
    Up,
}

impl EndpointState {
    /// All states, in the order of their discriminants.
    pub const ALL: [Self; 5] = [Self::Degraded, Self::Down, Self::Drain, Self::Maintenance, Self::Up];

    /// The name in logs, labels and bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Degraded => "degraded",
            Self::Down => "down",
            Self::Drain => "drain",
            Self::Maintenance => "maintenance",
            Self::Up => "up",
        }
    }

    /// The class of an alias, a check that takes over the state of this endpoint.
    pub const fn class(self) -> Class {
        match self {
            Self::Degraded => Class::Degraded,
            Self::Down => Class::Down,
            Self::Drain | Self::Maintenance => Class::Maintenance,
            Self::Up => Class::Up,
        }
    }
}

/// The rule that determined the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The checks, by their severity.
    Checks,
    /// A drain.
    Drain,
    /// Fail-open: at most `max_healthy` of the checks of the quorum (without a quorum: of the
    /// required checks) are healthy, probably because of a shared dependency.
    FailOpen,
    /// A forced state, such as that of `on_worker_failure = "degrade"`.
    Forced,
    /// The latch: the endpoint was up or degraded before.
    Latch,
    /// Declared maintenance of the endpoint.
    Maintenance,
    /// A missed quorum.
    Quorum,
}

impl Cause {
    /// The name in logs and bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Checks => "checks",
            Self::Drain => "drain",
            Self::FailOpen => "fail_open",
            Self::Forced => "forced",
            Self::Latch => "latch",
            Self::Maintenance => "maintenance",
            Self::Quorum => "quorum",
        }
    }
}

/// A state and the rule that determined it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The state.
    pub state: EndpointState,
    /// The rule.
    pub cause: Cause,
}

impl Verdict {
    pub(super) const fn new(state: EndpointState, cause: Cause) -> Self {
        Self { state, cause }
    }
}

/// Inputs of the rules in addition to the tally.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    /// Whether unknown checks still count as up.
    pub(super) in_grace: bool,
    /// Whether the endpoint may fail open: the group counts as failed, and the time limit of
    /// fail-open has not passed.
    pub(super) may_fail_open: bool,
}

/// The verdict that follows from the checks alone.
pub(super) fn judge(config: &EndpointConfig, tally: &Tally, given: Conditions) -> Verdict {
    use EndpointState::{Degraded, Down, Maintenance, Up};
    let bad_unknown = |unknown: u32| if given.in_grace { 0 } else { unknown };
    let (quorum_up, quorum_min) = quorum_of(config, tally, given.in_grace);
    let quorum_fails = quorum_up < quorum_min;

    let group_is_quorum = config.quorum.is_some();
    let required_down = tally.required.of(Class::Down) + bad_unknown(tally.required.of(Class::Unknown));
    if required_down > 0 && (group_is_quorum || !given.may_fail_open) {
        return Verdict::new(Down, Cause::Checks);
    }
    if quorum_fails && !given.may_fail_open {
        // The quorum is missed because of maintenance if members in maintenance would complete it.
        let on_purpose = quorum_up + tally.quorum.of(Class::Maintenance) >= quorum_min;
        return Verdict::new(if on_purpose { Maintenance } else { Down }, Cause::Quorum);
    }
    if tally.required.of(Class::Maintenance) > 0 {
        return Verdict::new(Maintenance, Cause::Checks);
    }
    if required_down > 0 || quorum_fails {
        return Verdict::new(Degraded, Cause::FailOpen);
    }
    let not_up = tally.degrading.of(Class::Down)
        + tally.degrading.of(Class::Maintenance)
        + bad_unknown(tally.degrading.of(Class::Unknown));
    let complaints = tally.required.of(Class::Degraded) + tally.degrading.of(Class::Degraded);
    Verdict::new(if not_up + complaints > 0 { Degraded } else { Up }, Cause::Checks)
}

/// Whether a use belongs to the fail-open group.
pub(super) fn is_in_group(config: &EndpointConfig, one: &Use) -> bool {
    if config.quorum.is_some() { one.in_quorum } else { one.severity == Severity::Required }
}

/// The number of the quorum's members that count as up, and the minimum number; both 0 without a
/// quorum.
fn quorum_of(config: &EndpointConfig, tally: &Tally, in_grace: bool) -> (u32, u32) {
    let members = &tally.quorum;
    let granted = if in_grace { members.of(Class::Unknown) } else { 0 };
    let up = members.of(Class::Up) + members.of(Class::Degraded) + granted;
    (up, config.quorum.map_or(0, |quorum| quorum.min(members.total())))
}

/// Whether the fail-open group (see [`is_in_group`]) counts as failed: a member is down, at most
/// `max_healthy` percent of the members are healthy, and the quorum, if there is one, is missed.
pub(super) fn group_is_failed(config: &EndpointConfig, tally: &Tally, in_grace: bool) -> bool {
    let (quorum_up, quorum_min) = quorum_of(config, tally, in_grace);
    if config.quorum.is_some() && quorum_up >= quorum_min {
        return false;
    }
    let group = if config.quorum.is_some() { &tally.quorum } else { &tally.required };
    // An outage is also recorded without a rule for fail-open, because a reload may add the rule.
    let max_healthy = config.fail_open.map_or(0, |rule| rule.max_healthy);
    FailOpen::covers(max_healthy, group.of(Class::Down), group.total())
}

/// Whether a use whose check counts as `class` is among those that led to `verdict`.
pub(super) fn decides(verdict: Verdict, one: &Use, class: Class, in_grace: bool) -> bool {
    let down = class == Class::Down || (class == Class::Unknown && !in_grace);
    let required = one.severity == Severity::Required;
    match (verdict.cause, verdict.state) {
        (Cause::Checks, EndpointState::Down) => required && down,
        (Cause::Checks, EndpointState::Maintenance) => required && class == Class::Maintenance,
        (Cause::Checks, EndpointState::Degraded) => match one.severity {
            Severity::Degrading => down || matches!(class, Class::Degraded | Class::Maintenance),
            Severity::Info => false,
            Severity::Required => class == Class::Degraded,
        },
        (Cause::Quorum, _) => one.in_quorum && (down || class == Class::Maintenance),
        (Cause::FailOpen, _) => down && (one.in_quorum || required),
        (Cause::Checks | Cause::Drain | Cause::Forced | Cause::Latch | Cause::Maintenance, _) => false,
    }
}

/// The verdict and the status code for one audience.
pub(super) fn answer(
    config: &EndpointConfig,
    reported: Verdict,
    without_drain: Verdict,
    on_drain: OnDrain,
) -> (Verdict, u16) {
    let code = |verdict: Verdict| match verdict.state {
        EndpointState::Degraded => config.codes.degraded,
        EndpointState::Down => config.codes.down,
        EndpointState::Drain => config.codes.drain,
        EndpointState::Maintenance => config.codes.maintenance,
        EndpointState::Up => config.codes.up,
    };
    match on_drain {
        OnDrain::Code(drain) if reported.state == EndpointState::Drain => (reported, drain),
        OnDrain::Ignore if reported.state == EndpointState::Drain => (without_drain, code(without_drain)),
        OnDrain::Code(_) | OnDrain::Ignore | OnDrain::Report => (reported, code(reported)),
    }
}
