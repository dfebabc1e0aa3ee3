//! The service of a listener, with and without the layers in front of all its routes (log, trusted
//! proxies, limit of requests in progress).
//!
//! A deferred request is logged and counted when its reply is sent.

use super::{LogRoute, RouteService};
use crate::build::access_log::Lines;
use crate::guards::subject::Subject;
use doorbell::http::forwarded::{Origin, TrustedProxies};
use doorbell::http::layer::AtMost;
use doorbell::http::log::{Entry, Logger};
use doorbell::http::{
    Client, Ending, MessageStart, Replied, Request, RequestError, Responder, Service, Time,
};
use std::sync::Arc;

/// A [`RouteService`] without layers. `COUNTS` must equal its [`counts`](RouteService::counts).
#[derive(Clone, Debug)]
pub(crate) struct BareService<const COUNTS: bool>(pub(crate) Arc<RouteService>);

/// A [`RouteService`] and the layers in front of all its routes.
#[derive(Clone, Debug)]
pub(crate) struct LayeredService {
    pub(crate) routes: Arc<RouteService>,
    pub(crate) log: Option<Arc<Logger<Lines>>>,
    pub(crate) proxies: Option<TrustedProxies>,
    pub(crate) at_most: Option<AtMost>,
}

/// Properties of a request for the log.
struct LogContext {
    route: Option<LogRoute>,
    subject: Subject,
    /// Whether the request is logged only when its reply is sent.
    is_logged_later: bool,
}

impl LayeredService {
    /// Whether no layer is enabled.
    pub(crate) const fn is_idle(&self) -> bool {
        self.log.is_none() && self.proxies.is_none() && self.at_most.is_none()
    }

    fn serve<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let mut context = LogContext { route: None, subject: Subject::new(), is_logged_later: false };
        let answered = reply.watch_with(
            &mut context,
            |reply, context| match &self.at_most {
                None => self.call_routes(request, reply, context),
                Some(at_most) => at_most.around(reply, |reply| self.call_routes(request, reply, context)),
            },
            |context| self.log_later(request, context),
        );
        if let Some(log) = &self.log
            && !context.is_logged_later
        {
            log.answered(&context.entry(Entry::new(request, &answered), context.subject.name()));
        }
        answered
    }

    #[inline(always)]
    fn call_routes<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        context: &mut LogContext,
    ) -> Replied<'a> {
        let subject = self.log.is_some().then_some(&mut context.subject);
        let (answered, route) = match self.routes.counts() {
            true => self.routes.serve::<true>(request, reply, subject),
            false => self.routes.serve::<false>(request, reply, subject),
        };
        context.route = route;
        answered
    }

    #[cold]
    fn log_later(&self, request: &Request<'_>, context: &mut LogContext) -> Option<Ending> {
        let log = self.log.as_ref()?;
        let promised = context.subject.take_promised();
        let entry = context.entry(Entry::unanswered(request), context.subject.name());
        let ending = log.later_by(&entry, move || promised.and_then(|promise| promise.name()))?;
        context.is_logged_later = true;
        Some(ending)
    }
}

impl LogContext {
    /// Adds the route and the subject to `entry`. `subject`, the holder of the token, has priority
    /// over the name in the client certificate.
    #[inline]
    fn entry<'a>(&self, entry: Entry<'a>, subject: Option<&'a str>) -> Entry<'a> {
        Entry {
            route: self.route.map(|route| route.index),
            probe: self.route.is_some_and(|route| route.is_probe),
            subject: subject.or(entry.subject),
            ..entry
        }
    }
}

impl<const COUNTS: bool> Service for BareService<COUNTS> {
    fn wants_client(&self) -> bool {
        self.0.wants_client
    }

    fn hands_over(&self, begun: MessageStart<'_>) -> bool {
        self.0.hands_over(begun)
    }

    /// TRACE reaches the routes, because their 405 reply lists the methods of the path.
    fn takes_trace(&self) -> bool {
        true
    }

    #[inline]
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        self.0.serve::<COUNTS>(request, reply, None).0
    }

    fn repeats(&self, request: &Request<'_>, count: u32) -> bool {
        self.0.repeats(request, count)
    }
}

impl Service for LayeredService {
    fn wants_client(&self) -> bool {
        self.log.is_some() || self.proxies.is_some() || self.routes.wants_client
    }

    fn hands_over(&self, begun: MessageStart<'_>) -> bool {
        self.routes.hands_over(begun)
    }

    /// TRACE reaches the routes, because their 405 reply lists the methods of the path.
    fn takes_trace(&self) -> bool {
        true
    }

    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        if let Some(log) = &self.log {
            log.refused(error, client, now);
        }
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if let Some(successor) = self.routes.successor.get() {
            return successor.call(self.wants_client(), request, reply);
        }
        let (Some(proxies), Some(peer)) = (&self.proxies, request.client().addr()) else {
            return self.serve(request, reply);
        };
        let Origin { addr, scheme } = proxies.origin_of(request, peer);
        let client = request.client().forwarded(addr, scheme);
        self.serve(&request.from_client(&client, request.now(), request.unix_secs()), reply)
    }
}
