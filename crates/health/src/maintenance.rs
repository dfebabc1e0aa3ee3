//! Declared maintenance: reason, start, and automatic end.

use crate::reason::Reason;
use crate::time::Time;

/// Declared maintenance of a check or an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// The reason.
    pub reason: Reason,
    /// The start.
    pub since: Time,
    /// The time at which maintenance ends automatically; `None` means never.
    pub until: Option<Time>,
}

impl Maintenance {
    /// Creates maintenance from `since` to `until`; a command can end it earlier.
    pub fn new(reason: &str, since: Time, until: Option<Time>) -> Self {
        Self { reason: Reason::new(reason.as_bytes()), since, until }
    }

    /// Whether the maintenance has expired.
    pub fn is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}
