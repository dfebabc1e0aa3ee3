//! The sockets of a server at its start: opened, or taken from a predecessor.

use core::net::SocketAddr;
use std::sync::Arc;

use super::sockets::{Sockets, TakenListeners};
use crate::datagram::{DatagramHandler, DatagramListen, Service};
use crate::driver::DriverSockets;
use crate::net::{Bound, Listen, ListenError, LocalAddr};
use crate::protocol::ListenerProtocol;
use crate::worker::Arrival;

/// The listeners and their sockets, in the order in which they were added.
#[derive(Default)]
pub(super) struct Bindings {
    pub(super) protocols: Vec<ListenerProtocol>,
    pub(super) arrivals: Vec<Arrival>,
    /// The sockets of the listeners, then those of the datagram listeners.
    pub(super) bound: Vec<Bound>,
    /// The listeners of the predecessor whose sockets are taken.
    pub(super) taken: TakenListeners,
    pub(super) renewals: Renewals,
    pub(super) datagrams: Vec<DatagramListen>,
    pub(super) services: Vec<Service>,
}

/// Options to apply to sockets that the predecessor also has.
#[derive(Default)]
pub(super) struct Renewals {
    listeners: Vec<Renewal>,
    /// Indexes in [`Bindings::bound`] and [`Bindings::datagrams`].
    datagrams: Vec<(usize, usize)>,
}

struct Renewal {
    /// The index of the listener in the new server.
    listener: usize,
    listen: Listen,
    speaks_first: bool,
}

/// Properties of the sockets, by listener.
pub(super) struct Facts {
    pub(super) listener_is_shared: Vec<bool>,
    pub(super) listener_is_ours: Vec<bool>,
    pub(super) datagrams_are_ours: Vec<bool>,
    pub(super) local_addrs: Vec<LocalAddr>,
    pub(super) datagram_addrs: Vec<SocketAddr>,
}

impl Bindings {
    pub(super) fn facts(&self) -> Facts {
        let (listeners, datagrams) = self.bound.split_at(self.protocols.len());
        let are_ours = |bound: &[Bound]| bound.iter().map(Bound::is_ours).collect();
        Facts {
            listener_is_shared: listeners
                .iter()
                .map(|bound| bound.is_shared || bound.is_balanced())
                .collect(),
            listener_is_ours: are_ours(listeners),
            datagrams_are_ours: are_ours(datagrams),
            local_addrs: listeners.iter().map(|bound| bound.local.clone()).collect(),
            datagram_addrs: datagrams.iter().filter_map(Bound::udp_addr).collect(),
        }
    }
}

impl Bindings {
    /// Opens the sockets of `workers` workers, or takes those of the predecessor.
    pub(super) fn of(
        listeners: Vec<(Listen, ListenerProtocol)>,
        datagrams: Vec<(DatagramListen, Arc<dyn DatagramHandler>)>,
        predecessor: Option<&Sockets>,
        workers: u16,
    ) -> Result<Self, ListenError> {
        let taken = predecessor.map(Sockets::none_taken).unwrap_or_default();
        let mut bindings = Self { taken, ..Self::default() };
        for (mut listen, protocol) in listeners {
            listen.check()?;
            let arrival = Arrival::of(&protocol, listen.proxy.take(), listen.is_unix());
            let speaks_first = arrival.speaks_first;
            let inherited = match predecessor {
                Some(sockets) => sockets.take(&listen, speaks_first, &mut bindings.taken),
                None => Ok(None),
            };
            let bound = match inherited {
                Ok(Some(bound)) => {
                    let renewal = Renewal { listener: bindings.bound.len(), listen, speaks_first };
                    bindings.renewals.listeners.push(renewal);
                    Ok(bound)
                }
                Ok(None) => listen.bind(workers, speaks_first),
                Err(error) => Err(error),
            };
            let bound = bound?;
            bindings.arrivals.push(if bound.is_balanced() { arrival.balanced() } else { arrival });
            bindings.bound.push(bound);
            bindings.protocols.push(protocol);
        }
        for (mut listen, handler) in datagrams {
            let inherited = match predecessor {
                Some(sockets) => sockets.take_datagrams(&listen, &mut bindings.taken)?,
                None => None,
            };
            let bound = match inherited {
                Some(bound) => {
                    let indexes = (bindings.bound.len(), bindings.datagrams.len());
                    bindings.renewals.datagrams.push(indexes);
                    bound
                }
                None => listen.bind(workers)?,
            };
            bindings.bound.push(bound);
            bindings.services.push(listen.service(handler));
            bindings.datagrams.push(listen);
        }
        Ok(bindings)
    }
}

impl Renewals {
    pub(super) fn apply(&self, sockets: &Sockets, datagrams: &[DatagramListen]) -> Result<(), ListenError> {
        self.listeners.iter().try_for_each(|Renewal { listener, listen, speaks_first }| {
            sockets.renew(*listener, listen, *speaks_first)
        })?;
        let mut renewed = self.datagrams.iter();
        renewed.try_for_each(|(at, datagram)| sockets.renew_datagrams(*at, &datagrams[*datagram]))?;
        sockets.balance()
    }
}

/// Converts sockets by listener to sockets by worker.
pub(super) fn transpose(bound: Vec<Bound>, datagrams: &[DatagramListen], workers: u16) -> Vec<DriverSockets> {
    let mut by_worker: Vec<DriverSockets> = (0..workers).map(|_| DriverSockets::default()).collect();
    let listeners = bound.len() - datagrams.len();
    for (index, listener) in bound.into_iter().enumerate() {
        for (worker, fd) in by_worker.iter_mut().zip(listener.fds) {
            match index.checked_sub(listeners) {
                None => worker.listeners.push(Some(fd)),
                Some(index) => worker.datagrams.push(Some(datagrams[index].for_driver(fd))),
            }
        }
    }
    by_worker
}
