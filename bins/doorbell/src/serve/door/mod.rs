//! The routes of one listener, compiled: each request is one look-up and one reply, which for most exists already.
//!
//! Does not know about: sockets. Nothing here allocates for a request that is answered from what exists.

mod answer;
mod health;
mod redirect;
mod stored;
mod watched;

use super::guards::{Common, Guards};
use super::state::State;
use super::stored::Stores;
use crate::config::model::{Config, Route};
use crate::http::router::{self, Lookup, MethodSet, Router};
use crate::http::{Answered, Request, Responder, Service, StaticReply, Status};
use answer::{Answer, Guarded};
use std::sync::Arc;
pub(super) use watched::WatchedDoor;

/// A listener's service.
#[derive(Debug)]
pub(super) struct Door {
    router: Router<Placed>,
    state: Arc<State>,
    fixed: Fixed,
    wants_client: bool,
}

/// An answer and what the log calls its route.
#[derive(Clone, Debug)]
struct Placed {
    answer: Answer,
    note: RouteNote,
}

/// What the log says of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RouteNote {
    /// The place of its name in [`Config::route_names_all`].
    index: u16,
    is_probe: bool,
}

/// Replies that belong to no route.
#[derive(Debug)]
struct Fixed {
    bad_request: StaticReply,
    misdirected: StaticReply,
    not_found: StaticReply,
    too_long: StaticReply,
    /// In every reply that is not one of these or a route's own.
    headers: Vec<(String, String)>,
}

/// What the doors of all listeners share.
#[derive(Debug)]
pub(super) struct Materials<'a> {
    pub(super) config: &'a Config,
    pub(super) state: &'a Arc<State>,
    pub(super) common: &'a Common,
    pub(super) stores: &'a Stores,
}

/// A configuration that was checked and still cannot be compiled: a defect, told by name instead of a panic.
#[derive(Debug, thiserror::Error)]
#[error("route `{0}` cannot be built")]
pub(super) struct BuildError(String);

