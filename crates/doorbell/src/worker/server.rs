//! The server as its workers know it: the same for all of them, fixed at the start.
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

/// Slots beyond a listener's backlog that a multishot accept may still fill while its cancel is on the way.
const ACCEPT_MARGIN_EXTRA: u32 = 64;

/// What all workers of a server have in common.
#[derive(Debug)]
pub struct ServerShared {
    /// Each listener's protocol, by [`ListenerIndex`].
    pub(crate) protocols: Vec<ListenerProtocol>,
    /// By [`ListenerIndex`].
    pub(crate) arrivals: Vec<Arrival>,
    /// By [`ListenerIndex`]: true when other processes or workers accept from the same socket.
    pub(crate) listener_is_shared: Vec<bool>,
    /// By [`ListenerIndex`]: false when somebody passed its socket, who keeps it, and with it the backlog.
    pub(crate) listener_is_ours: Vec<bool>,
    pub(crate) limits: Limits,
    pub(crate) workers: u16,
    pub(crate) ip_table: Arc<IpTable>,
    /// Slots beyond `conns_max`: a multishot accept can take every listener's whole backlog before its cancel is seen, and what it
    /// took is served.
    pub(crate) accept_margin: u32,
    pub(crate) tuning: Tuning,
    /// Where connections go that are not for this lane.
    pub(crate) hand_over: Option<HandOver>,
}

impl Drop for ServerShared {
    /// What services hold is the program's, and the last worker that ends drops it: it has not failed if that panics.
    fn drop(&mut self) {
        // One by one: a second panic while the first one unwinds would abort the process.
        self.protocols.drain(..).for_each(dispose);
        dispose(self.hand_over.take());
    }
}

impl ServerShared {
    /// What `workers` workers need to serve `protocols`, with one listener each.
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

    /// The same with a PROXY protocol header in front of what comes to this listener, from peers with addresses.
    #[must_use]
    pub fn behind_proxies(mut self, listener: ListenerIndex, proxy: ProxyProtocol) -> Self {
        let protocol = &self.protocols[listener.index()];
        self.arrivals[listener.index()] = Arrival::of(protocol, Some(proxy), false);
        self
    }

    /// The same with somebody who takes what is handed over.
    #[must_use]
    pub fn handing_over(mut self, to: HandOver) -> Self {
        self.hand_over = Some(to);
        self
    }

    /// Slots each worker's driver needs.
    pub fn slots_max(&self) -> u32 {
        self.limits.conns_max_of_worker(self.workers).saturating_add(self.accept_margin)
    }
}

/// The slots that `backlogs` can fill at once.
pub(crate) fn accept_margin(backlogs: impl Iterator<Item = u32>) -> u32 {
    backlogs.fold(0, |sum, backlog| sum.saturating_add(backlog).saturating_add(ACCEPT_MARGIN_EXTRA))
}
