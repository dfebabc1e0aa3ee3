//! Who wants to hear what became of a request that was left for later.
//!
//! Does not know about: what they do with it.

use crate::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Hears the status of the answer and its bytes of content, once; `None` when the client got no answer. Called by whoever drives the
/// connection, on its thread. A panic in it goes no further: the others are notified all the same, and the connection goes on.
pub type Ending = Box<dyn FnOnce(Option<Status>, usize) + Send>;

/// Those who hear of the end of one request. Dropped, they are told as well.
#[derive(Default)]
pub(crate) struct Endings {
    told: Vec<Ending>,
    /// What a drop says.
    otherwise: Option<Status>,
}

impl Endings {
    pub(crate) fn add(&mut self, ending: Ending) {
        self.told.push(ending);
    }

    /// Whoever listened before goes on.
    pub(crate) fn add_all(&mut self, mut others: Self) {
        self.told.append(&mut others.told);
    }

    /// What is said if nothing else comes to be.
    pub(crate) const fn otherwise(&mut self, status: Option<Status>) {
        self.otherwise = status;
    }

    pub(crate) fn tell(&mut self, status: Option<Status>, content_len: usize) {
        self.told.drain(..).for_each(|ending| contained(|| ending(status, content_len)));
    }
}

/// Calls code of the program that nothing follows from. It is also called while a panic of a service unwinds, and a second one that got out
/// then would abort the process.
fn contained(f: impl FnOnce()) {
    let Err(carried) = catch_unwind(AssertUnwindSafe(f)) else { return };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(carried))) {
        // It would go on for ever: better a leak.
        let _leaked = Box::leak(again);
    }
}

impl Drop for Endings {
    fn drop(&mut self) {
        self.tell(self.otherwise, 0);
    }
}
