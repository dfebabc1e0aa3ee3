//! A service that passes requests to other services by host, path and method.
//!
//! Does not know about: look-ups (see [`crate::router`]), what the services reply.

use crate::request::Found;
use crate::router::{Lookup, MethodSet, Route, RouteErrors, Router, RouterBuilder};
use crate::{
    Client, MessageStart, Method, Replied, Request, RequestError, Responder, Service, StaticReply, Status,
    Time,
};
use std::fmt;

/// Passes each request to the service of its route. Build it with [`Routes::builder`].
///
/// The needs of each service for bodies and for the client's address are forwarded, so a service
/// may also be another `Routes`, a guarded service, or one that replies in a job. The service reads
/// the parameters of the path with [`Request::param`].
///
/// | request | reply |
/// |---|---|
/// | its path has no route | 404, or that of [`RoutesBuilder::otherwise`] |
/// | the path exists, but not for this method | 405 with `Allow` |
/// | OPTIONS for a path without such a route | 204 with `Allow` |
/// | the path exists, but on other hosts only | 421 |
///
/// ```
/// use doorbell_http::redirect::{Redirect, Scheme};
/// use doorbell_http::router::MethodSet;
/// use doorbell_http::routes::Routes;
/// use doorbell_http::{Method, StaticReply, Status, service_fn};
///
/// let alive = StaticReply::text(Status::OK, "ok\n");
/// let routes = Routes::builder()
///     .get("/livez", service_fn(move |_, reply| reply.send(&alive)))
///     .get("/hello/{name}", service_fn(|request, reply| {
///         reply.status(Status::OK).text(request.param("name").unwrap_or_default())
///     }))
///     .route(MethodSet::of(&[Method::Put]), "/notes/{id}", service_fn(|request, reply| {
///         reply.status(Status::OK).text(format!("{} bytes\n", request.body().len()))
///     }).with_body())
///     .any("/old/{*rest}", Redirect::to(Scheme::Https).canonical_host("example.com").path("/new/{rest}").build()?)
///     .build()?;
/// # let _: Box<dyn doorbell_http::Service> = Box::new(routes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Routes {
    router: Router<BoxedService>,
    otherwise: BoxedService,
    wants_client: bool,
    options: StaticReply,
    misdirected: StaticReply,
}

type BoxedService = Box<dyn Service + Send + Sync>;

/// Builder of [`Routes`].
#[must_use = "routes do nothing before `build`"]
pub struct RoutesBuilder {
    routes: RouterBuilder<BoxedService>,
    otherwise: BoxedService,
    hosts: Vec<String>,
}

impl Routes {
    /// A builder without routes.
    pub fn builder() -> RoutesBuilder {
        let not_found = StaticReply::text(Status::NOT_FOUND, "not found\n");
        RoutesBuilder {
            routes: Router::builder(),
            otherwise: Box::new(crate::service_fn(move |_, reply| reply.send(&not_found))),
            hosts: Vec::new(),
        }
    }

    /// Calls `ask` with the service for a request, and with the request including the parameters of
    /// its path. Returns false if the reply comes from the routes themselves.
    fn asks(&self, head: &Request<'_>, ask: impl FnOnce(&BoxedService, &Request<'_>) -> bool) -> bool {
        match self.router.find_for(head) {
            Lookup::Found(found) => {
                let context = Found { params: found.params, ..head.found() };
                ask(found.value, &head.with_found(&context))
            }
            Lookup::NotFound => ask(&self.otherwise, head),
            Lookup::MethodNotAllowed { .. } | Lookup::Misdirected | Lookup::Options { .. } => false,
        }
    }
}

impl RoutesBuilder {
    /// Adds a service for GET and HEAD. A path is static, as in `/livez`, or has parameters:
    /// `{name}` is one segment, and a final `{*name}` the remaining path, which may be empty:
    /// `/a/{*rest}` matches `/a/`, but not `/a`.
    pub fn get(self, path: &str, service: impl Service + Send + Sync + 'static) -> Self {
        self.route(MethodSet::of(&[Method::Get]), path, service)
    }

