//! Requests of operators and responses to them.
//!
//! Does not know about: frames, sockets.

use super::event::Event;
use super::view::{CheckView, ProberView, Status};
use bitcode::{Decode, Encode};
use serde::Serialize;
use std::fmt;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// All checks or one, optionally with their last results.
    Checks {
        /// A check, or all.
        name: Option<String>,
        /// Whether [`CheckView::history`] is filled in.
        history: bool,
    },
    /// Drain until [`Request::Undrain`].
    Drain {
        /// An endpoint, or `all`.
        target: String,
        /// Reason.
        reason: String,
        /// Duration; `None` until cancelled.
        for_ms: Option<u64>,
        /// Whether the drain survives a restart. False for a drain that precedes a stop.
        is_kept: bool,
    },
    /// Events after a number and, with `follow`, new ones.
    Events {
        /// Number of the last known event; 0 for all kept events.
        since: u64,
        /// Whether responses go on until one side ends.
        follow: bool,
    },
    /// Start maintenance.
    Maintain {
        /// An endpoint, a check, or `all`.
        target: String,
        /// Reason.
        reason: String,
        /// Duration; `None` until [`Request::Ready`].
        for_ms: Option<u64>,
    },
    /// The probers.
    Probers,
    /// Drain and stop.
    Quit {
        /// Without the drain.
        now: bool,
    },
    /// End maintenance and drains.
    Ready {
        /// An endpoint, a check, or `all`.
        target: String,
    },
    /// Reload the configuration.
    Reload,
    /// Run a check now, whatever its schedule.
    RunCheck {
        /// The check.
        name: String,
    },
    /// The status of the program.
    Status,
    /// Cancel a drain; with `all` every drain, also one that precedes a stop, until the listeners close.
    Undrain {
        /// An endpoint, or `all`.
        target: String,
    },
}

/// One response.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Response {
    /// To [`Request::Checks`] and [`Request::RunCheck`].
    Checks(Vec<CheckView>),
    /// Success; a sentence with the result.
    Done(String),
    /// To [`Request::Events`].
    Events {
        /// Oldest first.
        events: Vec<Event>,
        /// Number of earlier events that are lost.
        missed: u64,
    },
    /// To [`Request::Probers`].
    Probers(Vec<ProberView>),
    /// Failure.
    Refused(Refusal),
    /// To [`Request::Status`].
    Status(Box<Status>),
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Refusal {
    /// The kind.
    pub kind: RefusalKind,
    /// The error message.
    pub text: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// A limit is reached.
    Busy,
    /// The attempt failed.
    Failed,
    /// The target does not exist.
    NotFound,
    /// The user lacks permission.
    NotPermitted,
    /// Not supported by this instance.
    NotSupported,
    /// The program is stopping.
    TooLate,
}

impl Refusal {
    /// A refusal of this kind.
    #[must_use]
    pub fn new(kind: RefusalKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
