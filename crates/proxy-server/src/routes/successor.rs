//! The service that replies on connections from before a reload: the service of the same listener
//! in the current configuration.
//!
//! A connection stays with the server that accepted it and gets `Connection: close` with its next
//! reply. The new configuration determines that reply, so a removed token or route applies to no
//! further request.

use crate::build::access_log::HttpVersion;
use doorbell::http::{Peer, Replied, Request, Responder, Service};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// The complete service of a listener: its routes and the layers in front of them.
pub(super) type DynService = Arc<dyn Service + Send + Sync>;

/// The service of a later configuration; `None` if that configuration does not contain the
/// listener.
pub(crate) struct Successor(Option<DynService>);

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
    routes: Arc<dyn Replaceable>,
    service: DynService,
}

impl RouteServices {
    /// Adds the service of a listener for requests of one protocol.
    pub(crate) fn add(
        &self,
        listener: &str,
        version: HttpVersion,
        routes: Arc<dyn Replaceable>,
        service: DynService,
    ) {
        let known = ListenerService { listener: listener.to_owned(), version, routes, service };
        self.0.lock().push(known);
    }

    /// Makes these services forward all further requests to the services of a later configuration.
    pub(crate) fn set_successors(&self, later: &Self) {
        let later = later.0.lock();
        for known in &*self.0.lock() {
            let same =
                later.iter().find(|other| other.listener == known.listener && other.version == known.version);
            known.routes.set_successor(Successor(same.map(|same| Arc::clone(&same.service))));
        }
    }
}

impl Successor {
    /// Replies from the current configuration. `has_client` is true if the address of the client
    /// was recorded when the connection was accepted. The connection is closed without a reply if
    /// the listener was removed, or if its service needs the address and the address was not
    /// recorded; the client may then repeat the request on a new connection.
    #[cold]
    #[inline(never)]
    pub(super) fn call<'a>(
        &self,
        has_client: bool,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let is_known = has_client || request.client().peer != Peer::Unknown;
        match &self.0 {
            Some(service) if is_known || !service.wants_client() => service.call(request, reply),
            _ => reply.close(),
        }
    }
}

impl fmt::Debug for Successor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Successor").field(&self.0.is_some()).finish()
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
