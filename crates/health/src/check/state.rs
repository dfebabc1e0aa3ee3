//! States of a check and outcomes of a run, with their names.
//!
//! Does not know about: how states follow from outcomes.

use std::time::Duration;

/// The state of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckState {
    /// Up, but the last success included a warning. Still serving.
    Degraded,
    /// `fall` failures in a row.
    Down,
    /// Changed too often; held down.
    Flapping,
    /// Up, with fewer than `fall` failures since the last success.
    GoingDown,
    /// Down, with fewer than `rise` successes since the last failure.
    GoingUp,
    /// Declared by an operator, or reported by the target's last result while that is fresh.
    Maintenance,
    /// The last result is too old.
    Stale,
    /// No result yet.
    #[default]
    Unknown,
    /// `rise` successes in a row.
    Up,
}

impl CheckState {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 9] = [
        Self::Degraded,
        Self::Down,
        Self::Flapping,
        Self::GoingDown,
        Self::GoingUp,
        Self::Maintenance,
        Self::Stale,
        Self::Unknown,
        Self::Up,
    ];

    /// The name in logs, labels and bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Degraded => "degraded",
            Self::Down => "down",
            Self::Flapping => "flapping",
            Self::GoingDown => "going_down",
            Self::GoingUp => "going_up",
            Self::Maintenance => "maintenance",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
            Self::Up => "up",
        }
    }
}

/// The outcome of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A success with a warning: slow, a complaint of the target, a certificate that expires soon.
    Degraded,
    /// The run failed locally: unknown name, no free port, a bug.
    Error,
    /// The target's response was wrong, or it refused the connection.
    Failure,
    /// The target reported maintenance. Neither success nor failure.
    Maintenance,
    /// The target's response was as expected.
    Success,
    /// The target did not respond in time.
    Timeout,
}

impl Outcome {
    /// The name in logs, labels and bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Degraded => "degraded",
            Self::Error => "error",
            Self::Failure => "failure",
            Self::Maintenance => "maintenance",
            Self::Success => "success",
            Self::Timeout => "timeout",
        }
    }

    /// Whether `rise` (true) or `fall` (false) counts it; `None` counts for neither.
    pub const fn is_success(self) -> Option<bool> {
        match self {
            Self::Degraded | Self::Success => Some(true),
            Self::Error | Self::Failure | Self::Timeout => Some(false),
            Self::Maintenance => None,
        }
    }
}

/// The result of one run, passed in when it ended.
#[derive(Clone, Copy, Debug)]
pub struct CheckResult<'a> {
    /// The outcome.
    pub outcome: Outcome,
    /// Duration of the run.
    pub latency: Duration,
    /// Why it is not a plain success; any bytes, see [`Note`](crate::Note).
    pub reason: &'a [u8],
}

impl<'a> CheckResult<'a> {
    /// A success.
    pub const fn success(latency: Duration) -> Self {
        Self { outcome: Outcome::Success, latency, reason: b"" }
    }

    /// Any other outcome, with its reason.
    pub const fn new(outcome: Outcome, latency: Duration, reason: &'a [u8]) -> Self {
        Self { outcome, latency, reason }
    }
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The old state.
    pub from: CheckState,
    /// The new state.
    pub to: CheckState,
}
