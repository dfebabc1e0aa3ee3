//! Requests of operators and responses to them.

use super::event::Event;
use super::link::LinkView;
use super::view::{CheckView, ProberView, Status};
use bitcode::{Decode, Encode};
use serde::Serialize;
use std::fmt;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// Show all checks or one, optionally with their last results.
    Checks {
        /// Name of a check; `None` for all checks.
        name: Option<String>,
        /// Whether [`CheckView::history`] is filled in.
        history: bool,
    },
    /// Start a drain.
    Drain {
        /// An endpoint, or `all`.
        target: String,
        /// Reason.
        reason: String,
        /// Duration; `None` for a drain until [`Request::Undrain`].
        for_ms: Option<u64>,
        /// Whether the drain survives a restart. False for a drain that precedes a stop.
        is_kept: bool,
    },
    /// Show events after a number and, with `follow`, new events.
    Events {
        /// Number of the last known event; 0 for all stored events.
        since: u64,
        /// Whether to send new events as well, until one side disconnects.
        follow: bool,
    },
    /// Show the links.
    Links,
    /// Start maintenance.
    Maintain {
        /// An endpoint, a check, or `all`.
        target: String,
        /// Reason.
        reason: String,
        /// Duration; `None` for maintenance until [`Request::Ready`].
        for_ms: Option<u64>,
    },
    /// Show the probers.
    Probers,
    /// Drain and stop.
    Quit {
        /// Whether to stop without the drain.
        now: bool,
    },
    /// End maintenance and drains; with `all`, also cancel a stop that has not closed the listeners
    /// yet.
    Ready {
        /// An endpoint, a check, or `all`.
        target: String,
    },
    /// Reload the configuration.
    Reload,
    /// Run a check now, regardless of its schedule.
    RunCheck {
        /// The check.
        name: String,
    },
    /// Show the status of the program.
    Status,
    /// Cancel a drain; with `all`, every drain, and a stop that has not closed the listeners yet.
    Undrain {
        /// An endpoint, or `all`.
        target: String,
    },
}

/// One response.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Response {
    /// Response to [`Request::Checks`] and [`Request::RunCheck`].
    Checks(Vec<CheckView>),
    /// Success, with the result as a sentence.
    Done(String),
    /// Response to [`Request::Events`].
    Events {
        /// Oldest first.
        events: Vec<Event>,
        /// Number of events lost before the first of `events`.
        missed: u64,
    },
    /// Response to [`Request::Links`].
    Links(Vec<LinkView>),
    /// Response to [`Request::Probers`].
    Probers(Vec<ProberView>),
    /// Failure.
    Refused(Refusal),
    /// Response to [`Request::Status`].
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
    /// A value is out of range.
    Invalid,
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
    /// Creates a refusal of this kind.
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
