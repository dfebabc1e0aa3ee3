//! The service that replies on connections from before a reload: the service of the same listener
//! in the current configuration.
//!
//! Does not know about: routes, reloads.
//!
//! A connection stays with the server that accepted it and gets `Connection: close` with its next
//! reply. The new configuration determines that reply, so a removed token or route applies to no
//! further request.

use crate::build::access_log::By;
use crate::http::{Peer, Replied, Request, Responder, Service};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A service with its layers.
pub(super) type Whole = Arc<dyn Service + Send + Sync>;

/// The service of a later configuration; `None` if that configuration does not contain the
/// listener.
pub(crate) struct Later(Option<Whole>);

/// A service that forwards requests to its successor.
pub(crate) trait GivesWay: Send + Sync {
    fn give_way_to(&self, later: Later);
}

/// The services of a configuration.
#[derive(Debug, Default)]
pub(crate) struct RouteServices(Mutex<Vec<Known>>);

struct Known {
    listener: String,
    by: By,
    routes: Arc<dyn GivesWay>,
    whole: Whole,
}

impl RouteServices {
    /// Adds the service of a listener for requests of one protocol.
    pub(crate) fn add(&self, listener: &str, by: By, routes: Arc<dyn GivesWay>, whole: Whole) {
        let known = Known { listener: listener.to_owned(), by, routes, whole };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(known);
    }

    /// Lets the services of a later configuration reply to every request.
    pub(crate) fn give_way_to(&self, later: &Self) {
        let later = later.0.lock().unwrap_or_else(PoisonError::into_inner);
        for known in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let same = later.iter().find(|other| other.listener == known.listener && other.by == known.by);
            known.routes.give_way_to(Later(same.map(|same| Arc::clone(&same.whole))));
        }
    }
}

impl Later {
    /// Replies from the current configuration. `knows_client`: the address of the client was
    /// recorded when the connection was accepted. There is no reply if the listener was removed, or
    /// if it needs the address and the address was not recorded; the client may then repeat the
    /// request on a new connection.
    #[cold]
    #[inline(never)]
    pub(super) fn call<'a>(
        &self,
        knows_client: bool,
        request: &Request<'_>,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let is_known = knows_client || request.client().peer != Peer::Unknown;
        match &self.0 {
            Some(whole) if is_known || !whole.wants_client() => whole.call(request, reply),
            _ => reply.close(),
        }
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Later").field(&self.0.is_some()).finish()
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known")
            .field("listener", &self.listener)
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}
