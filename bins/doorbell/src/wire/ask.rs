//! What an operator asks, and what comes back.
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
    /// All checks or one, with their last results if asked for.
    Checks {
        /// One of them.
        name: Option<String>,
        /// Whether [`CheckView::history`] is filled in.
        history: bool,
    },
    /// Tell probers to stay away; everything is still served, until [`Request::Undrain`].
    Drain {
        /// An endpoint, or `all`.
        target: String,
        /// Why.
        reason: String,
        /// For how long; until it is called off without.
        for_ms: Option<u64>,
        /// Whether also after a restart. Not so for one that belongs to the end of the program.
        is_kept: bool,
    },
    /// What happened since the event with this number, and with `follow` what will.
    Events {
        /// The last one known; 0 for all that are kept.
        since: u64,
        /// Whether responses go on until one side ends.
        follow: bool,
    },
    /// Declare maintenance.
    Maintain {
        /// An endpoint, a check, or `all`.
        target: String,
        /// Why.
        reason: String,
        /// For how long; until [`Request::Ready`] without.
        for_ms: Option<u64>,
    },
    /// Who probes.
    Probers,
    /// Drain and end.
    Quit {
        /// Without the drain.
        now: bool,
    },
    /// End maintenance and drains.
    Ready {
        /// An endpoint, a check, or `all`.
        target: String,
    },
    /// Read the configuration anew.
    Reload,
    /// Run a check now, whatever its schedule.
    RunCheck {
        /// Which.
        name: String,
    },
    /// Everything at a glance.
    Status,
    /// Call a drain off; with `all` every drain, also one that would end the program, while it still accepts connections.
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
    /// It is done; a sentence that says what is so now.
    Done(String),
    /// To [`Request::Events`]: those that are kept.
    Events {
        /// Oldest first.
        events: Vec<Event>,
        /// How many before them are not kept any more, or went by too fast.
        missed: u64,
    },
    /// To [`Request::Probers`].
    Probers(Vec<ProberView>),
    /// It is not done.
    Refused(Refusal),
    /// To [`Request::Status`].
    Status(Box<Status>),
}

/// Why something is not done.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Refusal {
    /// What kind of no it is.
    pub kind: RefusalKind,
    /// A sentence with a fix.
    pub text: String,
}

/// Kinds of a no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// Too many at once.
    Busy,
    /// It was tried and failed.
    Failed,
    /// There is no such thing here.
    NotFound,
    /// Who asks may not.
    NotPermitted,
    /// This doorbell cannot do that.
    NotSupported,
    /// The program is about to end.
    TooLate,
}

impl Refusal {
    /// A no of this kind.
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
