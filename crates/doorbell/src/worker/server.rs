//! The state that the workers of a server share; it is fixed at the start.

use std::sync::Arc;

use super::arrival::Arrival;
use super::balancer::Balancer;
use super::ip_cap::IpTable;
use crate::config::Limits;
use crate::datagram::{DatagramHandler, DatagramListen, Service};
use crate::hand_over::HandOver;
use crate::id::ListenerIndex;
use crate::net::ProxyProtocol;
use crate::panics::dispose;
use crate::protocol::{ListenerProtocol, Protocol, ServerSize};
use crate::tuning::Tuning;

/// Number of slots per listener, in addition to its backlog, for connections that a multishot
/// accept accepts while its cancellation is pending.
const ACCEPT_MARGIN_EXTRA: u32 = 64;

/// The state that the workers of a server share.
#[derive(Debug)]
pub struct ServerShared {
    /// The protocol of each listener, by [`ListenerIndex`].
    pub(crate) protocols: Vec<ListenerProtocol>,
    /// The service of each datagram listener, by [`DatagramIndex`](crate::id::DatagramIndex).
    pub(crate) datagrams: Vec<Service>,
    /// By [`DatagramIndex`](crate::id::DatagramIndex): false if the socket was passed in.
    pub(crate) datagrams_are_ours: Vec<bool>,
    /// Settings for new connections, by [`ListenerIndex`].
    pub(crate) arrivals: Vec<Arrival>,
    /// By [`ListenerIndex`]: true if other processes or workers accept from the same socket, or may
    /// serve its connections.
    pub(crate) listener_is_shared: Vec<bool>,
    /// By [`ListenerIndex`]: false if the socket was passed in. The owner of such a socket keeps
    /// the socket and its backlog.
    pub(crate) listener_is_ours: Vec<bool>,
    pub(crate) limits: Limits,
    pub(crate) workers: u16,
    pub(crate) ip_table: Arc<IpTable>,
    /// Number of slots beyond `conns_max`: a multishot accept can accept the whole backlog of every
    /// listener before its cancellation takes effect, and these connections are served.
    pub(crate) accept_margin: u32,
    pub(crate) tuning: Tuning,
    /// Present if workers pass connections of a listener to each other.
    pub(crate) balancer: Option<Arc<Balancer>>,
    /// Receiver of connections that are handed over.
    pub(crate) hand_over: Option<HandOver>,
}

impl Drop for ServerShared {
    /// The last worker that ends drops the application's services. A panic in their destructors
    /// must not count as a failure of the worker.
    fn drop(&mut self) {
        // Each protocol is dropped separately: a second panic during unwinding would abort the
        // process.
        self.protocols.drain(..).for_each(dispose);
        dispose(self.hand_over.take());
    }
}

impl ServerShared {
    /// Creates the shared state of `workers` workers that serve `protocols`, with one listener per
    /// protocol.
    pub fn new(protocols: Vec<ListenerProtocol>, limits: Limits, workers: u16) -> Self {
        let (listener_is_shared, listener_is_ours) =
            (vec![false; protocols.len()], vec![true; protocols.len()]);
        let arrivals = protocols.iter().map(|protocol| Arrival::of(protocol, None, false)).collect();
        let server_size = ServerSize::new(limits.conns_max);
        protocols.iter().for_each(|protocol| protocol.size_for(&server_size));
        let ip_table = Arc::new(IpTable::new(&limits, workers));
        let accept_margin = accept_margin(protocols.iter().map(|_| 4096));
        let tuning = Tuning::default();
        Self {
            protocols,
            datagrams: Vec::new(),
            datagrams_are_ours: Vec::new(),
            arrivals,
            listener_is_shared,
            listener_is_ours,
            limits,
            workers,
            ip_table,
            accept_margin,
            tuning,
            balancer: None,
            hand_over: None,
        }
    }

    /// Enables the PROXY protocol on this listener, whose peers have addresses.
    #[must_use]
    pub fn behind_proxies(mut self, listener: ListenerIndex, proxy: ProxyProtocol) -> Self {
        let protocol = &self.protocols[listener.index()];
        self.arrivals[listener.index()] = Arrival::of(protocol, Some(proxy), false);
        self
    }

    /// Adds a datagram listener.
    #[must_use]
    pub fn receiving(mut self, listen: &DatagramListen, handler: impl DatagramHandler + 'static) -> Self {
        self.datagrams.push(listen.service(Arc::new(handler)));
        self.datagrams_are_ours.push(true);
        self
    }

    /// Sets the receiver of connections that are handed over.
    #[must_use]
    pub fn handing_over(mut self, to: HandOver) -> Self {
        self.hand_over = Some(to);
        self
    }

    /// Returns the number of slots that each worker's driver needs.
    pub fn slots_max(&self) -> u32 {
        self.limits.conns_max_of_worker(self.workers).saturating_add(self.accept_margin)
    }
}

/// Returns [`ServerShared::accept_margin`] for listeners with these backlogs.
pub(crate) fn accept_margin(backlogs: impl Iterator<Item = u32>) -> u32 {
    backlogs.fold(0, |sum, backlog| sum.saturating_add(backlog).saturating_add(ACCEPT_MARGIN_EXTRA))
}
