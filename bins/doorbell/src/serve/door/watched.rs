//! A door that somebody watches: its requests are logged, come through trusted proxies, or may not be too many at once.
//!
//! Does not know about: routes. A listener without any of these has a [`Door`] and nothing around it.

use super::Door;
use crate::http::forwarded::TrustedProxies;
use crate::http::layer::AtMost;
use crate::http::log::{Entry, Logger};
use crate::http::{Answered, Begun, Client, Request, RequestError, Responder, Service, Time};
use crate::serve::access::Lines;
use crate::serve::subject::Subject;

/// A [`Door`] and what stands before all its routes.
#[derive(Debug)]
pub(in crate::serve) struct WatchedDoor {
    pub(in crate::serve) door: Door,
    pub(in crate::serve) log: Option<Logger<Lines>>,
    pub(in crate::serve) proxies: Option<TrustedProxies>,
    pub(in crate::serve) at_most: Option<AtMost>,
}

impl WatchedDoor {
    /// True when there is nothing to watch.
    pub(in crate::serve) const fn is_idle(&self) -> bool {
        self.log.is_none() && self.proxies.is_none() && self.at_most.is_none()
    }

    fn serve(&self, request: &Request<'_>, reply: Responder<'_>) -> Answered {
        let place = match &self.at_most {
            None => None,
            Some(at_most) => match at_most.enter() {
                Some(place) => Some(place),
                None => return self.note(request, (at_most.refuse(reply), None), None),
            },
        };
        let mut subject = Subject::new();
        let answered = self.door.serve(request, reply, self.log.is_some().then_some(&mut subject));
        drop(place);
        self.note(request, answered, subject.name())
    }

    fn note(
        &self,
        request: &Request<'_>,
        (answered, route): (Answered, Option<super::RouteNote>),
        subject: Option<&str>,
    ) -> Answered {
        if let Some(log) = &self.log {
            let entry = Entry::new(request, &answered);
            log.answered(&Entry {
                route: route.map(|route| route.index),
                probe: route.is_some_and(|route| route.is_probe),
                // Whose token it is says more than whose certificate.
                subject: subject.or(entry.subject),
                ..entry
            });
        }
        answered
    }
}

impl Service for WatchedDoor {
    fn wants_client(&self) -> bool {
        self.log.is_some() || self.proxies.is_some() || self.door.wants_client
    }

    fn hands_over(&self, begun: Begun<'_>) -> bool {
        self.door.hands_over(begun)
    }

    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        if let Some(log) = &self.log {
            log.refused(error, client, now);
        }
    }

    fn call(&self, request: &Request<'_>, reply: Responder<'_>) -> Answered {
        let (Some(proxies), Some(peer)) = (&self.proxies, request.client().addr) else {
            return self.serve(request, reply);
        };
        let client = Client { addr: Some(proxies.origin_of(request, peer).addr), ..*request.client() };
        self.serve(&request.from_client(&client, request.now(), request.unix_secs()), reply)
    }
}
