//! The words of a check: what a run found, and what follows for its state.
//!
//! Does not know about: how one follows from the other.

use std::time::Duration;

/// The state of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckState {
    /// Up, but the last success came with a complaint. Still serving.
    Degraded,
    /// `fall` failures in a row.
    Down,
    /// Changed too often; held down.
    Flapping,
    /// Up, with fewer than `fall` failures since the last success.
    GoingDown,
    /// Down, with fewer than `rise` successes since the last failure.
    GoingUp,
    /// Taken out by an operator, or the target says that it is, and not too long ago.
    Maintenance,
    /// The last result is too old to mean anything.
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

    /// The word for logs, labels and bodies.
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

/// What one run found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A success with a complaint: slow, warned, a certificate that ends soon.
    Degraded,
    /// The run could not be made: no such name, no port left, a bug.
    Error,
    /// The target answered wrongly or refused.
    Failure,
    /// The target says that it is in maintenance. Neither success nor failure.
    Maintenance,
    /// As it should be.
    Success,
    /// The target did not answer in time.
    Timeout,
}

impl Outcome {
    /// The word for logs, labels and bodies.
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

    /// Success or failure for `rise` and `fall`; `None` counts for neither.
    pub const fn is_success(self) -> Option<bool> {
        match self {
            Self::Degraded | Self::Success => Some(true),
            Self::Error | Self::Failure | Self::Timeout => Some(false),
            Self::Maintenance => None,
        }
    }
}

/// The result of one run, handed in when it ended.
#[derive(Clone, Copy, Debug)]
pub struct CheckResult<'a> {
    /// What was found.
    pub outcome: Outcome,
    /// From the start of the run to its end.
    pub latency: Duration,
    /// Why it is not a plain success; any bytes, see [`Note`](crate::Note).
    pub reason: &'a [u8],
}

impl<'a> CheckResult<'a> {
    /// A success.
    pub const fn success(latency: Duration) -> Self {
        Self { outcome: Outcome::Success, latency, reason: b"" }
    }

    /// Anything else, with its reason.
    pub const fn new(outcome: Outcome, latency: Duration, reason: &'a [u8]) -> Self {
        Self { outcome, latency, reason }
    }
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The state it left.
    pub from: CheckState,
    /// The state it has now.
    pub to: CheckState,
}
