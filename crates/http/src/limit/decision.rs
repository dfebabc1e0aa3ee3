//! The decision of a limiter, and its statistics.

use super::quota::Quota;
use std::time::Duration;

/// A decision about a request, with the resulting debt of its key.
///
/// The debt is measured in ticks of the quota used for the decision; the methods for times and
/// tokens need that quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    is_allowed: bool,
    /// Ticks until the whole burst of the key is available again.
    owed: u32,
}

impl Decision {
    /// Decides about a request from `owed`, the debt of its key in ticks. The debt grows by the
    /// price of the request if the request is allowed.
    #[inline]
    pub(super) const fn of(owed: u32, quota: &Quota) -> Self {
        match owed.checked_add(quota.price()) {
            Some(after) if after <= quota.window() => Self { is_allowed: true, owed: after },
            _ => Self { is_allowed: false, owed },
        }
    }

    /// A refusal without information about the key.
    #[cold]
    pub(super) const fn blind(quota: &Quota) -> Self {
        Self { is_allowed: false, owed: quota.window() }
    }

    /// A refusal whose debt is known elsewhere, in ticks.
    pub(super) fn refused(owed: u64, quota: &Quota) -> Self {
        let (least, most) = (quota.window() - quota.price(), quota.window());
        let owed = u32::try_from(owed).unwrap_or(u32::MAX).clamp(least.saturating_add(1).min(most), most);
        Self { is_allowed: false, owed }
    }

    #[inline]
    pub(super) const fn owed(self) -> u32 {
        self.owed
    }

    /// Whether the request is allowed. An allowed request has been counted; a refused one costs
    /// nothing.
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// Number of requests that would be allowed immediately after this one.
    pub const fn remaining(&self, quota: &Quota) -> u32 {
        if self.is_allowed { quota.tokens(quota.window().saturating_sub(self.owed)) } else { 0 }
    }

    /// Time until a request is allowed again; `None` if this one was allowed.
    pub fn retry_after(&self, quota: &Quota) -> Option<Duration> {
        let free_at = quota.window() - quota.price();
        (!self.is_allowed).then(|| quota.duration(self.owed.saturating_sub(free_at)))
    }

    /// Time until the whole burst of the key is available again.
    pub fn reset_after(&self, quota: &Quota) -> Duration {
        quota.duration(self.owed)
    }
}

/// Statistics of a limiter since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Allowed requests.
    pub allowed: u64,
    /// Refused requests.
    pub denied: u64,
    /// Keys evicted before they had expired, because the table was full.
    pub evicted_live: u64,
}
