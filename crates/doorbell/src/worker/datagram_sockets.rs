//! The state of a worker's datagram sockets.

use std::sync::Arc;

use super::accept::Gate;
use super::server::ServerShared;
use crate::driver::{Driver, Replies};
use crate::id::DatagramIndex;
use crate::stats::DatagramCounters;

/// The datagram sockets of a worker, by [`DatagramIndex`].
#[derive(Debug)]
pub(super) struct DatagramSockets {
    pub(super) gates: Vec<Gate>,
    pub(super) counters: Arc<[DatagramCounters]>,
    /// `None` if there are no sockets.
    pub(super) replies: Option<Replies>,
}

impl DatagramSockets {
    pub(super) fn new(
        server: &ServerShared,
        counters: Arc<[DatagramCounters]>,
        driver: &impl Driver,
    ) -> Self {
        let limits = &server.limits;
        let gate = |(index, is_ours): (u16, &bool)| {
            let mut gate = Gate::new(*is_ours, limits.accept_backoff_min, limits.accept_backoff_max);
            if !driver.is_receiving(DatagramIndex(index)) {
                gate.close();
            }
            gate
        };
        let gates: Vec<_> = (0..).zip(&server.datagrams_are_ours).map(gate).collect();
        let replies = (!gates.is_empty()).then(Replies::default);
        Self { gates, counters, replies }
    }

    pub(super) fn sockets(&self) -> impl Iterator<Item = DatagramIndex> + use<> {
        let count = u16::try_from(self.gates.len()).expect("the builder caps the number of listeners");
        (0..count).map(DatagramIndex)
    }
}
