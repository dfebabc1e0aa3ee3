//! What connections have in common, and the requests one of them is given.
//!
//! Does not know about: the life of a connection.

use std::time::Duration;

use crate::clock::{Nanos, nanos};
use crate::plan::{Flow, Plan};
use crate::reply::{Expect, Id};

/// What every connection of a worker has in common.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) expect: Expect,
    pub(crate) flow: Flow,
    pub(crate) gap: Nanos,
    pub(crate) timeout: Nanos,
    /// The worker's number, when requests carry an id.
    pub(crate) ids_of: Option<u16>,
    /// Replies after this do not count for the rate.
    pub(crate) measured_until: Nanos,
}

/// Requests that go out in one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Sequence number of the first one.
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// Answered already.
    pub(crate) done: u32,
    /// When the first one was meant to start.
    pub(crate) base: Nanos,
    /// And how much later each next one; zero without a rate.
    pub(crate) step: Nanos,
}

impl Job {
    pub(crate) fn new(plan: &Plan, worker: u16, measured_until: Nanos) -> Self {
        Self {
            expect: plan.expect.clone(),
            flow: plan.flow,
            gap: nanos(plan.flow.gap()),
            timeout: nanos(plan.timeout.max(Duration::from_micros(1))),
            ids_of: plan.ids.then_some(worker),
            measured_until,
        }
    }

    pub(crate) fn id(&self, sequence: u64) -> Option<Id> {
        self.ids_of.map(|worker| Id::new(worker, sequence))
    }
}

impl Batch {
    /// The sequence number of the request whose reply is next.
    pub(crate) fn next(&self) -> u64 {
        self.first + u64::from(self.done)
    }

    pub(crate) const fn left(&self) -> u32 {
        self.count - self.done
    }

    /// When the request whose reply is next was meant to start.
    pub(crate) fn due(&self) -> Nanos {
        self.base + self.step * u64::from(self.done)
    }
}
