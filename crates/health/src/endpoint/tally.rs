//! Per class: the numbers of an endpoint's required checks, degrading checks and members of the
//! quorum, and the sum of the weights. Updated one check at a time.

use super::config::{OnStale, Severity, Use};
use crate::check::{Check, CheckState, Outcome};

/// The class of a check as seen by an endpoint. [`OnStale`] determines the class of a stale check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Serving, with a warning.
    Degraded,
    /// Not serving: down, going up, flapping.
    Down,
    /// Deliberately not serving.
    Maintenance,
    /// No result yet, or the target's own state is unknown.
    Unknown,
    /// Serving: up, going down.
    Up,
}

impl Class {
    /// The class of `check`.
    pub fn of(check: &Check, on_stale: OnStale) -> Self {
        match check.state() {
            CheckState::Degraded => Self::Degraded,
            CheckState::Down | CheckState::Flapping | CheckState::GoingUp => Self::Down,
            CheckState::GoingDown if check.is_degraded() => Self::Degraded,
            CheckState::GoingDown | CheckState::Up => Self::Up,
            CheckState::Maintenance => Self::Maintenance,
            CheckState::Unknown => Self::Unknown,
            CheckState::Stale => match on_stale {
                OnStale::Degraded => Self::Degraded,
                OnStale::Down => Self::Down,
                OnStale::Unknown => Self::Unknown,
                OnStale::Keep => match check.last_outcome() {
                    Some(Outcome::Maintenance) => Self::Maintenance,
                    Some(Outcome::Unknown) => Self::Unknown,
                    _ if !check.is_settled_up() => Self::Down,
                    _ if check.is_degraded() => Self::Degraded,
                    _ => Self::Up,
                },
            },
        }
    }

    /// Whether a check of this class counts as serving.
    pub const fn is_serving(self) -> bool {
        matches!(self, Self::Degraded | Self::Up)
    }
}

/// Counts by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    by_class: [u32; 5],
}

impl Counts {
    pub(super) const fn of(&self, class: Class) -> u32 {
        self.by_class[class as usize]
    }

    pub(super) fn total(&self) -> u32 {
        self.by_class.iter().sum()
    }

    fn add(&mut self, class: Class) {
        self.by_class[class as usize] += 1;
    }

    fn remove(&mut self, class: Class) {
        debug_assert!(self.of(class) > 0, "only counted checks are removed");
        self.by_class[class as usize] -= 1;
    }
}

/// The counts of required checks, degrading checks and members of the quorum, and the sum of
/// weights of each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) required: Counts,
    pub(super) degrading: Counts,
    pub(super) quorum: Counts,
    weights: [u64; 5],
}

impl Tally {
    pub(super) fn add(&mut self, one: &Use, class: Class) {
        self.each(one, |counts| counts.add(class));
        self.weights[class as usize] += u64::from(one.weight);
    }

    pub(super) fn remove(&mut self, one: &Use, class: Class) {
        self.each(one, |counts| counts.remove(class));
        self.weights[class as usize] -= u64::from(one.weight);
    }

    /// The weight of serving checks, including unknown ones in a grace period.
    pub(super) const fn weight_serving(&self, in_grace: bool) -> u64 {
        let granted = if in_grace { self.weights[Class::Unknown as usize] } else { 0 };
        self.weights[Class::Degraded as usize] + self.weights[Class::Up as usize] + granted
    }

    /// The weight of all checks.
    pub(super) fn weight_of_all(&self) -> u64 {
        self.weights.iter().sum()
    }

    fn each(&mut self, one: &Use, mut act: impl FnMut(&mut Counts)) {
        match one.severity {
            Severity::Degrading => act(&mut self.degrading),
            Severity::Info => {}
            Severity::Required => act(&mut self.required),
        }
        if one.in_quorum {
            act(&mut self.quorum);
        }
    }
}
