//! `[grpc]` with its endpoints found, and what of it and of `[http2]` has no effect.
//!
//! Does not know about: listeners, beyond whether any speaks HTTP/2.

use super::super::model::{Action, Config, Grpc, Guard, Health, Http2, Listener, Route};
use super::super::written;
use crate::http::Method;
use doorbell_config::{Names, Problem, Problems};
use std::ops::Range;

/// With its endpoints found.
pub(super) fn resolve_grpc(written: Option<&Grpc>, endpoints: &Names<'_>) -> Grpc {
    let mut grpc = written.cloned().unwrap_or_default();
    endpoints.find(&mut grpc.overall);
    grpc.services.retain(|link| endpoints.find(link));
    grpc
}

/// The route of gRPC health on listeners where none is written: one that lets everybody in. What another route takes stays with that one.
pub(super) fn own_route(listeners: &[Listener], routes: &[Route]) -> Option<Route> {
    let is_written = |position: usize| {
        let mut here = routes.iter().filter(|route| route.listeners.contains(&position));
        here.any(|route| route.action == Action::Grpc)
    };
    let speaking = (0..listeners.len()).filter(|&position| speaks_http2(&listeners[position]));
    let listeners: Vec<usize> = speaking.filter(|&position| !is_written(position)).collect();
    let is_taken = |path: &str| {
        routes.iter().any(|route| {
            route.hosts.is_empty()
                && route.methods.contains(&Method::Post)
                && route.listeners.iter().any(|position| listeners.contains(position))
                && route.paths.iter().any(|other| shape(other) == shape(path))
        })
    };
    let paths: Vec<String> =
        Grpc::PATHS.into_iter().filter(|path| !is_taken(path)).map(String::from).collect();
    if listeners.is_empty() || paths.is_empty() {
        return None;
    }
    let is_free = |name: &String| routes.iter().all(|route| route.name != *name);
    let name = ["grpc".to_owned()].into_iter().chain((2..).map(|n| format!("grpc-{n}"))).find(is_free)?;
    Some(Route {
        name,
        listeners,
        hosts: Vec::new(),
        paths,
        methods: super::default_methods(&Action::Grpc),
        headers: Vec::new(),
        guard: Guard::default(),
        action: Action::Grpc,
    })
}

/// What a router tells paths apart by: the names of parameters are not part of it.
fn shape(path: &str) -> Vec<&str> {
    let part_shape = |part| match part {
        part if str::starts_with(part, "{*") => "{*",
        part if part.starts_with('{') => "{",
        part => part,
    };
    path.split('/').map(part_shape).collect()
}

fn speaks_http2(listener: &Listener) -> bool {
    listener.is_http() && listener.http2
}

/// It is always there.
fn readyz(health: &[Health]) -> usize {
    health.iter().position(|known| known.name == "readyz").unwrap_or(0)
}

/// A list of services has a hundred entries at most, the overall one among them.
pub(super) const SERVICES_MAX: usize = 99;

/// What is written and has no effect, or more than can be listed.
pub(super) fn lint(file: &written::File, config: &Config, problems: &Problems) {
    // What only says the default has the effect that it would have anyway.
    let http2 = file.places.get("http2").filter(|_| config.http2 != Http2::default());
    let grpc = file.places.get("grpc").filter(|_| config.grpc != Grpc::of(readyz(&config.health)));
    let tables = [("http2", http2), ("grpc", grpc)];
    if !config.listeners.iter().any(speaks_http2) {
        for (name, span) in tables {
            let Some(span) = span else { continue };
            no_effect(name, span, problems);
        }
    }
    routes(file, config, problems);
    let Some(grpc) = &file.grpc else { return };
    if let Some((extra, _)) = grpc.services.get(SERVICES_MAX) {
        let message = format!("more than {SERVICES_MAX} services cannot be listed by `List`");
        problems.add(
            Problem::warning("limit-too-high", extra.span.clone(), message)
                .help("Check and Watch answer for all of them; clients of List get RESOURCE_EXHAUSTED"),
        );
    }
}

/// Routes of gRPC where nobody can ask by gRPC.
fn routes(file: &written::File, config: &Config, problems: &Problems) {
    for written in &file.routes {
        let Some(grpc) = &written.grpc else { continue };
        let Some(route) = config.routes.iter().find(|route| route.name == written.name.value) else {
            continue;
        };
        let silent = route.listeners.iter().find(|&&position| !config.has_http2(position));
        let (why, help) =
            match (config.grpc.enabled, silent.and_then(|&position| config.listeners.get(position))) {
                (false, _) => {
                    ("[grpc] is turned off".to_owned(), "remove `enabled = false` from [grpc]".to_owned())
                }
                (true, Some(listener)) => (
                    format!("listener `{}` does not speak HTTP/2", listener.name),
                    format!("add `http2 = true` to [listener.{}]", listener.name),
                ),
                (true, None) => continue,
            };
        let message = format!("route `{}` has no effect: {why}", route.name);
        problems.add(Problem::warning("no-effect", grpc.span.clone(), message).help(help));
    }
}

fn no_effect(name: &str, span: Range<usize>, problems: &Problems) {
    let message = format!("[{name}] has no effect: no listener speaks HTTP/2");
    problems
        .add(Problem::warning("no-effect", span, message).help("add `http2 = true` to a [listener.NAME]"));
}
