//! The handler of a route: the kind of reply that its requests get.

use super::counting::ProbeMark;
use super::fixed::with_headers;
use super::grpc::GrpcHandler;
use super::health::{CHECK_PARAM, Health};
use super::push::PushHandler;
use super::redirect::RedirectHandler;
use super::stored::{FilesHandler, LinksHandler};
use super::templated::TemplatedReply;
use super::{Materials, RouteEntry, RouteService};
use crate::guards::subject::Subject;
use crate::guards::{Guards, Viewers};
use crate::stats::requests::Fixed as Count;
use doorbell::http::forwarded::Networks;
use doorbell::http::router::{Match, MethodSet, param_names};
use doorbell::http::{Replied, Request, Responder, StaticReply, Status};
use doorbell_config::At;
use doorbell_proxy_config::model::{Action, HealthRoute, Reply, Route};
use doorbell_proxy_config::template::Template;
use std::sync::Arc;

/// The handler of a route.
#[derive(Clone, Debug)]
pub(super) enum RouteHandler {
    /// A fixed reply with counters.
    Counted(Arc<(StaticReply, Count)>),
    Files(Arc<FilesHandler>),
    Grpc(Arc<GrpcHandler>),
    /// Another handler behind guards.
    Guarded(Arc<Guarded>),
    Health(Arc<Health>),
    Links(Arc<LinksHandler>),
    /// A reply with parameters.
    Templated(Arc<TemplatedReply>),
    /// 404: a push route of a configuration without checks.
    NotFound,
    Push(Arc<PushHandler>),
    Redirect(Arc<RedirectHandler>),
    Reply(StaticReply),
    /// A health route whose details may require a token that a job verifies.
    Viewed(Arc<Health>),
}

/// A handler and its guards.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) guards: Guards,
    pub(super) handler: RouteHandler,
}

impl RouteHandler {
    /// Builds the handler of a route. `trusted` are the proxies of the listener.
    pub(super) fn build(route: &Route, trusted: &Networks, materials: &Materials<'_>) -> Option<Self> {
        let Materials { stores, push, common, .. } = *materials;
        let headers = &route.fields();
        match route.action() {
            Action::Files(_) => {
                let directory = stores.directory(&route.name)?.clone();
                Some(Self::Files(Arc::new(FilesHandler::new(directory, common.lane().cloned()))))
            }
            Action::Grpc => GrpcHandler::build(headers).map(Arc::new).map(Self::Grpc),
            Action::Health(health) => {
                let health = Arc::new(build_health(route, &health, trusted, materials)?);
                Some(if health.has_jobs() { Self::Viewed(health) } else { Self::Health(health) })
            }
            Action::Links(map) => {
                let links = stores.links(&route.name)?.clone();
                LinksHandler::build(map, links, headers.clone()).map(Arc::new).map(Self::Links)
            }
            Action::Push => match push {
                Some(push) => {
                    let has_hosts = !route.hosts.is_empty();
                    let built = PushHandler::build(push.clone(), materials.config, has_hosts, headers);
                    built.map(Arc::new).map(Self::Push)
                }
                None => Some(Self::NotFound),
            },
            Action::Redirect(to) => RedirectHandler::build(to, &route.host_names(), headers.clone())
                .map(Arc::new)
                .map(Self::Redirect),
            Action::Reply(reply) => {
                let Reply { status, body, file, content_type, content, .. } = reply;
                let status = Status::new(*status)?;
                if file.is_some() {
                    let content = content.0.clone();
                    return fixed_reply(status, content_type, content, headers).map(Self::Reply);
                }
                match TemplatedReply::build(status, content_type, body, headers) {
                    Some(templated) => Some(Self::Templated(Arc::new(templated))),
                    None => {
                        let body = Template::parse(body).fixed()?.as_bytes().to_vec();
                        fixed_reply(status, content_type, body, headers).map(Self::Reply)
                    }
                }
            }
        }
    }

    /// Whether the handler needs the addresses of clients.
    pub(super) fn wants_client(&self) -> bool {
        match self {
            Self::Templated(templated) => templated.wants_client(),
            Self::Health(health) | Self::Viewed(health) => health.wants_client(),
            _ => false,
        }
    }
}

