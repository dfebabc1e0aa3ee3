//! Routes checked against listeners, health endpoints and each other.
//!
//! Does not know about: TOML, how a route is served.

use super::model::{Action, Health, Listener, Protocol, RedirectTo, Reply, Route};
use super::problem::{Problem, Problems};
use super::section::{At, did_you_mean, quoted};
use super::{written, written_route};
use crate::http::Method;
use crate::http::redirect::{Redirect, RedirectBuildError};
use crate::http::router::{self, MethodSet, RouteError, Router};
use std::ops::Range;

/// What routes may name.
pub(crate) struct Resolver<'a> {
    pub(crate) listeners: &'a [Listener],
    pub(crate) health: &'a [Health],
    pub(crate) file: &'a written::File,
    pub(crate) problems: &'a Problems,
}

/// Fields the connection writes by itself, so that they cannot contradict what is sent.
const OWN_FIELDS: [&str; 8] = [
    "connection",
    "content-length",
    "content-type",
    "date",
    "keep-alive",
    "location",
    "transfer-encoding",
    "upgrade",
];

impl Resolver<'_> {
    pub(crate) fn routes(&self) -> Vec<Route> {
        let routes: Vec<_> = self.file.routes.iter().map(|route| self.route(route)).collect();
        self.find_conflicts(&routes);
        routes.into_iter().flatten().collect()
    }

    /// Nothing when the route has no path or no action, or none that is right.
    fn route(&self, written: &written_route::Route) -> Option<Route> {
        let listeners = self.listeners_of(written);
        let hosts = self.hosts_of(written);
        let paths = self.paths_of(written);
        self.check_headers(&written.headers);
        let action = self.action_of(written);
        let action = action?;
        let methods = written.methods.clone().unwrap_or_else(|| default_methods(&action));
        if let (Action::Redirect(to), Some(redirect)) = (&action, &written.redirect) {
            self.check_redirect(written, redirect, to);
        }
        let reply_headers = written.reply.iter().flat_map(|reply| &reply.headers);
        let headers = written.headers.iter().chain(reply_headers);
        let headers = headers.map(|(name, value)| (name.value.clone(), value.value.clone()));
        let name = written.name.value.clone();
        Some(Route { name, listeners, hosts, paths, methods, headers: headers.collect(), action })
    }

    fn listeners_of(&self, written: &written_route::Route) -> Vec<usize> {
        let names: Vec<&str> = self.listeners.iter().map(|listener| &*listener.name).collect();
        let Some(given) = &written.listeners else {
            if names.len() > 1 {
                let message = format!("route `{}` does not say on which listener it is", written.name.value);
                let problem = Problem::error("missing-key", written.header.clone(), message);
                self.problems
                    .add(problem.help(format!("add `listener = ` with one or a list of {}", quoted(&names))));
            }
            return if names.len() == 1 { vec![0] } else { Vec::new() };
        };
        let mut positions = Vec::new();
        for At { value: name, span } in &given.value {
            let Some(position) = names.iter().position(|known| known == name) else {
                let problem = Problem::error(
                    "unknown-listener",
                    span.clone(),
                    format!("there is no listener `{name}`"),
                );
                let help =
                    did_you_mean(name, &names).unwrap_or_else(|| format!("listeners: {}", quoted(&names)));
                self.problems.add(problem.help(help));
                continue;
            };
            if let Protocol::Raw { .. } = self.listeners[position].protocol {
                let message = format!("listener `{name}` is raw and cannot have routes");
                self.problems.add(
                    Problem::error("route-on-raw", span.clone(), message).help("name an http1 listener"),
                );
            } else if !positions.contains(&position) {
                positions.push(position);
            }
        }
        positions
    }

    fn hosts_of(&self, written: &written_route::Route) -> Vec<String> {
        let Some(given) = &written.hosts else { return Vec::new() };
        if given.value.is_empty() {
            let problem = Problem::error("empty-list", given.span.clone(), "a list of hosts without a host");
            self.problems.add(problem.help("leave `hosts` out for any host"));
        }
        let mut hosts = Vec::new();
        for At { value: text, span } in &given.value {
            match router::host::canonical(text) {
                Some(host) => hosts.push(host),
                None => self.bad_host(text, span.clone()),
            }
        }
        hosts
    }

    fn bad_host(&self, text: &str, span: Range<usize>) {
        let help = if text.contains('*') {
            "wildcards are not supported; list every host"
        } else if text.contains("://") || text.contains('/') {
            "write only the name, without scheme and path"
        } else if text.contains(':') && !text.starts_with('[') {
            "write the name without a port; a route takes the host on any port"
        } else {
            "write a name such as \"example.com\" or an address such as \"192.0.2.1\" or \"[2001:db8::1]\""
        };
        self.problems.add(Problem::error("bad-host", span, format!("{text:?} is not a host")).help(help));
    }

    fn paths_of(&self, written: &written_route::Route) -> Vec<String> {
        if !written.has_path {
            // A redirect of everything is what most redirects are.
            if written.redirect.is_some() {
                return vec!["/{*rest}".into()];
            }
            let message = format!("route `{}` has no path", written.name.value);
            let problem = Problem::error("missing-key", written.header.clone(), message);
            self.problems.add(problem.help("add `path = \"/...\"`, or `path = \"/{*rest}\"` for everything"));
        }
        let Some(given) = &written.paths else { return Vec::new() };
        if given.value.is_empty() {
            let problem = Problem::error("empty-list", given.span.clone(), "a list of paths without a path");
            self.problems.add(problem.help("write `path = \"/{*rest}\"` for everything"));
        }
        let mut paths = Vec::new();
        for At { value: text, span } in &given.value {
            match router::param_names(text) {
                Ok(_) => paths.push(text.clone()),
                Err(cause) => self.problems.add(
                    Problem::error("bad-path", span.clone(), format!("{text:?} is not a path: {cause}"))
                        .help("write \"/static\", \"/a/{name}/b\" or \"/a/{*rest}\""),
                ),
            }
        }
        paths
    }

    fn action_of(&self, written: &written_route::Route) -> Option<Action> {
        let name = &written.name.value;
        match written.actions.as_slice() {
            [_] => {}
            [] => {
                let message = format!("route `{name}` does not say what it answers");
                self.problems.add(
                    Problem::error("missing-key", written.header.clone(), message)
                        .help("add one of `health = \"readyz\"`, `redirect = { .. }`, `reply = { .. }`"),
                );
            }
            [(first, first_span), (second, span), ..] => {
                let message = format!("route `{name}` has both `{first}` and `{second}`");
                self.problems.add(
                    Problem::error("two-actions", span.clone(), message)
                        .also(first_span.clone(), "first here")
                        .help("a route answers in one way; make two routes"),
                );
            }
        }
        if let Some(health) = &written.health {
            return self.health_of(health).map(Action::Health);
        }
        if let Some(redirect) = &written.redirect {
            let default = RedirectTo::default();
            return Some(Action::Redirect(RedirectTo {
                scheme: redirect.scheme.as_ref().map_or(default.scheme, |at| at.value),
                host: redirect.host.as_ref().map(|at| at.value.clone()),
                port: redirect.port.as_ref().and_then(|at| u16::try_from(at.value).ok()),
                path: redirect.path.as_ref().map_or(default.path, |at| at.value.clone()),
                status: redirect.status.unwrap_or(default.status),
                keep_query: redirect.keep_query.as_ref().map_or(default.keep_query, |at| at.value),
            }));
        }
        written.reply.as_ref().map(|reply| self.reply_of(reply))
    }

    fn health_of(&self, name: &At<String>) -> Option<usize> {
        let names: Vec<&str> = self.health.iter().map(|health| &*health.name).collect();
        let position = names.iter().position(|known| *known == name.value);
        if position.is_none() {
            let message = format!("there is no health endpoint `{}`", name.value);
            let help = did_you_mean(&name.value, &names).unwrap_or_else(|| {
                format!("add a table [health.{}], or name one of {}", name.value, quoted(&names))
            });
            self.problems.add(Problem::error("unknown-health", name.span.clone(), message).help(help));
        }
        position
    }

    fn reply_of(&self, written: &written_route::Reply) -> Action {
        let default = Reply::default();
        let status =
            written.status.as_ref().and_then(|at| u16::try_from(at.value).ok()).unwrap_or(default.status);
        if let (204 | 205 | 304, Some(body)) = (status, &written.body)
            && !body.value.is_empty()
        {
            let message = format!("a reply with status {status} has no body");
            let problem = Problem::error("contradiction", body.span.clone(), message);
            self.problems.add(problem.help("remove `body`, or choose another status"));
        }
        if let Some(content_type) = &written.content_type {
            self.check_value("content_type", content_type);
        }
        self.check_headers(&written.headers);
        Action::Reply(Reply {
            status,
            body: written.body.as_ref().map_or(default.body, |at| at.value.clone()),
            content_type: written.content_type.as_ref().map_or(default.content_type, |at| at.value.clone()),
        })
    }

    fn check_redirect(
        &self,
        route: &written_route::Route,
        written: &written_route::Redirect,
        to: &RedirectTo,
    ) {
        if route.hosts.is_none() && !written.has_host {
            let message = format!("redirect `{}` would trust any Host a client sends", route.name.value);
            self.problems.add(
                Problem::error("redirect-without-hosts", written.span.clone(), message)
                    .label("no `hosts` on the route and no `host` here")
                    .help("list the hosts that are yours, `hosts = [\"example.com\"]`, or send all to one, `redirect = { host = \"example.com\" }`"),
            );
            return;
        }
        if let Some(host) = &written.host
            && router::host::canonical(&host.value).is_none()
        {
            self.bad_host(&host.value, host.span.clone());
        }
        let path_span = written.path.as_ref().map_or_else(|| written.span.clone(), |at| at.span.clone());
        // Hosts were checked one by one; with a good one in their place the rest is checked too.
        match build_redirect(&RedirectTo { host: Some("localhost".into()), ..to.clone() }, &[]) {
            Ok(redirect) => {
                for path in route.paths.iter().flat_map(|paths| &paths.value) {
                    let known = router::param_names(&path.value).unwrap_or_default();
                    for name in redirect.param_names().filter(|name| !known.iter().any(|known| known == name)) {
                        let message = format!("path {:?} has no parameter `{name}`", path.value);
                        self.problems.add(
                            Problem::error("unknown-parameter", path_span.clone(), message)
                                .also(path.span.clone(), "of this path")
                                .help("a template takes `{path}`, the whole path, and the parameters of the route"),
                        );
                    }
                }
            }
            Err(RedirectBuildError::BadPath(path)) => self.problems.add(
                Problem::error("bad-path", path_span, format!("{path:?} is not a path template"))
                    .help("write \"{path}\", \"/new{path}\" or \"/new/{name}\"; it begins with `/` and holds no `?` or `#`"),
            ),
            // The host is ours, and port 0 does not pass the range.
            Err(RedirectBuildError::BadHost(_) | RedirectBuildError::NoHost | RedirectBuildError::ZeroPort) => {}
        }
    }

    fn check_headers(&self, headers: &[(At<String>, At<String>)]) {
        for (name, value) in headers {
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let problem = |code, message| Problem::error(code, name.span.clone(), message);
            if name.value.is_empty() || !name.value.bytes().all(token) {
                let message = format!("{:?} is not the name of a header field", name.value);
                self.problems.add(problem("bad-header", message).help("letters, digits and `-`"));
            } else if OWN_FIELDS.contains(&&*name.value.to_ascii_lowercase()) {
                let help = match &*name.value.to_ascii_lowercase() {
                    "content-type" => "set `content_type` of the reply",
                    _ => "remove it; doorbell writes this field itself",
                };
                let message = format!("header field `{}` cannot be set", name.value);
                self.problems.add(problem("bad-header", message).help(help));
            }
            self.check_value(&name.value, value);
        }
    }

    fn check_value(&self, name: &str, value: &At<String>) {
        let allowed = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        let text = value.value.as_bytes();
        if !text.iter().copied().all(allowed) || text.trim_ascii() != text {
            let message = format!("the value of `{name}` cannot be sent");
            self.problems.add(
                Problem::error("bad-header", value.span.clone(), message)
                    .help("no line breaks or other control characters, no space at either end"),
            );
        }
    }

    /// Builds the router of each listener only to see whether it can be built.
    fn find_conflicts(&self, routes: &[Option<Route>]) {
        let mut reported: Vec<(String, String)> = Vec::new();
        for position in 0..self.listeners.len() {
            let mut builder = Router::builder();
            let here = routes.iter().flatten().filter(|route| route.listeners.contains(&position));
            for (route, path) in here.flat_map(|route| route.paths.iter().map(move |path| (route, path))) {
                builder.add(router::Route {
                    name: route.name.clone(),
                    hosts: route.hosts.clone(),
                    path: path.clone(),
                    methods: MethodSet::of(&route.methods),
                    value: (),
                });
            }
            for error in builder.build().err().unwrap_or_default() {
                let (code, conflict, verb) = match error {
                    RouteError::Duplicate(conflict) => ("duplicate-route", conflict, "answers the same as"),
                    RouteError::Shadowed(conflict) => ("shadowed-route", conflict, "is partly hidden by"),
                    // A wrong host or path never gets here, and an empty method list was reported.
                    RouteError::BadHost { .. }
                    | RouteError::BadPath { .. }
                    | RouteError::NoMethods { .. } => {
                        continue;
                    }
                };
                let pair = (conflict.first.clone(), conflict.second.clone());
                if reported.contains(&pair) {
                    continue;
                }
                let message = match conflict.first == conflict.second {
                    true => format!("route `{}` has the same path twice: {conflict}", conflict.first),
                    false => {
                        format!("route `{}` {verb} route `{}`: {conflict}", conflict.second, conflict.first)
                    }
                };
                let first = self.place_of_path(&conflict.first, &conflict.first_path, false);
                let second = self.place_of_path(&conflict.second, &conflict.second_path, true);
                self.problems.add(
                    Problem::error(code, second, message)
                        .also(first, "first here")
                        .help("give one of them another path, other hosts or other methods"),
                );
                reported.push(pair);
            }
        }
    }

    /// Where a route's path is written; the last place of several equal ones if asked.
    fn place_of_path(&self, name: &str, path: &str, last: bool) -> Range<usize> {
        let route = self.file.routes.iter().find(|route| route.name.value == name);
        let paths = route.iter().filter_map(|route| route.paths.as_ref()).flat_map(|paths| &paths.value);
        let mut places = paths.filter(|known| known.value == path).map(|known| known.span.clone());
        let place = if last { places.next_back() } else { places.next() };
        place.or_else(|| route.map(|route| route.header.clone())).unwrap_or(0..0)
    }
}

/// The methods of a route that does not list any. Probers use all three of a health route; a redirect keeps whatever
/// method it gets.
pub(crate) fn default_methods(action: &Action) -> Vec<Method> {
    match action {
        Action::Health(_) => vec![Method::Get, Method::Head, Method::Options],
        Action::Redirect(_) => MethodSet::ANY.iter().collect(),
        Action::Reply(_) => vec![Method::Get, Method::Head],
    }
}

/// The redirect of a route; its hosts are the route's.
pub(crate) fn build_redirect(to: &RedirectTo, hosts: &[String]) -> Result<Redirect, RedirectBuildError> {
    let mut builder = Redirect::to(to.scheme).path(&*to.path).status(to.status).keep_query(to.keep_query);
    if let Some(port) = to.port {
        builder = builder.port(port);
    }
    match &to.host {
        // The router has let only our hosts in, and they all go to this one.
        Some(host) => builder.canonical_host(host).build(),
        None => hosts.iter().fold(builder, |builder, host| builder.host(host)).build(),
    }
}
