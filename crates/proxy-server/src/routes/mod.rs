//! The compiled routes of one listener: each request is one look-up and one reply, usually
//! pre-rendered.
//!
//! A request with a pre-rendered reply allocates nothing here.

mod counting;
mod deferred;
pub(crate) mod files;
mod fixed;
mod grpc;
mod handler;
mod health;
mod layered;
pub(crate) mod links;
mod push;
mod redirect;
mod stored;
mod successor;
mod templated;

use crate::build::access_log::HttpVersion;
use crate::build::stores::Stores;
use crate::guards::subject::Subject;
use crate::guards::{Common, Guards};
use crate::registry::HealthRegistry;
use crate::stats::requests::RequestCounters;
use doorbell::http::forwarded::Networks;
use doorbell::http::router::{self, Lookup, MethodSet, Router};
use doorbell::http::{MessageStart, Replied, Request, Responder, Status};
use doorbell_checks::Push;
use doorbell_proxy_config::model::{Config, Route};
use fixed::Fixed;
use handler::{Guarded, RouteHandler};
pub(crate) use layered::{BareService, LayeredService};
use std::sync::{Arc, OnceLock, Weak};
pub(crate) use successor::RouteServices;
use successor::{Replaceable, Successor};

/// A listener's service.
#[derive(Debug)]
pub(crate) struct RouteService {
    router: Router<RouteEntry>,
    fixed: Fixed,
    wants_client: bool,
    /// Whether connections of HTTP/2 with prior knowledge are handed over.
    hands_over_http2: bool,
    /// Counters of requests without a route, if there is an admin address.
    unrouted: Option<RequestCounters>,
    /// Reference to this service, for deferred requests.
    this: Weak<Self>,
    /// The service of the next configuration, which replies on remaining connections.
    successor: OnceLock<Successor>,
}

impl Replaceable for RouteService {
    fn set_successor(&self, successor: Successor) {
        // Disables the fast path of plain requests, which does not check for a successor.
        let _first = self.successor.set(successor);
        self.router.forgo_plain();
    }
}

/// A handler, its route in the log, and its counters.
#[derive(Clone, Debug)]
struct RouteEntry {
    handler: RouteHandler,
    log_route: LogRoute,
    /// Counters of requests to the route; `None` if the handler is [`RouteHandler::Counted`], or
    /// without an admin address.
    counters: Option<Arc<RequestCounters>>,
}

/// A route in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogRoute {
    /// Position in [`Config::routes`].
    index: u16,
    is_probe: bool,
}

/// Parts shared by the services of all listeners.
#[derive(Debug)]
pub(crate) struct Materials<'a> {
    pub(crate) config: &'a Config,
    pub(crate) registry: &'a HealthRegistry,
    /// Receives pushed results; `None` without checks.
    pub(crate) push: Option<&'a Push>,
    pub(crate) common: &'a Common,
    pub(crate) stores: &'a Stores,
    /// The services built from this configuration.
    pub(crate) services: &'a RouteServices,
}

/// Error for a validated configuration that cannot be compiled. This is a defect, reported without
/// a panic.
#[derive(Debug, thiserror::Error)]
#[error("route `{0}` cannot be built")]
pub(crate) struct BuildError(String);

