//! Requests to run on-demand checks.
//!
//! An on-demand check runs when a probe arrives and the last result is too old.

use std::fmt;
use std::sync::Arc;

/// Requests a run of one check. Cheap to clone; shared by threads.
#[derive(Clone)]
pub struct RunTrigger(Arc<dyn Fn() + Send + Sync>);

impl RunTrigger {
    /// Creates a trigger that calls `request` for each probe. `request` must not block, and decides
    /// whether the last result is too old.
    pub fn new(request: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(request))
    }

    /// Requests a run.
    pub fn request(&self) {
        (self.0)();
    }
}

impl fmt::Debug for RunTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunTrigger")
    }
}
