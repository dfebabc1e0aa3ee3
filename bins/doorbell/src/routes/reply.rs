//! The answer of a route: the kind of reply that its requests get.
//!
//! Does not know about: looking up routes.

use super::fixed::with_headers;
use super::grpc::GrpcAnswer;
use super::health::{CHECK_PARAM, Health};
use super::push::PushAnswer;
use super::redirect::RedirectAnswer;
use super::stored::{FilesAnswer, LinksAnswer};
use super::templated::MadeReply;
use super::{Materials, Placed, RouteService};
use crate::config::model::{Action, HealthRoute, Reply, Route};
use crate::config::template::Template;
use crate::guards::subject::Subject;
use crate::guards::{Guards, Viewers};
use crate::http::forwarded::Networks;
use crate::http::router::{Match, MethodSet, param_names};
use crate::http::{Replied, Request, Responder, StaticReply, Status};
use crate::stats::requests::{Fixed as Count, RequestCounters};
use doorbell_config::At;
use std::sync::Arc;

/// The answer of a route.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Same as `Reply`, with counters.
    Counted(Arc<(StaticReply, Count)>),
    Files(Arc<FilesAnswer>),
    Grpc(Arc<GrpcAnswer>),
    /// Another answer behind guards.
    Guarded(Arc<Guarded>),
    Health(Arc<Health>),
    Links(Arc<LinksAnswer>),
    /// A reply with parameters.
    Made(Arc<MadeReply>),
    /// 404: a push route of a configuration without checks.
    Nothing,
    Push(Arc<PushAnswer>),
    Redirect(Arc<RedirectAnswer>),
    Reply(StaticReply),
    /// Same as `Health`, if jobs verify the tokens for details.
    Viewed(Arc<Health>),
}

/// An answer and its guards.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) guards: Guards,
    pub(super) answer: Answer,
}

impl Answer {
    /// Builds the answer of a route. `trusted` are the proxies of the listener; `counters` are for
    /// answers that count some of their requests.
    pub(super) fn build(
        route: &Route,
        trusted: &Networks,
        counters: Option<&Arc<RequestCounters>>,
        materials: &Materials<'_>,
    ) -> Option<Self> {
        let Materials { stores, push, common, .. } = *materials;
        let headers = &route.fields();
        match route.action() {
            Action::Files(_) => {
                let directory = stores.directory(&route.name)?.clone();
                Some(Self::Files(Arc::new(FilesAnswer::new(directory, common.lane().cloned()))))
            }
            Action::Grpc => GrpcAnswer::build(headers, counters).map(Arc::new).map(Self::Grpc),
            Action::Health(health) => {
                let health = Arc::new(build_health(route, &health, trusted, counters, materials)?);
                Some(if health.has_jobs() { Self::Viewed(health) } else { Self::Health(health) })
            }
            Action::Links(map) => {
                let links = stores.links(&route.name)?.clone();
                LinksAnswer::build(map, links, headers.clone()).map(Arc::new).map(Self::Links)
            }
            Action::Push => match push {
                Some(push) => {
                    let has_hosts = !route.hosts.is_empty();
                    let built = PushAnswer::build(push.clone(), materials.config, has_hosts, headers);
                    built.map(Arc::new).map(Self::Push)
                }
                None => Some(Self::Nothing),
            },
            Action::Redirect(to) => RedirectAnswer::build(to, &route.host_names(), headers.clone())
                .map(Arc::new)
                .map(Self::Redirect),
            Action::Reply(reply) => {
                let Reply { status, body, file, content_type, content, .. } = reply;
                let status = Status::new(*status)?;
                if file.is_some() {
                    let content = content.0.clone();
                    return fixed_reply(status, content_type, content, headers).map(Self::Reply);
                }
                match MadeReply::build(status, content_type, body, headers) {
                    Some(made) => Some(Self::Made(Arc::new(made))),
                    None => {
                        let body = Template::parse(body).fixed()?.as_bytes().to_vec();
                        fixed_reply(status, content_type, body, headers).map(Self::Reply)
                    }
                }
            }
        }
    }

    /// Whether the answer needs the addresses of clients.
    pub(super) fn wants_client(&self) -> bool {
        match self {
            Self::Made(made) => made.wants_client(),
            Self::Health(health) | Self::Viewed(health) => health.wants_client(),
            _ => false,
        }
    }
}

/// Renders a reply without parameters; doubled braces become single ones.
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
    counters: Option<&Arc<RequestCounters>>,
    materials: &Materials<'_>,
) -> Option<Health> {
    let asks_for_check =
        |path: &At<String>| param_names(path).is_ok_and(|names| names.iter().any(|name| name == CHECK_PARAM));
    let has_singles = route.paths.iter().any(asks_for_check);
    let allow = MethodSet::of(&route.methods).to_string();
    let cache = materials.registry.cache(health, &route.fields(), &allow, has_singles)?;
    let viewers = Viewers::build(&health.details_auth, materials.config, materials.common);
    let singles = counters.filter(|_| has_singles).cloned();
    Some(Health::new(cache, viewers, trusted.clone(), singles))
}

impl RouteService {
    /// Sends the answer. `subject` receives the name of a token's holder.
    #[inline(never)]
    pub(super) fn give<'a, 'p>(
        &self,
        answer: &Answer,
        found: &Match<'_, 'p, Placed>,
        request: &Request<'p>,
        reply: Responder<'a>,
        subject: Option<&mut Subject>,
    ) -> Replied<'a> {
        match answer {
            Answer::Counted(counted) => {
                counted.1.count(request.method(), 1);
                reply.send(&counted.0)
            }
            Answer::Files(files) => {
                files.send(&found.params, found.value.counters.as_ref(), request, &self.fixed, reply)
            }
            Answer::Guarded(guarded) => {
                self.give_guarded(guarded, |_| found.clone(), request, reply, subject)
            }
            Answer::Grpc(grpc) => grpc.send(request, reply),
            Answer::Health(health) => {
                let name = found.params.value(CHECK_PARAM);
                health.send_either(name, request, reply, &self.fixed.not_found)
            }
            Answer::Links(links) => links.send(request, &self.fixed, reply),
            Answer::Made(made) => made.send(&found.params, request, &self.fixed, reply),
            Answer::Nothing => reply.send(&self.fixed.not_found),
            Answer::Push(push) => push.send(&found.params, request, &self.fixed, reply),
            Answer::Redirect(answer) => answer.send(found.params, request, &self.fixed, reply),
            Answer::Reply(fixed) => reply.send(fixed),
            Answer::Viewed(health) => {
                self.give_viewed(health, found.params.value(CHECK_PARAM), request, reply)
            }
        }
    }

    /// Same as [`Self::give`], behind guards. `found` is a closure, because few answers need its
    /// result.
    #[inline(never)]
    pub(super) fn give_guarded<'a, 'r, 'p>(
        &self,
        guarded: &Guarded,
        found: impl FnOnce(&Request<'p>) -> Match<'r, 'p, Placed>,
        request: &Request<'p>,
        reply: Responder<'a>,
        subject: Option<&mut Subject>,
    ) -> Replied<'a> {
        let put_off = |token_job, promise, reply| self.put_off(token_job, promise, request, reply);
        guarded.guards.around(request, reply, subject, put_off, |reply| match &guarded.answer {
            Answer::Reply(fixed) => reply.send(fixed),
            answer => self.give(answer, &found(request), request, reply, None),
        })
    }
}