impl RouteService {
    /// Builds the routes of a listener for the protocol `version`. gRPC routes exist only for
    /// HTTP/2.
    pub(crate) fn build(
        materials: &Materials<'_>,
        listener: usize,
        version: HttpVersion,
    ) -> Result<Arc<Self>, BuildError> {
        let Materials { config, common, .. } = *materials;
        let name = config.listeners.get(listener).map_or("", |listener| listener.name.as_str());
        let trusted: Networks =
            config.listeners.get(listener).into_iter().flat_map(|listener| listener.trusted()).collect();
        // Metrics are served only at the admin address.
        let counters = |route: &str| config.admin.is_some().then(|| RequestCounters::new(name, route));
        let mut builder = Router::builder();
        let mut wants_client = false;
        let speaks_grpc = version == HttpVersion::Http2 && config.grpc.enabled;
        let here = |(_, route): &(usize, &Route)| route.is_on(listener) && (speaks_grpc || !route.is_grpc());
        for (position, route) in config.routes.iter().enumerate().filter(here) {
            let handler = RouteHandler::build(route, &trusted, materials);
            let mut handler = handler.ok_or_else(|| BuildError(route.name.clone()))?;
            wants_client |= handler.wants_client();
            let guards = Guards::build(position, listener, config, common);
            if !guards.is_open() {
                wants_client |= guards.wants_client();
                handler = RouteHandler::Guarded(Arc::new(Guarded { guards, handler }));
            }
            let mut counters = counters(&route.name).map(Arc::new);
            if let (RouteHandler::Reply(reply), Some(counted)) = (&handler, &counters)
                && let Some(fixed) = counted.fixed(&route.methods, reply.status().code())
            {
                handler = RouteHandler::Counted(Arc::new((reply.clone(), fixed)));
                counters = None;
            }
            let log_route =
                LogRoute { index: u16::try_from(position).unwrap_or(u16::MAX), is_probe: route.is_probe() };
            for path in &route.paths {
                builder.add(router::Route {
                    name: route.name.clone(),
                    hosts: route.host_names(),
                    path: path.value.clone(),
                    methods: MethodSet::of(&route.methods),
                    value: RouteEntry { handler: handler.clone(), log_route, counters: counters.clone() },
                });
            }
        }
        let router = builder.build().map_err(|errors| {
            BuildError(errors.all().iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        let fixed = Fixed::new();
        // Over TLS, ALPN selects HTTP/2 before the first request.
        let hands_over_http2 = config.has_http2(listener) && config.tls_of(listener).is_none();
        Ok(Arc::new_cyclic(|this| {
            let this = Weak::clone(this);
            Self {
                router,
                fixed,
                wants_client,
                hands_over_http2,
                unrouted: counters(""),
                this,
                successor: OnceLock::new(),
            }
        }))
    }

    fn hands_over(&self, begun: MessageStart<'_>) -> bool {
        self.hands_over_http2 && matches!(begun, MessageStart::Http2 | MessageStart::NotHttp1)
    }

    /// Whether requests are counted; selects the variant of [`Self::serve`].
    pub(crate) const fn counts(&self) -> bool {
        self.unrouted.is_some()
    }

    /// Replies, and returns the route. Routes that depend on neither the host nor parameters are
    /// looked up first. `subject` receives the name of a token's holder. `COUNTS` must equal
    /// [`Self::counts`], which is not called here because it costs as much as counting a probe.
    #[inline(always)]
    fn serve<'a, const COUNTS: bool>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        subject: Option<&mut Subject>,
    ) -> (Replied<'a>, Option<LogRoute>) {
        let Some(found) = self.router.find_plain(request) else {
            return self.look_up(request, reply, subject);
        };
        let RouteEntry { handler, log_route, .. } = found.value();
        // A common match for both cases would cost an additional instruction per health probe.
        let answered = if COUNTS {
            match handler {
                RouteHandler::Counted(counted) => {
                    let (fixed, count) = &**counted;
                    count.count(request.method(), 1);
                    reply.send(fixed)
                }
                RouteHandler::Health(health) => health.send(request, reply),
                _ => self.serve_plain(&found, request, reply, subject),
            }
        } else {
            match handler {
                RouteHandler::Reply(fixed) => reply.send(fixed),
                RouteHandler::Health(health) => health.send(request, reply),
                _ => self.serve_plain(&found, request, reply, subject),
            }
        };
        (answered, Some(*log_route))
    }

    /// Calls the handlers that are not on the fast path. A separate function, to keep the fast path
    /// small.
    #[inline(never)]
    fn serve_plain<'a>(
        &self,
        found: &router::Plain<'_, RouteEntry>,
        request: &Request<'_>,
        reply: Responder<'a>,
        subject: Option<&mut Subject>,
    ) -> Replied<'a> {
        let entry = found.value();
        entry.count(request.method(), reply, |reply, mark| match &entry.handler {
            RouteHandler::Guarded(guarded) => {
                self.handle_guarded(guarded, |request| found.matched(request), request, reply, subject, mark)
            }
            handler => self.handle(handler, &found.matched(request), request, reply, subject, mark),
        })
    }

    /// Counts `count` requests that equal `request`, if the reply to `request` also applies to
    /// them; otherwise returns false.
    fn repeats(&self, request: &Request<'_>, count: u32) -> bool {
        let method = request.method();
        let Some(found) = self.router.find_plain(request) else {
            let is_not_found = || matches!(self.router.find_for(request), Lookup::NotFound);
            let repeats = self.successor.get().is_none() && is_not_found();
            if let (true, Some(counters)) = (repeats, &self.unrouted) {
                counters.count_status(method, Status::NOT_FOUND, count);
            }
            return repeats;
        };
        let RouteEntry { handler, counters, .. } = found.value();
        match handler {
            RouteHandler::Counted(counted) => counted.1.count(method, count),
            RouteHandler::Health(health) => return health.repeats(request, count),
            RouteHandler::Reply(fixed) => {
                counters.iter().for_each(|counters| counters.count_status(method, fixed.status(), count));
            }
            _ => return false,
        }
        true
    }

    #[inline(never)]
    fn look_up<'a>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        subject: Option<&mut Subject>,
    ) -> (Replied<'a>, Option<LogRoute>) {
        if let Some(successor) = self.successor.get() {
            return (successor.call(self.wants_client, request, reply), None);
        }
        let answered = match self.router.find_for(request) {
            Lookup::Found(found) => {
                let entry = found.value;
                let answered = entry.count(request.method(), reply, |reply, mark| {
                    self.handle(&entry.handler, &found, request, reply, subject, mark)
                });
                return (answered, Some(entry.log_route));
            }
            Lookup::MethodNotAllowed { allow } => {
                reply.status(Status::METHOD_NOT_ALLOWED).header("Allow", allow).empty()
            }
            Lookup::Misdirected => reply.send(&self.fixed.misdirected),
            Lookup::NotFound => reply.send(&self.fixed.not_found),
            Lookup::Options { allow } => reply.status(Status::NO_CONTENT).header("Allow", allow).empty(),
        };
        if let Some(counters) = &self.unrouted {
            counters.count(request.method(), &answered);
        }
        (answered, None)
    }
}
