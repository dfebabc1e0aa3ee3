//! The part of a server that its workers share, fixed at the start.
//!
//! Does not know about: threads, drivers.

use std::sync::Arc;

use super::arrival::Arrival;
use super::ip_cap::IpTable;
use crate::config::Limits;
use crate::hand_over::HandOver;
use crate::id::ListenerIndex;
use crate::net::ProxyProtocol;
use crate::panics::dispose;
use crate::protocol::{ListenerProtocol, Protocol, Room};
use crate::tuning::Tuning;

/// Slots beyond a listener's backlog that a multishot accept may fill while its cancellation is
/// pending.
const ACCEPT_MARGIN_EXTRA: u32 = 64;

/// What the workers of a server share.
#[derive(Debug)]
pub struct ServerShared {
    /// Each listener's protocol, by [`ListenerIndex`].
    pub(crate) protocols: Vec<ListenerProtocol>,
    /// By [`ListenerIndex`].
    pub(crate) arrivals: Vec<Arrival>,
    /// By [`ListenerIndex`]: true when other processes or workers accept from the same socket.
    pub(crate) listener_is_shared: Vec<bool>,
    /// By [`ListenerIndex`]: false when the socket was passed in. Its owner keeps it and its
    /// backlog.
    pub(crate) listener_is_ours: Vec<bool>,
    pub(crate) limits: Limits,
    pub(crate) workers: u16,
    pub(crate) ip_table: Arc<IpTable>,
    /// Slots beyond `conns_max`: a multishot accept can take the whole backlog of every listener
    /// before its cancellation takes effect, and these connections are served.
    pub(crate) accept_margin: u32,
    pub(crate) tuning: Tuning,
    /// Receiver of connections that are handed over.
    pub(crate) hand_over: Option<HandOver>,
}

impl Drop for ServerShared {
    /// Services belong to the application, but the last worker that ends drops them: a panic in
    /// their destructors must not count as a failure of the worker.
    fn drop(&mut self) {
        // One at a time: a second panic during unwinding would abort the process.
        self.protocols.drain(..).for_each(dispose);
        dispose(self.hand_over.take());
    }
}

impl ServerShared {
    /// The shared part for `workers` workers that serve `protocols`, one listener each.
    pub fn new(protocols: Vec<ListenerProtocol>, limits: Limits, workers: u16) -> Self {
        let (listener_is_shared, listener_is_ours) =
            (vec![false; protocols.len()], vec![true; protocols.len()]);
        let arrivals = protocols.iter().map(|protocol| Arrival::of(protocol, None, false)).collect();
        let room = Room::new(limits.conns_max);
        protocols.iter().for_each(|protocol| protocol.size_for(&room));
        let ip_table = Arc::new(IpTable::new(&limits, workers));
        let accept_margin = accept_margin(protocols.iter().map(|_| 4096));
        let tuning = Tuning::default();
        Self {
            protocols,
            arrivals,
            listener_is_shared,
            listener_is_ours,
            limits,
            workers,
            ip_table,
            accept_margin,
            tuning,
            hand_over: None,
        }
    }

    /// Expects a PROXY protocol header on this listener, from peers with addresses.
    #[must_use]
    pub fn behind_proxies(mut self, listener: ListenerIndex, proxy: ProxyProtocol) -> Self {
        let protocol = &self.protocols[listener.index()];
        self.arrivals[listener.index()] = Arrival::of(protocol, Some(proxy), false);
        self
    }

    /// Sets the receiver of connections that are handed over.
    #[must_use]
    pub fn handing_over(mut self, to: HandOver) -> Self {
        self.hand_over = Some(to);
        self
    }

    /// Slots that each worker's driver needs.
    pub fn slots_max(&self) -> u32 {
        self.limits.conns_max_of_worker(self.workers).saturating_add(self.accept_margin)
    }
}

/// Slots that `backlogs` can fill at once.
pub(crate) fn accept_margin(backlogs: impl Iterator<Item = u32>) -> u32 {
    backlogs.fold(0, |sum, backlog| sum.saturating_add(backlog).saturating_add(ACCEPT_MARGIN_EXTRA))
}
