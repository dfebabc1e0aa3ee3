//! `[grpc]` resolved, and what of it and of `[http2]` has no effect: health endpoints by position instead of by name.
//!
//! Does not know about: listeners, beyond whether any speaks HTTP/2.

use super::super::model::{Action, Config, Grpc, Guard, Health, Http2, Listener, Protocol, Route};
use super::super::written;
use super::or;
use crate::http::Method;
use doorbell_config::{At, Names, Problem, Problems};
use std::ops::Range;

pub(super) fn resolve_grpc(
    written: Option<&written::Grpc>,
    endpoints: &Names<'_>,
    problems: &Problems,
) -> Grpc {
    let default = Grpc::of(endpoints.known.iter().position(|known| *known == "readyz").unwrap_or(0));
    let Some(written) = written else { return default };
    let position = |name: &At<String>| endpoints.position(name);
    let services = written.services.iter().filter_map(|(service, endpoint)| {
        check_service(service, problems);
        Some((service.value.clone(), position(endpoint)?))
    });
    Grpc {
        enabled: or(&written.enabled, default.enabled),
        overall: written.overall.as_ref().and_then(position).unwrap_or(default.overall),
        services: services.collect(),
        max_watches: or(&written.max_watches, default.max_watches),
        watches_per_connection: or(&written.watches_per_connection, default.watches_per_connection),
        alb: or(&written.alb, default.alb),
    }
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

const fn speaks_http2(listener: &Listener) -> bool {
    matches!(&listener.protocol, Protocol::Http1(http1) if http1.http2)
}

/// It is always there.
fn readyz(health: &[Health]) -> usize {
    health.iter().position(|known| known.name == "readyz").unwrap_or(0)
}

/// A list of services has a hundred entries at most, the overall one among them.
pub(super) const SERVICES_MAX: usize = 99;

/// As long as a name in a request may be: its message is 4 KiB at most.
const SERVICE_LEN_MAX: usize = 1024;

fn check_service(service: &At<String>, problems: &Problems) {
    let name = &service.value;
    if name.is_empty() {
        problems.add(
            Problem::error("bad-name", service.span.clone(), "the service without a name is the overall one")
                .help("write `overall = \"readyz\"` in [grpc]"),
        );
    } else if name.len() > SERVICE_LEN_MAX {
        let message = format!("a service has a name of {} bytes", name.len());
        problems.add(
            Problem::error("bad-name", service.span.clone(), message)
                .help(format!("at most {SERVICE_LEN_MAX} bytes")),
        );
    }
}

/// What is written and has no effect, or more than can be listed.
pub(super) fn lint(file: &written::File, config: &Config, problems: &Problems) {
    // What only says the default has the effect that it would have anyway.
    let http2 = file.places.get("http2").filter(|_| config.http2 != Http2::default());
    let grpc = file.grpc.as_ref().filter(|_| config.grpc != Grpc::of(readyz(&config.health)));
    let tables = [("http2", http2), ("grpc", grpc.map(|table| table.span.clone()))];
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
