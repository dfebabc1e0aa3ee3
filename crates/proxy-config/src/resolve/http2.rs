//! Resolves the endpoints of `[grpc]`, creates the default gRPC route, and reports `[grpc]`,
//! `[http2]` and gRPC routes without effect.

use super::super::model::{Config, Grpc, Health, Http2, Listener, Route, links_to};
use doorbell::http::Method;
use doorbell_config::{Names, Places, Problem, Problems};
use std::ops::Range;

/// Resolves the endpoints of the services.
pub(super) fn resolve_grpc(grpc: &mut Grpc, endpoints: &Names<'_>) {
    endpoints.find(&mut grpc.overall);
    grpc.services.retain(|link| endpoints.find(link));
}

/// Default gRPC route, for HTTP/2 listeners without a gRPC route. The route has no guards, and
/// leaves out paths on which another route serves POST for all hosts.
pub(crate) fn default_route(listeners: &[Listener], routes: &[Route]) -> Option<Route> {
    let is_written = |position: usize| routes.iter().any(|route| route.is_on(position) && route.is_grpc());
    let speaking = (0..listeners.len()).filter(|&position| listeners[position].has_http2());
    let positions: Vec<usize> = speaking.filter(|&position| !is_written(position)).collect();
    let is_taken = |path: &str| {
        routes.iter().any(|route| {
            route.hosts.is_empty()
                && route.methods.contains(&Method::Post)
                && route.positions().any(|position| positions.contains(&position))
                && route.paths.iter().any(|other| shape(other) == shape(path))
        })
    };
    let paths = Grpc::PATHS.into_iter().filter(|path| !is_taken(path));
    let paths: Vec<_> = paths.map(|path| path.to_owned().into()).collect();
    if positions.is_empty() || paths.is_empty() {
        return None;
    }
    let is_free = |name: &String| routes.iter().all(|route| route.name != *name);
    let name = ["grpc".to_owned()].into_iter().chain((2..).map(|n| format!("grpc-{n}"))).find(is_free)?;
    let listeners = links_to(listeners, positions);
    Some(Route { name, listeners, paths, grpc: Some(true), ..Route::default() }.with_defaults())
}

/// The form of a path that the router compares: without the names of parameters.
fn shape(path: &str) -> Vec<&str> {
    let part_shape = |part| match part {
        part if str::starts_with(part, "{*") => "{*",
        part if part.starts_with('{') => "{",
        part => part,
    };
    path.split('/').map(part_shape).collect()
}

/// Position of `readyz`, which always exists.
fn readyz(health: &[Health]) -> usize {
    health.iter().position(|known| known.name == "readyz").unwrap_or(0)
}

/// Maximum number of named services: `List` returns at most a hundred services, including the one
/// without a name.
pub(super) const SERVICES_MAX: usize = 99;

/// Reports tables and routes without effect, and more services than `List` can return.
pub(super) fn lint(config: &Config, places: &Places, problems: &Problems) {
    // A table with only default values is not reported.
    let http2 = places.get("http2").filter(|_| config.http2 != Http2::default());
    let grpc = places.get("grpc").filter(|_| config.grpc != Grpc::of(readyz(&config.health)));
    let tables = [("http2", http2), ("grpc", grpc)];
    if !config.listeners.iter().any(Listener::has_http2) {
        for (name, span) in tables {
            let Some(span) = span else { continue };
            no_effect(name, span, problems);
        }
    }
    routes(config, places, problems);
    if let Some((extra, _)) = config.grpc.services.get(SERVICES_MAX) {
        let message = format!("`List` cannot return more than {SERVICES_MAX} services");
        problems.add(
            Problem::warning("limit-too-high", extra.span.clone(), message)
                .help("Check and Watch serve all of them; clients of List get RESOURCE_EXHAUSTED"),
        );
    }
}

/// Reports gRPC routes without effect: `[grpc]` is disabled, or a listener has no HTTP/2.
fn routes(config: &Config, places: &Places, problems: &Problems) {
    for route in config.routes.iter().filter(|route| route.is_grpc()) {
        let Some(place) = places.key(["route", &route.name, "grpc"]) else { continue };
        let silent = route.positions().find(|&position| !config.has_http2(position));
        let (why, help) =
            match (config.grpc.enabled, silent.and_then(|position| config.listeners.get(position))) {
                (false, _) => {
                    ("[grpc] is disabled".to_owned(), "remove `enabled = false` from [grpc]".to_owned())
                }
                (true, Some(listener)) => (
                    format!("listener `{}` does not speak HTTP/2", listener.name),
                    format!("add `http2 = true` to [listener.{}]", listener.name),
                ),
                (true, None) => continue,
            };
        let message = format!("route `{}` has no effect: {why}", route.name);
        problems.add(Problem::warning("no-effect", place, message).help(help));
    }
}

fn no_effect(name: &str, span: Range<usize>, problems: &Problems) {
    let message = format!("[{name}] has no effect: no listener speaks HTTP/2");
    problems
        .add(Problem::warning("no-effect", span, message).help("add `http2 = true` to a [listener.NAME]"));
}
