//! Row types of the history.
//!
//! State names are those that `doorbell events` prints.

use std::sync::Arc;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// Increments of counters within one minute.
    Increments(Increments),
    /// Time of an endpoint in each state within one minute.
    Minute(Minute),
    /// A drain, maintenance, or a lifecycle change.
    Operation(Operation),
    /// The arrival of a frame at the peer of a link.
    Receipt(Receipt),
    /// The result of a check.
    Result(CheckResult),
    /// A state change of a check or endpoint.
    Transition(Transition),
}

/// Kinds of rows, most important first. A full buffer drops rows of the least important kind that
/// it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Row::Transition`]
    Transition,
    /// [`Row::Operation`]
    Operation,
    /// [`Row::Minute`]
    Minute,
    /// [`Row::Increments`] of a link.
    Link,
    /// [`Row::Increments`] of a prober.
    Prober,
    /// [`Row::Result`]
    Result,
    /// [`Row::Receipt`]
    Receipt,
}

/// A state change of a check or endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// `check` or `endpoint`.
    pub subject: &'static str,
    /// Name of the check or endpoint.
    pub name: Box<str>,
    /// Previous state.
    pub from: &'static str,
    /// New state.
    pub to: &'static str,
    /// Rule that determined the state of an endpoint; empty for a check.
    pub cause: &'static str,
    /// Reason of the last result, or an operator's note; may be empty.
    pub reason: Box<str>,
}

/// A drain, maintenance, or a lifecycle change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// `drain`, `maintenance` or `lifecycle`.
    pub what: &'static str,
    /// Endpoint, check or `all`; for the lifecycle, the new state.
    pub target: Box<str>,
    /// True if the operation starts, false if it ends. Always true for lifecycle changes.
    pub is_on: bool,
    /// Source of maintenance; empty otherwise.
    pub source: &'static str,
    /// Reason; may be empty.
    pub reason: Box<str>,
    /// Scheduled end in milliseconds since 1970; `None` without one.
    pub until_ms: Option<u64>,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Name of the check, shared between its results.
    pub check: Arc<str>,
    /// The outcome.
    pub outcome: &'static str,
    /// Duration of the run in microseconds.
    pub latency_us: u32,
    /// Number of results that this row represents, if results are sampled; otherwise 1.
    pub weight: u32,
    /// Reason; empty for a plain success.
    pub reason: Box<str>,
}

/// Time of an endpoint in each state within one minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    /// The minute, in minutes since 1970.
    pub minute: u64,
    /// Name of the endpoint.
    pub endpoint: Arc<str>,
    /// Milliseconds by state, in the order of [`STATES`].
    pub ms: [u32; STATES.len()],
}

/// Increments of counters within one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Increments {
    /// The minute, in minutes since 1970.
    pub minute: u64,
    /// Identifies the set of counters.
    pub name: CounterName,
    /// Increments in the order that [`CounterName`] gives; unused ones are 0.
    pub counts: [u32; COUNTS_MAX],
}

/// Identifies a set of counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CounterName {
    /// Frames of a link, in this order: sent, lost with a connection, dropped because the queue was
    /// full.
    Link(Box<str>),
    /// Probes of an endpoint by one prober, by replied state in the order of [`STATES`].
    Prober {
        /// Name of the endpoint.
        endpoint: Box<str>,
        /// Name of the prober.
        prober: &'static str,
    },
}

/// Maximum number of counts that one row contains.
pub const COUNTS_MAX: usize = STATES.len();

/// The arrival of a frame at the peer of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Time at which the frame was sent, in milliseconds since 1970.
    pub at_ms: u64,
    /// Name of the link, shared between its receipts.
    pub link: Arc<str>,
    /// Identifies the frame. Frames of a burst may have equal measurements.
    pub frame: FrameId,
    /// Size of the frame in bytes.
    pub size: u32,
    /// Round-trip time in microseconds.
    pub round_trip_us: u32,
    /// Lower and upper bound of the latency to the peer, in microseconds.
    pub one_way_us: [u32; 2],
    /// Number of receipts that this row represents, if they are sampled; otherwise 1.
    pub weight: u32,
}

/// Identifies a frame among those of all links and processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameId {
    /// Number of the sending link that differs from those of all other links, including links of
    /// earlier processes.
    pub incarnation: u64,
    /// Number of the connection of this link.
    pub connection: u64,
    /// Number of the frame on this connection.
    pub number: u64,
}

/// Endpoint states, in the order of [`Minute::ms`] and of the counts of a prober.
pub const STATES: [&str; 5] = ["up", "degraded", "down", "drain", "maintenance"];

/// Estimated overhead of an allocation in bytes.
const ALLOCATION: usize = 16;

impl Kind {
    /// All kinds, most important first.
    pub const ALL: [Self; 7] = [
        Self::Transition,
        Self::Operation,
        Self::Minute,
        Self::Link,
        Self::Prober,
        Self::Result,
        Self::Receipt,
    ];

    /// Name of the kind, used as a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Minute => "minute",
            Self::Operation => "operation",
            Self::Prober => "prober",
            Self::Receipt => "receipt",
            Self::Result => "result",
            Self::Transition => "transition",
        }
    }
}

impl Row {
    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Increments(Increments { name: CounterName::Link(_), .. }) => Kind::Link,
            Self::Increments(_) => Kind::Prober,
            Self::Minute(_) => Kind::Minute,
            Self::Operation(_) => Kind::Operation,
            Self::Receipt(_) => Kind::Receipt,
            Self::Result(_) => Kind::Result,
            Self::Transition(_) => Kind::Transition,
        }
    }

    /// Approximate memory of the row in bytes, without shared names.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let texts = match self {
            Self::Minute(_) | Self::Receipt(_) => 0,
            Self::Increments(row) => match &row.name {
                CounterName::Link(name) | CounterName::Prober { endpoint: name, .. } => text(name),
            },
            Self::Operation(row) => text(&row.target) + text(&row.reason),
            Self::Result(row) => text(&row.reason),
            Self::Transition(row) => text(&row.name) + text(&row.reason),
        };
        size_of::<Self>() + texts
    }
}

const fn text(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len() + ALLOCATION }
}
