//! What happened, with a number and a time.
//!
//! Does not know about: where events are kept, who follows them.

use super::word::{CauseWord, CheckWord, EndpointWord, HoldSource, Lifecycle};
use bitcode::{Decode, Encode};
use serde::Serialize;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Event {
    /// Counted from 1 at the start of the program, without gaps.
    pub number: u64,
    /// When.
    pub at_unix_ms: u64,
    /// The same since the start of the program, by a clock that nobody sets.
    pub at_uptime_ms: u64,
    /// What.
    #[serde(flatten)]
    pub what: Happening,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happening {
    /// A check changed its state.
    Check {
        /// Which.
        name: String,
        /// What it was.
        from: CheckWord,
        /// What it is.
        to: CheckWord,
        /// Why, in the words of the last result; empty for a plain success.
        reason: String,
    },
    /// A drain of one endpoint began, was changed or ended.
    Drain {
        /// Which.
        endpoint: String,
        /// Whether it drains now.
        on: bool,
        /// Why.
        reason: String,
        /// When it ends by itself.
        until_unix_ms: Option<u64>,
    },
    /// An endpoint changed its state, or has the same one by another rule.
    Endpoint {
        /// Which.
        name: String,
        /// What it was.
        from: EndpointWord,
        /// What it is.
        to: EndpointWord,
        /// Which rule gave it.
        cause: CauseWord,
        /// What an operator said about it; empty when nobody did.
        note: String,
    },
    /// The program as a whole went on, or back.
    Lifecycle {
        /// What it was.
        from: Lifecycle,
        /// What it is.
        to: Lifecycle,
        /// Why.
        reason: String,
    },
    /// A maintenance began, was changed or ended.
    Maintenance {
        /// An endpoint, a check, or `all`.
        target: String,
        /// Who declared it.
        source: HoldSource,
        /// Whether it holds now.
        on: bool,
        /// Why.
        reason: String,
        /// When it ends by itself.
        until_unix_ms: Option<u64>,
    },
    /// The configuration was read anew.
    Reload {
        /// Whether the new one is in use; otherwise the old one is.
        ok: bool,
        /// What changed, or why it was refused.
        text: String,
    },
    /// A worker failed or fell back.
    Worker {
        /// Which.
        worker: u16,
        /// What became of it.
        text: String,
    },
}
