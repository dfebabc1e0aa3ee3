//! States of a check and outcomes of a run, with their names.

use std::time::Duration;

/// The state of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckState {
    /// Up, but the last success included a warning. Still serving.
    Degraded,
    /// Down, usually after `fall` consecutive failures.
    Down,
    /// Changed too often and is therefore held down.
    Flapping,
    /// Up, with at least one, but fewer than `fall` failures since the last success.
    GoingDown,
    /// Down, with at least one, but fewer than `rise` successes since the last failure.
    GoingUp,
    /// Declared, or reported by the last result unless this result is too old.
    Maintenance,
    /// The last result is too old.
    Stale,
    /// No result yet, or the last result reported that the state is unknown.
    #[default]
    Unknown,
    /// Up, usually after `rise` consecutive successes.
    Up,
}

impl CheckState {
    /// All states, in the order of their discriminants.
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
    /// A success with a warning, such as a slow response, a warning from the target, or a
    /// certificate that expires soon.
    Degraded,
    /// The run could not be carried out, for example because a host name is unknown, no local port
    /// is free, or because of a bug.
    Error,
    /// The target refused the connection, or its response was wrong.
    Failure,
    /// The target reported maintenance. Neither success nor failure.
    Maintenance,
    /// The target's response was as expected.
    Success,
    /// The target did not respond in time.
    Timeout,
    /// The state of the target is unknown, because its own checks have no result yet. Neither
    /// success nor failure.
    Unknown,
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
            Self::Unknown => "unknown",
        }
    }

    /// Whether the outcome counts for `rise` (true), for `fall` (false) or for neither (`None`).
    pub const fn is_success(self) -> Option<bool> {
        match self {
            Self::Degraded | Self::Success => Some(true),
            Self::Error | Self::Failure | Self::Timeout => Some(false),
            Self::Maintenance | Self::Unknown => None,
        }
    }
}

/// The result of one run, passed in when the run ends.
#[derive(Clone, Copy, Debug)]
pub struct CheckResult<'a> {
    /// The outcome.
    pub outcome: Outcome,
    /// Duration of the run.
    pub latency: Duration,
    /// The reason if the outcome is not a plain success; any bytes, see [`Reason`](crate::Reason).
    pub reason: &'a [u8],
}

impl<'a> CheckResult<'a> {
    /// A success.
    pub const fn success(latency: Duration) -> Self {
        Self { outcome: Outcome::Success, latency, reason: b"" }
    }

    /// A result with any outcome and a reason.
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
