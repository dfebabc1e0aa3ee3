//! Events, with a number and a time.

use super::word::{CauseWord, CheckWord, EndpointWord, HoldSource, Lifecycle};
use bitcode::{Decode, Encode};
use serde::Serialize;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Event {
    /// Counted from 1 at the start of the program, without gaps.
    pub number: u64,
    /// Time of the event.
    pub at_unix_ms: u64,
    /// Time since the start of the program, on a monotonic clock.
    pub at_uptime_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A check changed its state.
    Check {
        /// Name of the check.
        name: String,
        /// Old state.
        from: CheckWord,
        /// New state.
        to: CheckWord,
        /// Reason of the last result or of the maintenance; empty for a plain success.
        reason: String,
    },
    /// A drain of one endpoint began, was changed or ended.
    Drain {
        /// The endpoint.
        endpoint: String,
        /// Whether the endpoint is draining now.
        on: bool,
        /// Reason.
        reason: String,
        /// The end, if the drain has a time limit.
        until_unix_ms: Option<u64>,
    },
    /// The state of an endpoint, or the cause of the state, changed.
    Endpoint {
        /// Name of the endpoint.
        name: String,
        /// Old state.
        from: EndpointWord,
        /// New state.
        to: EndpointWord,
        /// The rule that determines the state.
        cause: CauseWord,
        /// The operator's reason for the state; may be empty.
        note: String,
    },
    /// The lifecycle state changed.
    Lifecycle {
        /// Old state.
        from: Lifecycle,
        /// New state.
        to: Lifecycle,
        /// Reason.
        reason: String,
    },
    /// Maintenance began, was changed or ended.
    Maintenance {
        /// An endpoint, a check, or `all`.
        target: String,
        /// Source of the maintenance.
        source: HoldSource,
        /// Whether maintenance is on.
        on: bool,
        /// Reason.
        reason: String,
        /// The end, if the maintenance has a time limit.
        until_unix_ms: Option<u64>,
    },
    /// A reload succeeded or failed.
    Reload {
        /// Whether the new configuration is in use.
        ok: bool,
        /// What changed, or why the reload failed.
        text: String,
    },
    /// A worker failed or fell back to epoll.
    Worker {
        /// Number of the worker.
        worker: u16,
        /// Description of the failure or fallback.
        text: String,
    },
}
