//! The routes of one listener, compiled: each request is one look-up and one reply that exists already.
//!
//! Does not know about: sockets, files. Nothing here allocates for a request.

use super::state::{State, Verdict};
use crate::config::model::{Action, Config, HealthState, Reply, Route};
use crate::http::redirect::{Redirect, RedirectTarget};
use crate::http::router::{self, Lookup, Match, MethodSet, Router};
use crate::http::{Answered, Method, Request, Responder, Service, StaticReply, Status};
use std::sync::Arc;

/// Most locations are short: a small buffer costs nothing to clear.
const LOCATION_LEN_SHORT: usize = 512;

/// Every byte of the longest request line percent-encoded, and room for our own part.
const LOCATION_LEN_MAX: usize = 32 << 10;

/// A listener's service.
#[derive(Debug)]
pub(super) struct Door {
    router: Router<Answer>,
    state: Arc<State>,
    fixed: Fixed,
}

/// Replies that belong to no route.
#[derive(Debug)]
struct Fixed {
    bad_request: StaticReply,
    misdirected: StaticReply,
    not_found: StaticReply,
    too_long: StaticReply,
}

/// What a route answers.
#[derive(Clone, Debug)]
enum Answer {
    Health(Arc<Health>),
    Redirect(Arc<RedirectAnswer>),
    Reply(StaticReply),
}

#[derive(Debug)]
struct Health {
    initial: HealthState,
    /// False for endpoints that stay up while the process lives.
    is_readiness: bool,
    replies: Replies,
    /// The same with `Allow`.
    replies_to_options: Replies,
}

#[derive(Debug)]
struct Replies {
    degraded: StaticReply,
    down: StaticReply,
    draining: StaticReply,
    up: StaticReply,
}

#[derive(Debug)]
struct RedirectAnswer {
    redirect: Redirect,
    status: Status,
    headers: Vec<(String, String)>,
}

/// A configuration that was checked and still cannot be compiled: a defect, told by name instead of a panic.
#[derive(Debug, thiserror::Error)]
#[error("route `{0}` cannot be built")]
pub(super) struct BuildError(String);