    /// Adds a service for POST.
    pub fn post(self, path: &str, service: impl Service + Send + Sync + 'static) -> Self {
        self.route(MethodSet::of(&[Method::Post]), path, service)
    }

    /// Adds a service for all methods but CONNECT and TRACE.
    pub fn any(self, path: &str, service: impl Service + Send + Sync + 'static) -> Self {
        self.route(MethodSet::ANY, path, service)
    }

    /// Adds a service for these methods. GET includes HEAD unless another route has HEAD.
    pub fn route(
        mut self,
        methods: MethodSet,
        path: &str,
        service: impl Service + Send + Sync + 'static,
    ) -> Self {
        self.routes.add(Route {
            name: format!("{methods} {path}"),
            hosts: self.hosts.clone(),
            path: path.to_owned(),
            methods,
            value: Box::new(service),
        });
        self
    }

    /// Limits the routes added from now on to these hosts: names without a port, or
    /// `*.example.com` for all names below `example.com`. An empty list means any host.
    pub fn on_hosts<'h>(mut self, hosts: impl IntoIterator<Item = &'h str>) -> Self {
        self.hosts = hosts.into_iter().map(str::to_owned).collect();
        self
    }

    /// Sets the service for paths without a route. Default: 404.
    pub fn otherwise(mut self, service: impl Service + Send + Sync + 'static) -> Self {
        self.otherwise = Box::new(service);
        self
    }

    /// Builds the service.
    ///
    /// # Errors
    /// All invalid paths and hosts, all routes that match the same requests, and all parameters
    /// that a service requires but that are missing from its route's path, for example because a
    /// redirect's template misspells them.
    pub fn build(self) -> Result<Routes, RouteErrors> {
        let missing =
            |service: &BoxedService, known: &[&str]| service.missing_param(known).map(str::to_owned);
        let router = self.routes.build_without(missing)?;
        let wants_client = router.values().any(Service::wants_client) || self.otherwise.wants_client();
        Ok(Routes {
            router,
            otherwise: self.otherwise,
            wants_client,
            options: StaticReply::new(Status::NO_CONTENT),
            misdirected: StaticReply::text(Status::MISDIRECTED_REQUEST, "no such host\n"),
        })
    }
}

impl Service for Routes {
    fn wants_body(&self, head: &Request<'_>) -> bool {
        self.asks(head, |service, head| service.wants_body(head))
    }

    fn wants_client(&self) -> bool {
        self.wants_client
    }

    /// Notifies the service for paths without a route, because a request that could not be parsed
    /// has no route.
    fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
        self.otherwise.refused(error, client, now);
    }

    /// Only the service for paths without a route gets the parameters of an outer route.
    fn missing_param(&self, known: &[&str]) -> Option<&str> {
        self.otherwise.missing_param(known)
    }

    fn hands_over(&self, start: MessageStart<'_>) -> bool {
        match start {
            MessageStart::Body(head) => {
                self.asks(head, |service, head| service.hands_over(MessageStart::Body(head)))
            }
            MessageStart::Http2 | MessageStart::NotHttp1 | MessageStart::Tls | MessageStart::Unknown(_) => {
                self.otherwise.hands_over(start)
            }
        }
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match self.router.find_for(request) {
            Lookup::Found(found) => {
                let context = Found { params: found.params, ..request.found() };
                found.value.call(&request.with_found(&context), reply)
            }
            Lookup::NotFound => self.otherwise.call(request, reply),
            Lookup::MethodNotAllowed { allow } => reply.method_not_allowed(allow.as_bytes()),
            Lookup::Options { allow } => reply.header("Allow", allow).send(&self.options),
            Lookup::Misdirected => reply.send(&self.misdirected),
        }
    }

    fn repeats(&self, request: &Request<'_>, count: u32) -> bool {
        self.asks(request, |service, request| service.repeats(request, count))
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("routes", &self.router.values().count()).finish_non_exhaustive()
    }
}

impl fmt::Debug for RoutesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutesBuilder").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
