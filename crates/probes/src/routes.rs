//! The health routes of a program: maps a path to the endpoint that replies. All protocols and
//! frameworks use the same routes.

use crate::registry::Registry;
use crate::replies::ReplyOptions;
use crate::route::HealthHandler;
use doorbell_http::forwarded::Networks;
use doorbell_http::{Method, Replied, Request, Responder, Service, StaticReply, Status};

/// Methods of all health routes.
const ALLOW: &str = "GET, HEAD, OPTIONS";

/// Health routes by path. Each check of an endpoint also has a path below that of the endpoint:
/// `/readyz/db`.
///
/// As a [`Service`] it replies to all other paths with a 404.
#[derive(Debug)]
pub struct ProbeRoutes {
    routes: Vec<(Box<str>, HealthHandler)>,
    not_found: StaticReply,
}

/// The target of a probe.
#[derive(Clone, Copy, Debug)]
pub struct Probed<'r> {
    handler: &'r HealthHandler,
    check: Option<&'r str>,
    not_found: &'r StaticReply,
}

impl Default for ProbeRoutes {
    fn default() -> Self {
        Self { routes: Vec::new(), not_found: StaticReply::text(Status::NOT_FOUND, "not found\n") }
    }
}

impl ProbeRoutes {
    /// Adds a route for the endpoint that `options` selects. Its methods are GET, HEAD and OPTIONS,
    /// and each check of the endpoint has a path below `path`. If a path is added twice, the first
    /// route is used.
    ///
    /// Returns false if there is no such endpoint, or a header field cannot be sent.
    pub fn add(&mut self, registry: &Registry, path: &str, options: ReplyOptions) -> bool {
        let options = ReplyOptions { allow: ALLOW.to_owned(), has_singles: true, ..options };
        let Some(cache) = registry.cache(options) else { return false };
        self.routes.push((path.into(), HealthHandler::new(cache, false, Networks::default())));
        true
    }

    /// The paths, in the order in which they were added.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|(path, _)| &**path)
    }

    /// The target of a path, if it belongs to a route.
    #[inline]
    #[must_use]
    pub fn find<'r>(&'r self, path: &'r str) -> Option<Probed<'r>> {
        self.routes.iter().find_map(|(known, handler)| {
            let rest = path.strip_prefix(&**known)?;
            let check = if rest.is_empty() { None } else { Some(rest.strip_prefix('/')?) };
            Some(Probed { handler, check, not_found: &self.not_found })
        })
    }
}

impl Probed<'_> {
    /// Replies to a probe; methods other than GET, HEAD and OPTIONS get a 405.
    #[inline]
    pub fn send<'a>(self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if !is_allowed(request.method()) {
            return reply.method_not_allowed(ALLOW.as_bytes());
        }
        match self.check {
            None => self.handler.send(|| false, request, reply),
            Some(check) => {
                self.handler.send_check(check.as_bytes(), || false, request, reply, self.not_found)
            }
        }
    }
}

/// Whether health routes reply to this method with a state.
const fn is_allowed(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head | Method::Options)
}

impl Service for ProbeRoutes {
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match self.find(request.path()) {
            Some(probed) => probed.send(request, reply),
            None => reply.send(&self.not_found),
        }
    }

    fn repeats(&self, request: &Request<'_>, count: u32) -> bool {
        match self.find(request.path()) {
            Some(Probed { handler, check: None, .. }) if is_allowed(request.method()) => {
                handler.repeats(request, count)
            }
            Some(_) => false,
            None => true,
        }
    }
}
