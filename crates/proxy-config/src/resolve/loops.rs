//! Redirect loops.
//!
//! Does not know about: redirects on listeners with `forwarded`.

use super::super::bind::Bind;
use super::super::model::{Action, Config, Forwarded, Listener, Redirect, Route};
use doorbell::http::Method;
use doorbell::http::redirect::Scheme;
use doorbell_config::{At, Places, Problem, Problems};

/// Refuses redirects that lead to themselves. With `forwarded`, the scheme depends on the request;
/// a loop then gets 404 at run time.
pub(super) fn refuse(config: &Config, places: &Places, problems: &Problems) {
    for route in &config.routes {
        let (Action::Redirect(to), Some(place)) =
            (route.action(), places.key(["route", &route.name, "redirect"]))
        else {
            continue;
        };
        // A client follows 301, 302 and 303 with a GET, which may match another route.
        let keeps_method = matches!(to.status.code(), 307 | 308);
        if !keeps_method && !route.methods.contains(&Method::Get) {
            continue;
        }
        let reached = |position: &usize| {
            let listener = config.listeners.get(*position);
            listener
                .is_some_and(|listener| matches_listener(listener, config.tls_of(*position).is_some(), to))
        };
        let listener = route.positions().find(reached).and_then(|position| config.listeners.get(position));
        let Some(listener) = listener.filter(|_| is_loop(route, to, config)) else { continue };
        let message = format!("redirect `{}` leads to itself on listener `{}`", route.name, listener.name);
        problems.add(
            Problem::error("redirect-loop", place, message)
                .label("the location has the scheme, host, port and path of the request")
                .help(
                    "set another `path` or `host`, or list the plain listeners only, `listener = \"NAME\"`",
                ),
        );
    }
}

/// Whether the location has the scheme and port of the listener.
fn matches_listener(listener: &Listener, is_tls: bool, to: &Redirect) -> bool {
    if !listener.is_http() {
        return false;
    }
    let scheme = if is_tls { Scheme::Https } else { Scheme::Http };
    let port = to.port.unwrap_or_else(|| to.scheme.default_port());
    let has_port = |bind: &Bind| matches!(bind, Bind::Tcp(addr) if addr.port() == port);
    listener.forwarded == Forwarded::Off
        && scheme == to.scheme
        && listener.binds.iter().any(|bind| has_port(bind))
}

/// Whether a request for the location would match this route by host and path.
fn is_loop(route: &Route, to: &Redirect, config: &Config) -> bool {
    let is = |host: &str, other: &str| host.eq_ignore_ascii_case(other);
    let is_host = match &to.host {
        None => true,
        Some(host) if route.hosts.is_empty() => {
            // Requests for that host may match another route.
            let mut others = config.routes.iter().filter(|other| other.name != route.name);
            !others.any(|other| other.hosts.iter().any(|other| is(host, other) || other.starts_with("*.")))
        }
        Some(host) => route.hosts.iter().any(|own| is(host, own)),
    };
    let is_path =
        |path: &At<String>| to.path == "{path}" || *path.replace("{*", "{") == to.path.replace("{*", "{");
    is_host && route.paths.iter().any(is_path)
}