/// Renders a reply without parameters; doubled braces in header values become single ones.
fn fixed_reply(
    status: Status,
    content_type: &str,
    body: Vec<u8>,
    headers: &[(String, String)],
) -> Option<StaticReply> {
    let fixed = |text: &str| Template::parse(text).fixed().map(str::to_owned);
    let headers = headers.iter().map(|(name, value)| Some((name.clone(), fixed(value)?)));
    let reply = with_headers(StaticReply::new(status), &headers.collect::<Option<Vec<_>>>()?)?;
    // An empty reply has no `Content-Type`.
    if body.is_empty() { Some(reply) } else { reply.body(content_type, body).ok() }
}

fn build_health(
    route: &Route,
    health: &HealthRoute,
    trusted: &Networks,
    materials: &Materials<'_>,
) -> Option<Health> {
    let names_check =
        |path: &At<String>| param_names(path).is_ok_and(|names| names.iter().any(|name| name == CHECK_PARAM));
    let has_singles = route.paths.iter().any(names_check);
    let allow = MethodSet::of(&route.methods).to_string();
    let cache = materials.registry.cache(health, &route.fields(), &allow, has_singles)?;
    let viewers = Viewers::build(&health.details_auth, materials.config, materials.common);
    Some(Health::new(cache, viewers, trusted.clone()))
}

impl RouteService {
    /// Handles a request. `subject` receives the name of a token's holder; `mark` is set if the
    /// prober statistics count the request.
    #[inline(never)]
    pub(super) fn handle<'a, 'p>(
        &self,
        handler: &RouteHandler,
        found: &Match<'_, 'p, RouteEntry>,
        request: &Request<'p>,
        reply: Responder<'a>,
        subject: Option<&mut Subject>,
        mark: &ProbeMark,
    ) -> Replied<'a> {
        match handler {
            RouteHandler::Counted(counted) => {
                counted.1.count(request.method(), 1);
                reply.send(&counted.0)
            }
            RouteHandler::Files(files) => files.send(&found.params, request, &self.fixed, reply),
            RouteHandler::Guarded(guarded) => {
                self.handle_guarded(guarded, |_| found.clone(), request, reply, subject, mark)
            }
            RouteHandler::Grpc(grpc) => grpc.send(request, reply),
            RouteHandler::Health(health) => {
                let name = found.params.value(CHECK_PARAM);
                health.send_either(name, request, reply, &self.fixed.not_found, mark)
            }
            RouteHandler::Links(links) => links.send(request, &self.fixed, reply),
            RouteHandler::Templated(templated) => templated.send(&found.params, request, &self.fixed, reply),
            RouteHandler::NotFound => reply.send(&self.fixed.not_found),
            RouteHandler::Push(push) => push.send(&found.params, request, &self.fixed, reply),
            RouteHandler::Redirect(handler) => handler.send(found.params, request, &self.fixed, reply),
            RouteHandler::Reply(fixed) => reply.send(fixed),
            RouteHandler::Viewed(health) => {
                self.handle_viewed(health, found.params.value(CHECK_PARAM), request, reply, mark)
            }
        }
    }

    /// Handles a request behind guards. `found` is a closure, because few handlers need its result.
    #[inline(never)]
    pub(super) fn handle_guarded<'a, 'r, 'p>(
        &self,
        guarded: &Guarded,
        found: impl FnOnce(&Request<'p>) -> Match<'r, 'p, RouteEntry>,
        request: &Request<'p>,
        reply: Responder<'a>,
        subject: Option<&mut Subject>,
        mark: &ProbeMark,
    ) -> Replied<'a> {
        let defer = |token_job, promise, reply| self.defer(token_job, promise, request, reply, mark);
        guarded.guards.apply(request, reply, subject, defer, |reply| match &guarded.handler {
            RouteHandler::Reply(fixed) => reply.send(fixed),
            handler => self.handle(handler, &found(request), request, reply, None, mark),
        })
    }
}
