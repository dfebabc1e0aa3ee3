//! A declared maintenance: why, since when, and when it ends by itself.
//!
//! Does not know about: who declared it, or where it is kept across restarts.

use crate::note::Note;
use crate::time::Time;

/// A declared maintenance of a check or an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Why.
    pub reason: Note,
    /// Since when.
    pub since: Time,
    /// When it ends by itself; never without.
    pub until: Option<Time>,
}

impl Maintenance {
    /// Maintenance from `since` until `until`, or until it is ended.
    pub fn new(reason: &str, since: Time, until: Option<Time>) -> Self {
        Self { reason: Note::new(reason.as_bytes()), since, until }
    }

    /// Whether its end has come.
    pub fn is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}
