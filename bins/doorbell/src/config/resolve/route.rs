//! `[route.NAME]` resolved: on which listeners, which requests, and the parts that other files see to.
//!
//! Does not know about: TOML, how a route is served.

use super::super::model::{Action, Grpc, Health, Listener, Route, Tls};
use super::super::written;
use super::action::default_methods;
use crate::http::router;
use doorbell_config::{At, Names, Problem, Problems, did_you_mean, quoted};
use std::ops::Range;

/// Bytes of a request line, whatever a listener says (`doorbell-http`'s default).
const LINE_BYTES_MAX: u32 = 8 << 10;

/// What stands around the path in the shortest request line.
const LINE_REST_LEN: usize = "GET  HTTP/1.1".len();

/// What routes may name.
pub(super) struct Resolver<'a> {
    pub(super) listeners: &'a [Listener],
    pub(super) tls: &'a [Tls],
    pub(super) auth: Names<'a>,
    pub(super) limits: Names<'a>,
    pub(super) endpoints: &'a Names<'a>,
    pub(super) health: &'a [Health],
    pub(super) file: &'a written::File,
    pub(super) problems: &'a Problems,
}

impl Resolver<'_> {
    pub(super) fn routes(&self) -> Vec<Route> {
        let routes: Vec<Route> = self.file.routes.iter().filter_map(|route| self.route(route)).collect();
        self.find_conflicts(&routes);
        routes
    }

    /// Nothing when the route has no action, or none that is right.
    fn route(&self, written: &written::Route) -> Option<Route> {
        let listeners = self.listeners_of(written);
        let hosts = self.hosts_of(written);
        let paths = self.paths_of(written);
        self.check_lengths(written, &listeners);
        self.check_headers(&written.headers);
        let action = self.action_of(written)?;
        let methods = written.methods.clone().unwrap_or_else(|| default_methods(&action));
        if let (Action::Redirect(to), Some(redirect)) = (&action, &written.redirect) {
            self.check_redirect(written, redirect, to);
        }
        let reply_headers = written.reply.iter().flat_map(|reply| &reply.headers);
        let headers = written.headers.iter().chain(reply_headers);
        let headers = headers.map(|(name, value)| (name.value.clone(), value.value.clone()));
        Some(Route {
            name: written.name.value.clone(),
            guard: self.guard(written, &listeners),
            listeners,
            hosts,
            paths,
            methods,
            headers: headers.collect(),
            action,
        })
    }

    fn listeners_of(&self, written: &written::Route) -> Vec<usize> {
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
        if given.value.is_empty() {
            let problem = Problem::error("empty-list", given.span.clone(), "a list of listeners without one");
            self.problems.add(problem.help(format!("name one or several of {}", quoted(&names))));
        }
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
            if !self.listeners[position].is_http() {
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

    fn hosts_of(&self, written: &written::Route) -> Vec<String> {
        let Some(given) = &written.hosts else { return Vec::new() };
        if given.value.is_empty() {
            let problem = Problem::error("empty-list", given.span.clone(), "a list of hosts without a host");
            self.problems.add(problem.help("leave `hosts` out for any host"));
        }
        let mut hosts = Vec::new();
        for At { value: text, span } in &given.value {
            match router::host::canonical_pattern(text) {
                Some(host) => hosts.push(host),
                None => self.bad_host(text, span.clone()),
            }
        }
        hosts
    }

    pub(super) fn bad_host(&self, text: &str, span: Range<usize>) {
        let help = if text.contains('*') {
            "write \"*.example.com\" for every name below it, or list the hosts"
        } else if text.contains("://") || text.contains('/') {
            "write only the name, without scheme and path"
        } else if text.contains(':') && !text.starts_with('[') {
            "write the name without a port; a route takes the host on any port"
        } else {
            "write a name such as \"example.com\" or an address such as \"192.0.2.1\" or \"[2001:db8::1]\""
        };
        self.problems.add(Problem::error("bad-host", span, format!("{text:?} is not a host")).help(help));
    }

    fn paths_of(&self, written: &written::Route) -> Vec<String> {
        if !written.has_path {
            // A redirect of everything is what most redirects are.
            if written.redirect.is_some() {
                return vec!["/{*rest}".into()];
            }
            if written.grpc.is_some() {
                return Grpc::PATHS.map(String::from).into();
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

    /// A path that no request can hold is one that nothing can reach.
    fn check_lengths(&self, written: &written::Route, listeners: &[usize]) {
        let line_max = |position: &usize| {
            let listener = self.listeners.get(*position).filter(|listener| listener.is_http())?;
            // In HTTP/2 there is no request line, only fields.
            let cap = if listener.http2 { u32::MAX } else { LINE_BYTES_MAX };
            Some(listener.limits.header_bytes.min(cap))
        };
        let Some(line_max) = listeners.iter().filter_map(line_max).max() else { return };
        let room = (line_max as usize).saturating_sub(LINE_REST_LEN);
        for path in written.paths.iter().flat_map(|paths| &paths.value) {
            if shortest(&path.value) > room {
                let message =
                    format!("no request can hold this path: a request line has at most {line_max} bytes");
                self.problems.add(
                    Problem::error("unreachable-path", path.span.clone(), message)
                        .help("shorten it, or raise `limits.header_bytes` if that is below 8KiB"),
                );
            }
        }
    }
}

/// The length of the shortest path that a pattern takes: a parameter is at least one byte.
fn shortest(pattern: &str) -> usize {
    pattern.split('/').map(|part| if part.starts_with('{') { 2 } else { part.len() + 1 }).sum::<usize>() - 1
}