impl Door {
    pub(super) fn build(config: &Config, listener: usize, state: &Arc<State>) -> Result<Self, BuildError> {
        let mut builder = Router::builder();
        for route in config.routes.iter().filter(|route| route.listeners.contains(&listener)) {
            let answer = Answer::build(route, config).ok_or_else(|| BuildError(route.name.clone()))?;
            for path in &route.paths {
                builder.add(router::Route {
                    name: route.name.clone(),
                    hosts: route.hosts.clone(),
                    path: path.clone(),
                    methods: MethodSet::of(&route.methods),
                    value: answer.clone(),
                });
            }
        }
        let router = builder.build().map_err(|errors| {
            BuildError(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        Ok(Self { router, state: Arc::clone(state), fixed: Fixed::new() })
    }

    #[inline]
    fn found(&self, found: &Match<'_, '_, Answer>, request: &Request<'_>, reply: Responder<'_>) -> Answered {
        match found.value {
            Answer::Health(health) => reply.send(health.reply(&self.state, request.method())),
            Answer::Redirect(answer) => {
                let target = RedirectTarget {
                    host: request.host_bytes(),
                    path: request.path_bytes(),
                    query: request.query_bytes(),
                    params: found.params,
                };
                self.redirect(answer, &target, reply)
            }
            Answer::Reply(fixed) => reply.send(fixed),
        }
    }

    fn redirect(
        &self,
        answer: &RedirectAnswer,
        target: &RedirectTarget<'_>,
        reply: Responder<'_>,
    ) -> Answered {
        let mut buf = [0; LOCATION_LEN_SHORT];
        match answer.redirect.location(target, &mut buf) {
            Ok(location) => answer.send(location, reply),
            Err(crate::http::redirect::RedirectError::TooLong) => self.redirect_far(answer, target, reply),
            Err(crate::http::redirect::RedirectError::BadTarget) => reply.send(&self.fixed.bad_request),
            Err(crate::http::redirect::RedirectError::Misdirected) => reply.send(&self.fixed.misdirected),
        }
    }

    #[cold]
    fn redirect_far(
        &self,
        answer: &RedirectAnswer,
        target: &RedirectTarget<'_>,
        reply: Responder<'_>,
    ) -> Answered {
        let mut buf = [0; LOCATION_LEN_MAX];
        match answer.redirect.location(target, &mut buf) {
            Ok(location) => answer.send(location, reply),
            // A byte that must not be sent on may come after the end of the short buffer.
            Err(crate::http::redirect::RedirectError::BadTarget) => reply.send(&self.fixed.bad_request),
            Err(crate::http::redirect::RedirectError::Misdirected) => reply.send(&self.fixed.misdirected),
            Err(crate::http::redirect::RedirectError::TooLong) => reply.send(&self.fixed.too_long),
        }
    }
}

impl Service for Door {
    fn call(&self, request: &Request<'_>, reply: Responder<'_>) -> Answered {
        match self.router.find_for(request) {
            Lookup::Found(found) => self.found(&found, request, reply),
            Lookup::MethodNotAllowed { allow } => reply.method_not_allowed(allow.as_bytes()),
            Lookup::Misdirected => reply.send(&self.fixed.misdirected),
            Lookup::NotFound => reply.send(&self.fixed.not_found),
            Lookup::Options { allow } => reply.status(Status::NO_CONTENT).header("Allow", allow).empty(),
        }
    }
}

impl Answer {
    fn build(route: &Route, config: &Config) -> Option<Self> {
        match &route.action {
            Action::Health(position) => {
                let health = config.health.get(*position)?;
                let allow = MethodSet::of(&route.methods).to_string();
                Some(Self::Health(Arc::new(Health {
                    initial: health.initial,
                    is_readiness: health.name != "livez" && health.name != "startupz",
                    replies: Replies::build(&route.headers, None)?,
                    replies_to_options: Replies::build(&route.headers, Some(&allow))?,
                })))
            }
            Action::Redirect(to) => {
                let redirect = crate::config::build_redirect(to, &route.hosts).ok()?;
                let status = Status::new(redirect.status().code())?;
                let headers = route.headers.clone();
                Some(Self::Redirect(Arc::new(RedirectAnswer { redirect, status, headers })))
            }
            Action::Reply(reply) => {
                let Reply { status, body, content_type } = reply;
                let fixed = with_headers(StaticReply::new(Status::new(*status)?), &route.headers)?;
                // Without content there is no type to tell.
                let fixed = if body.is_empty() { Ok(fixed) } else { fixed.body(content_type, body.clone()) };
                fixed.ok().map(Self::Reply)
            }
        }
    }
}

impl Health {
    #[inline]
    fn reply(&self, state: &State, method: Method) -> &StaticReply {
        let verdict = match (self.initial, self.is_readiness) {
            (HealthState::Down, _) => Verdict::Down,
            (HealthState::Up, true) => state.readiness(),
            (HealthState::Up, false) => Verdict::Up,
        };
        let replies = if method == Method::Options { &self.replies_to_options } else { &self.replies };
        match verdict {
            Verdict::Degraded => &replies.degraded,
            Verdict::Down => &replies.down,
            Verdict::Draining => &replies.draining,
            Verdict::Up => &replies.up,
        }
    }
}

impl Replies {
    fn build(headers: &[(String, String)], allow: Option<&str>) -> Option<Self> {
        let reply = |status, word: &str| {
            let own_cache_control =
                headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cache-control"));
            let mut reply = with_headers(StaticReply::text(status, format!("{word}\n")), headers)?;
            if !own_cache_control {
                reply = reply.header("Cache-Control", "no-store").ok()?;
            }
            match allow {
                Some(allow) => reply.header("Allow", allow).ok(),
                None => Some(reply),
            }
        };
        Some(Self {
            degraded: reply(Status::SERVICE_UNAVAILABLE, "degraded")?,
            down: reply(Status::SERVICE_UNAVAILABLE, "down")?,
            draining: reply(Status::SERVICE_UNAVAILABLE, "draining")?,
            up: reply(Status::OK, "ok")?,
        })
    }
}

impl RedirectAnswer {
    fn send(&self, location: &[u8], reply: Responder<'_>) -> Answered {
        let builder = reply.status(self.status).header("Location", location);
        let headers = self.headers.iter();
        headers.fold(builder, |builder, (name, value)| builder.header(name, value)).empty()
    }
}

impl Fixed {
    fn new() -> Self {
        Self {
            bad_request: StaticReply::text(Status::BAD_REQUEST, "bad request\n"),
            misdirected: StaticReply::text(Status::MISDIRECTED_REQUEST, "this host is not served here\n"),
            not_found: StaticReply::text(Status::NOT_FOUND, "not found\n"),
            too_long: StaticReply::text(Status::URI_TOO_LONG, "the address is too long\n"),
        }
    }
}

fn with_headers(reply: StaticReply, headers: &[(String, String)]) -> Option<StaticReply> {
    headers.iter().try_fold(reply, |reply, (name, value)| reply.header(name, value).ok())
}
