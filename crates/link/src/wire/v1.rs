//! The frames of version 1. They are frozen: a change needs another version.

use bitcode::{Decode, Encode};
use std::fmt;

/// Maximum length of a name in bytes.
pub(crate) const NAME_LEN_MAX: usize = 256;

/// Maximum length of a reason in bytes; the rest is cut off.
pub(crate) const REASON_LEN_MAX: usize = 512;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Frame {
    /// Counted from 1 on each connection, without gaps.
    pub(crate) number: u64,
    /// Time on the sender's clock.
    pub(crate) sent_us: u64,
    pub(crate) payload: Payload,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Payload {
    /// Transitions up to this sequence number have arrived.
    Ack { sequence: u64 },
    /// No content: shows that the sender is alive.
    Idle,
    /// The first frame of each side.
    Open(Opening),
    /// Arrival times of consecutive frames.
    Receipts {
        /// Number of the first frame.
        first: u64,
        /// Arrival of the first frame, on the clock of the side that sends these receipts.
        base_us: u64,
        /// Arrival of each further frame, in microseconds after the first.
        after_us: Vec<u32>,
    },
    /// A result, which may be lost.
    Result { statement: Statement, measured: Option<Measured> },
    /// A state change. It is sent again after a reconnect until it is acknowledged.
    Transition { sequence: u64, statement: Statement },
}

/// The content of the first frame.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Opening {
    /// Identifies the sender's `Link`; differs after a restart.
    pub(crate) incarnation: u64,
    /// The receiver's incarnation as the sender last knew it; 0 if it does not know one.
    pub(crate) peer_incarnation: u64,
    /// Number of frames that the sender of this opening has received on ended connections.
    pub(crate) peer_frames: u64,
    /// Sequence number of the last transition that arrived.
    pub(crate) peer_sequence: u64,
}

/// Subject of a statement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Subject {
    /// A check or an endpoint.
    pub kind: SubjectKind,
    /// Name of the check or endpoint.
    pub name: String,
}

/// Kinds of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum SubjectKind {
    /// `[check.NAME]`
    Check,
    /// `[health.NAME]`
    Endpoint,
}

/// The state of a check or an endpoint at one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum State {
    /// Works with restrictions.
    Degraded,
    /// Does not work.
    Down,
    /// Taken out of service by a drain or maintenance.
    Maintenance,
    /// No longer exists.
    Removed,
    /// No current result.
    Unknown,
    /// Works.
    Up,
}

/// The state of a subject at a time.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Statement {
    /// The subject.
    pub subject: Subject,
    /// State of the subject.
    pub state: State,
    /// Reason; may be empty.
    pub reason: String,
    /// Time on the sender's clock in microseconds. Strictly increasing for one `Link` of the
    /// sender.
    pub at_us: u64,
}

/// The measured part of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Measured {
    /// The outcome.
    pub outcome: Outcome,
    /// Duration of the run in microseconds.
    pub latency_us: u64,
}

/// Outcomes of one run of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Outcome {
    /// Success with restrictions.
    Degraded,
    /// The run could not be carried out.
    Error,
    /// Failure.
    Failure,
    /// The target reported maintenance.
    Maintenance,
    /// Success.
    Success,
    /// No result in time.
    Timeout,
}

impl Subject {
    /// A check.
    #[must_use]
    pub fn check(name: &str) -> Self {
        Self { kind: SubjectKind::Check, name: name.to_owned() }
    }

    /// An endpoint.
    #[must_use]
    pub fn endpoint(name: &str) -> Self {
        Self { kind: SubjectKind::Endpoint, name: name.to_owned() }
    }
}

impl State {
    /// Name for logs and labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Degraded => "degraded",
            Self::Down => "down",
            Self::Maintenance => "maintenance",
            Self::Removed => "removed",
            Self::Unknown => "unknown",
            Self::Up => "up",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
