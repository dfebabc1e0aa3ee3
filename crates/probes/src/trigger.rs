//! Requests for runs of checks that run on demand.
//!
//! Does not know about: schedulers. Such a check runs when a probe comes and its last result is
//! old.

use std::fmt;
use std::sync::Arc;

/// Requests a run of one check. Cheap to clone; shared by threads.
#[derive(Clone)]
pub struct RunTrigger(Arc<dyn Fn() + Send + Sync>);

impl RunTrigger {
    /// Calls `request` for each probe: it must not wait, and decides whether the last result is
    /// old.
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
