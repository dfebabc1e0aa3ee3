//! A declared maintenance: reason, start, and automatic end.
//!
//! Does not know about: authorization, or how it persists across restarts.

use crate::note::Note;
use crate::time::Time;

/// A declared maintenance of a check or an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// The reason.
    pub reason: Note,
    /// The start.
    pub since: Time,
    /// When it ends by itself; `None` means never.
    pub until: Option<Time>,
}

impl Maintenance {
    /// Maintenance from `since` until `until` or until it is ended by a command.
    pub fn new(reason: &str, since: Time, until: Option<Time>) -> Self {
        Self { reason: Note::new(reason.as_bytes()), since, until }
    }

    /// Whether it has ended by time.
    pub fn is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}
