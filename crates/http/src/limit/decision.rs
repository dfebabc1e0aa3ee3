//! What a limiter says, and what it has said so far.
//!
//! Does not know about: how it was found.

use super::quota::Quota;
use std::time::Duration;

/// Whether a request is allowed, and what its key owes now.
///
/// It counts in ticks of the quota that it was made by; what asks for times or tokens takes that quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    is_allowed: bool,
    /// Ticks until the key has its whole burst again.
    owed: u32,
}

impl Decision {
    /// The rule itself: the ticks that a key owes before a request tell whether it is allowed, and what it owes afterwards.
    #[inline]
    pub(super) const fn of(owed: u32, quota: &Quota) -> Self {
        match owed.checked_add(quota.price()) {
            Some(after) if after <= quota.window() => Self { is_allowed: true, owed: after },
            _ => Self { is_allowed: false, owed },
        }
    }

    /// The refusal when nothing could be found out.
    #[cold]
    pub(super) const fn blind(quota: &Quota) -> Self {
        Self { is_allowed: false, owed: quota.window() }
    }

    #[inline]
    pub(super) const fn owed(self) -> u32 {
        self.owed
    }

    /// Whether the request may pass. If so it has been counted; if not, it costs nothing.
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// Requests that would be allowed right after this one.
    pub const fn remaining(&self, quota: &Quota) -> u32 {
        if self.is_allowed { quota.tokens(quota.window().saturating_sub(self.owed)) } else { 0 }
    }

    /// When one request is allowed again, if this one was not.
    pub fn retry_after(&self, quota: &Quota) -> Option<Duration> {
        let free_at = quota.window() - quota.price();
        (!self.is_allowed).then(|| quota.duration(self.owed.saturating_sub(free_at)))
    }

    /// When the key has its whole burst again.
    pub fn reset_after(&self, quota: &Quota) -> Duration {
        quota.duration(self.owed)
    }
}

/// What a limiter has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that passed.
    pub allowed: u64,
    /// Requests that did not.
    pub denied: u64,
    /// Keys thrown out before they had expired: more came at once than the table holds.
    pub evicted_live: u64,
}
