//! The service that replies on connections from before a reload: the service of the same listener
//! in the current configuration.
//!
//! A connection stays with the server that accepted it and gets `Connection: close` with its next
//! reply. The new configuration determines that reply, so a removed token or route applies to no
//! further request.

use crate::build::access_log::HttpVersion;
use doorbell::http::{Peer, Replied, Request, Responder, Service};
use doorbell_proxy_config::model::{Listener, ProxyProtocol};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// The complete service of a listener: its routes and the layers in front of them.
pub(super) type DynService = Arc<dyn Service + Send + Sync>;

/// The service of a later configuration.
pub(crate) struct Successor {
    /// `None` if that configuration does not contain the listener.
    service: Option<DynService>,
    /// Whether the listener now takes the client's address from the PROXY protocol and did not
    /// before: the address of the peer is then that of a load balancer.
    has_new_address: bool,
}

/// A service that forwards requests to its successor.
pub(crate) trait Replaceable: Send + Sync {
    fn set_successor(&self, successor: Successor);
}

/// The services of a configuration.
#[derive(Debug, Default)]
pub(crate) struct RouteServices(Mutex<Vec<ListenerService>>);

struct ListenerService {
    listener: String,
    version: HttpVersion,
    /// Whether the client's address comes from the PROXY protocol.
    has_proxy_header: bool,
    routes: Arc<dyn Replaceable>,
    service: DynService,
}

impl RouteServices {
    /// Adds the service of a listener for requests of one protocol.
    pub(crate) fn add(
        &self,
        listener: &Listener,
        version: HttpVersion,
        routes: Arc<dyn Replaceable>,
        service: DynService,
    ) {
        let has_proxy_header = listener.proxy_protocol != ProxyProtocol::Off;
        let listener = listener.name.clone();
        let known = ListenerService { listener, version, has_proxy_header, routes, service };
        self.0.lock().push(known);
    }

    /// Makes these services forward all further requests to the services of a later configuration.
    pub(crate) fn set_successors(&self, later: &Self) {
        let later = later.0.lock();
        for known in &*self.0.lock() {
            let same =
                later.iter().find(|other| other.listener == known.listener && other.version == known.version);
            known.routes.set_successor(Successor {
                service: same.map(|same| Arc::clone(&same.service)),
                has_new_address: !known.has_proxy_header && same.is_some_and(|same| same.has_proxy_header),
            });
        }
    }
}

impl Successor {
    /// Replies from the current configuration. `has_client` is true if the address of the client
    /// was recorded when the connection was accepted. The connection is closed without a reply if
    /// the listener was removed, or if its service needs the address and the address was not
    /// recorded or is that of a load balancer; the client may then repeat the request on a new
    /// connection.
    #[cold]
    #[inline(never)]
    pub(super) fn call<'a>(
        &self,
        has_client: bool,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let is_known = !self.has_new_address && (has_client || request.client().peer != Peer::Unknown);
        match &self.service {
            Some(service) if is_known || !service.wants_client() => service.call(request, reply),
            _ => reply.close(),
        }
    }
}

impl fmt::Debug for Successor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Successor")
            .field("is_present", &self.service.is_some())
            .field("has_new_address", &self.has_new_address)
            .finish()
    }
}

impl fmt::Debug for ListenerService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerService")
            .field("listener", &self.listener)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
