//! Data that the connections of a worker share, and batches of requests.

use std::time::Duration;

use crate::clock::{Nanos, nanos};
use crate::plan::{Flow, Plan};
use crate::reply::{Expect, Id};

/// Data shared by all connections of a worker.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) expect: Expect,
    pub(crate) flow: Flow,
    /// Delay of the request after the handshake.
    pub(crate) gap: Nanos,
    pub(crate) timeout: Nanos,
    /// The worker's number if requests contain an id.
    pub(crate) ids_of: Option<u16>,
    /// End of the measured time. Later replies do not count for the rate.
    pub(crate) measured_until: Nanos,
}

/// The requests of one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Sequence number of the first request.
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// Number of requests with a reply.
    pub(crate) done: u32,
    /// The intended start of the first request.
    pub(crate) base: Nanos,
    /// The interval between intended starts. Zero without a rate.
    pub(crate) step: Nanos,
    /// Whether results count. False only for the warm-up of a run with a number of requests.
    pub(crate) is_measured: bool,
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
    /// The sequence number of the request whose reply comes next.
    pub(crate) fn next(&self) -> u64 {
        self.first + u64::from(self.done)
    }

    pub(crate) const fn left(&self) -> u32 {
        self.count - self.done
    }

    /// The intended start of the request whose reply comes next.
    pub(crate) fn due(&self) -> Nanos {
        self.base + self.step * u64::from(self.done)
    }
}
