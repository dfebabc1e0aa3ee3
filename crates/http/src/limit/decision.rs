//! What a limiter says, and what it has said so far.
//!
//! Does not know about: how it was found.

use super::quota::Quota;
use std::time::Duration;

/// Whether a request is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is, and has been counted.
    Allowed {
        /// Requests that would be allowed right after it.
        remaining: u32,
        /// When the key has its whole burst again.
        reset_after: Duration,
    },
    /// It is not, and costs nothing.
    Denied {
        /// When one request is allowed again.
        retry_after: Duration,
        /// When the key has its whole burst again.
        reset_after: Duration,
    },
}

impl Decision {
    /// Whether the request may pass.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
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

/// The rule itself: the ticks that a key still owes, before a request, give the verdict and what it owes afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed { owed: u32 },
    Denied { owed: u32 },
}

impl Verdict {
    #[inline]
    pub(super) const fn of(owed: u32, quota: &Quota) -> Self {
        match owed.checked_add(quota.price()) {
            Some(after) if after <= quota.window() => Self::Allowed { owed: after },
            _ => Self::Denied { owed },
        }
    }

    #[inline]
    pub(super) fn decision(self, quota: &Quota) -> Decision {
        match self {
            Self::Allowed { owed } => Decision::Allowed {
                remaining: quota.tokens(quota.window() - owed),
                reset_after: quota.duration(owed),
            },
            Self::Denied { owed } => Decision::Denied {
                retry_after: quota.duration(owed - (quota.window() - quota.price())),
                reset_after: quota.duration(owed),
            },
        }
    }
}
