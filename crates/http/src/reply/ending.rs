//! Callbacks for the end of a deferred request.

use crate::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A callback that is called once, with the status and content length of the deferred reply. The
/// status is `None` if the client got no reply.
///
/// The callback runs on the thread of the connection. A panic of a callback is caught: the other
/// callbacks are still called, and the connection continues.
pub type Ending = Box<dyn FnOnce(Option<Status>, usize) + Send>;

/// The callbacks for one request. Dropping this value calls the callbacks that are left.
#[derive(Default)]
pub(crate) struct Endings {
    callbacks: Vec<Ending>,
    /// The status passed to callbacks on drop.
    otherwise: Option<Status>,
}

impl Endings {
    pub(crate) fn add(&mut self, ending: Ending) {
        self.callbacks.push(ending);
    }

    /// Adds callbacks to the existing ones.
    pub(crate) fn add_all(&mut self, mut others: Self) {
        self.callbacks.append(&mut others.callbacks);
    }

    /// Sets the status for callbacks that are left when this value is dropped.
    pub(crate) const fn otherwise(&mut self, status: Option<Status>) {
        self.otherwise = status;
    }

    pub(crate) fn call_all(&mut self, status: Option<Status>, content_len: usize) {
        self.callbacks.drain(..).for_each(|ending| contained(|| ending(status, content_len)));
    }
}

/// Calls code of the application and catches its panics. The call may happen while a panic of a
/// service unwinds, when a second panic that escapes would abort the process.
fn contained(f: impl FnOnce()) {
    let Err(carried) = catch_unwind(AssertUnwindSafe(f)) else { return };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(carried))) {
        // Dropping the payload of the second panic could cause another panic, and so on, so this
        // payload is leaked.
        let _leaked = Box::leak(again);
    }
}

impl Drop for Endings {
    fn drop(&mut self) {
        self.call_all(self.otherwise, 0);
    }
}