impl Door {
    pub(super) fn build(materials: &Materials<'_>, listener: usize) -> Result<Self, BuildError> {
        let Materials { config, state, common, stores } = materials;
        let own = listener_headers(config, listener);
        let mut builder = Router::builder();
        let mut wants_client = false;
        let names: Vec<&str> = config.route_names_all().collect();
        let mut add = |route: RouteHead<'_>, answer: Option<Answer>| {
            let is_probe = matches!(answer, Some(Answer::Health(_)));
            let needs_cert = config.needs_client_cert(listener, route.name);
            let guards = Guards::build(config.guards.get(route.name), needs_cert, is_probe, config, common);
            let mut answer = answer.ok_or_else(|| BuildError(route.name.to_owned()))?;
            if !guards.is_open() {
                wants_client |= guards.wants_client();
                answer = Answer::Guarded(Arc::new(Guarded { guards, answer }));
            }
            let index = names.iter().position(|name| *name == route.name).unwrap_or(usize::MAX);
            let note = RouteNote { index: u16::try_from(index).unwrap_or(u16::MAX), is_probe };
            for path in route.paths {
                builder.add(router::Route {
                    name: route.name.to_owned(),
                    hosts: route.hosts.to_vec(),
                    path: path.clone(),
                    methods: MethodSet::of(route.methods),
                    value: Placed { answer: answer.clone(), note },
                });
            }
            Ok(())
        };
        for route in config.routes.iter().filter(|route| route.listeners.contains(&listener)) {
            add(RouteHead::of(route), Answer::build(route, &own, config))?;
        }
        for route in config.stored_routes.iter().filter(|route| route.listeners.contains(&listener)) {
            add(RouteHead::of(route), stored::build(route, &own, stores))?;
        }
        let router = builder.build().map_err(|errors| {
            BuildError(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        let fixed = Fixed::new(own).ok_or_else(|| BuildError("(none)".to_owned()))?;
        Ok(Self { router, state: Arc::clone(state), fixed, wants_client })
    }

    /// The answer, and the route it came from. Most requests are for what needs neither host nor parameters.
    #[inline(always)]
    fn serve(&self, request: &Request<'_>, reply: Responder<'_>) -> (Answered, Option<RouteNote>) {
        match self.router.find_plain(request) {
            Some(Placed { answer: Answer::Reply(fixed), note }) => (reply.send(fixed), Some(*note)),
            Some(Placed { answer: Answer::Health(health), note }) => {
                (reply.send(health.reply(&self.state, request.method())), Some(*note))
            }
            Some(_) | None => self.look_up(request, reply),
        }
    }

    #[inline(never)]
    fn look_up(&self, request: &Request<'_>, reply: Responder<'_>) -> (Answered, Option<RouteNote>) {
        let answered = match self.router.find_for(request) {
            Lookup::Found(found) => {
                return (self.give(&found.value.answer, &found, request, reply), Some(found.value.note));
            }
            Lookup::MethodNotAllowed { allow } => {
                self.fixed.begin(reply, Status::METHOD_NOT_ALLOWED).header("Allow", allow).empty()
            }
            Lookup::Misdirected => reply.send(&self.fixed.misdirected),
            Lookup::NotFound => reply.send(&self.fixed.not_found),
            Lookup::Options { allow } => {
                self.fixed.begin(reply, Status::NO_CONTENT).header("Allow", allow).empty()
            }
        };
        (answered, None)
    }
}

impl Service for Door {
    fn wants_client(&self) -> bool {
        self.wants_client
    }

    #[inline]
    fn call(&self, request: &Request<'_>, reply: Responder<'_>) -> Answered {
        self.serve(request, reply).0
    }
}

/// What routes of all kinds of actions have in common.
#[derive(Clone, Copy)]
struct RouteHead<'a> {
    name: &'a str,
    hosts: &'a [String],
    paths: &'a [String],
    methods: &'a [crate::http::Method],
}

impl<'a> RouteHead<'a> {
    fn of<A>(route: &'a Route<A>) -> Self {
        let Route { name, hosts, paths, methods, .. } = route;
        Self { name, hosts, paths, methods }
    }
}

impl Fixed {
    fn new(headers: Vec<(String, String)>) -> Option<Self> {
        let text = |status, text: &'static str| with_headers(StaticReply::text(status, text), &headers);
        Some(Self {
            bad_request: text(Status::BAD_REQUEST, "bad request\n")?,
            misdirected: text(Status::MISDIRECTED_REQUEST, "this host is not served here\n")?,
            not_found: text(Status::NOT_FOUND, "not found\n")?,
            too_long: text(Status::URI_TOO_LONG, "the address is too long\n")?,
            headers,
        })
    }

    fn begin<'a>(&self, reply: Responder<'a>, status: Status) -> crate::http::ReplyBuilder<'a> {
        let headers = self.headers.iter();
        headers.fold(reply.status(status), |builder, (name, value)| builder.header(name, value))
    }
}

/// Fields of every reply of a listener.
fn listener_headers(config: &Config, listener: usize) -> Vec<(String, String)> {
    let hsts = config.tls_of(listener).and_then(|tls| tls.hsts.clone());
    hsts.map(|value| ("Strict-Transport-Security".to_owned(), value)).into_iter().collect()
}

fn with_headers(reply: StaticReply, headers: &[(String, String)]) -> Option<StaticReply> {
    headers.iter().try_fold(reply, |reply, (name, value)| reply.header(name, value).ok())
}

/// A route's own fields, and those of its listener that it does not have.
fn all_headers(route: &[(String, String)], listener: &[(String, String)]) -> Vec<(String, String)> {
    let is_own = |name: &str| route.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    route.iter().chain(listener.iter().filter(|(name, _)| !is_own(name))).cloned().collect()
}
