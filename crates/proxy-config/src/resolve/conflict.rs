//! Conflicts between routes: hidden routes, and redirects of ACME challenges.

use super::super::model::{Action, Route};
use doorbell::http::Method;
use doorbell::http::router::{self, Lookup, MethodSet, RouteError, Router};
use doorbell_config::{At, Places, Problem, Problems};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Path of ACME challenges (RFC 8555 8.3).
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// The routes of a file, and the places of its keys.
struct Conflicts<'a> {
    routes: &'a [Route],
    by_name: HashMap<&'a str, &'a Route>,
    places: &'a Places,
    problems: &'a Problems,
}

/// Reports, for each listener, redirects of ACME challenges, and routes that hide other routes.
pub(super) fn find(routes: &[Route], listeners: usize, places: &Places, problems: &Problems) {
    let by_name = routes.iter().map(|route| (route.name.as_str(), route)).collect();
    Conflicts { routes, by_name, places, problems }.find(listeners);
}

impl Conflicts<'_> {
    /// Builds a router for each listener, only to find conflicts.
    fn find(&self, listeners: usize) {
        let mut reported: HashSet<(String, String)> = HashSet::new();
        for position in 0..listeners {
            let mut builder = Router::builder();
            let here = self.routes.iter().enumerate();
            let here = here.filter(|(_, route)| route.has_action() && route.is_on(position));
            for (index, route, path) in
                here.flat_map(|(index, route)| route.paths.iter().map(move |path| (index, route, path)))
            {
                builder.add(router::Route {
                    name: route.name.clone(),
                    hosts: route.host_names(),
                    path: path.value.clone(),
                    methods: MethodSet::of(&route.methods),
                    value: index,
                });
            }
            let errors = match builder.build() {
                Ok(router) => {
                    self.find_redirected_challenges(position, &router);
                    continue;
                }
                Err(errors) => errors,
            };
            for error in errors {
                let (code, conflict, verb) = match error {
                    RouteError::Duplicate(conflict) => {
                        ("duplicate-route", conflict, "serves the same requests as")
                    }
                    RouteError::Shadowed(conflict) => ("shadowed-route", conflict, "is partly hidden by"),
                    // Invalid hosts and paths, and empty method lists, are already reported.
                    _ => continue,
                };
                if !reported.insert((conflict.first.clone(), conflict.second.clone())) {
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
            }
        }
    }

    /// Position of a route's path; with `last`, the last of several equal paths.
    fn place_of_path(&self, name: &str, path: &str, last: bool) -> Range<usize> {
        let paths = self.by_name.get(name).into_iter().flat_map(|route| &route.paths);
        let mut places = paths
            .filter(|known| known.value == path && !known.span.is_empty())
            .map(|known| known.span.clone());
        let place = if last { places.next_back() } else { places.next() };
        place.or_else(|| self.places.get(&format!("route.{name}"))).unwrap_or_default()
    }

    /// Reports redirects that match the challenge requests of a `files` route: the next renewal of
    /// the certificate would fail.
    fn find_redirected_challenges(&self, listener: usize, router: &Router<usize>) {
        let routes = self.routes;
        let here = |route: &&Route| route.has_action() && route.is_on(listener);
        let all_hosts = routes.iter().filter(here).flat_map(|route| &route.hosts);
        let all_hosts: Vec<Option<String>> =
            all_hosts.map(|host| Some(name_of(host))).chain([None]).collect();
        let mut reported = HashSet::new();
        for (index, route) in routes.iter().enumerate().filter(|(_, route)| here(route)) {
            let hosts: Vec<Option<String>> = match route.hosts.is_empty() {
                true => all_hosts.clone(),
                false => route.hosts.iter().map(|host| Some(name_of(host))).collect(),
            };
            let is_answer = matches!(route.action(), Action::Files(_));
            let paths = route.paths.iter().filter(|path| is_answer && path.starts_with(CHALLENGES));
            for path in paths {
                let sample = sample_of(path);
                let redirecting = hosts.iter().filter_map(|host| {
                    let host = host.as_deref().map(str::as_bytes);
                    let Lookup::Found(found) = router.find(host, Method::Get, sample.as_bytes()) else {
                        return None;
                    };
                    let other =
                        routes.get(*found.value).filter(|other| *found.value != index && is_redirect(other));
                    other.map(|other| (*found.value, other))
                });
                for (other, redirect) in redirecting {
                    if reported.insert(other) {
                        self.report_redirected(redirect, route, path);
                    }
                }
            }
            if let Some(path) = route.paths.iter().find(|path| is_answer && path.starts_with(CHALLENGES)) {
                let others = routes.iter().enumerate().filter(|(other, _)| !reported.contains(other));
                others
                    .filter(|(_, other)| here(other))
                    .for_each(|(_, other)| self.find_narrower(other, route, path));
            }
        }
    }

    /// Reports a redirect that matches some challenge requests, but not the path of [`sample_of`].
    fn find_narrower(&self, redirect: &Route, route: &Route, path: &str) {
        // `{*rest}` only matches paths that no other route matches.
        let is_narrower =
            |path: &&At<String>| path.strip_prefix(CHALLENGES).is_some_and(|rest| !rest.starts_with("{*"));
        let Some(inside) = redirect.paths.iter().find(is_narrower).filter(|_| is_redirect(redirect)) else {
            return;
        };
        let place = self.place_of_path(&redirect.name, inside, false);
        let message =
            format!("redirect `{}` matches some challenges of route `{}`", redirect.name, route.name);
        self.problems.add(
            Problem::warning("challenge-redirected", place, message)
                .also(self.place_of_path(&route.name, path, false), "served here")
                .help("give the redirect another path"),
        );
    }

    fn report_redirected(&self, redirect: &Route, route: &Route, path: &str) {
        let message =
            format!("redirect `{}` matches the challenges of route `{}`", redirect.name, route.name);
        let inside = redirect
            .paths
            .iter()
            .find(|path| path.starts_with(CHALLENGES))
            .or_else(|| redirect.paths.first());
        let place = self.place_of_path(&redirect.name, inside.map_or("", |path| path.as_str()), false);
        self.problems.add(
            Problem::error("challenge-redirected", place, message)
                .also(self.place_of_path(&route.name, path, false), "served here")
                .help(
                    "give the redirect a wider path, such as \"/{*rest}\": the narrower path then takes precedence",
                ),
        );
    }
}

fn is_redirect(route: &Route) -> bool {
    matches!(route.action(), Action::Redirect(_) | Action::Links(_))
}

/// Returns a host that matches the pattern.
fn name_of(pattern: &str) -> String {
    match pattern.strip_prefix("*.") {
        Some(domain) => format!("unused-name.{domain}"),
        None => pattern.to_owned(),
    }
}

/// Returns a path that matches the pattern and that no configuration contains literally.
fn sample_of(pattern: &str) -> String {
    let parts = pattern.split('/').map(|part| if part.starts_with('{') { "unused-token" } else { part });
    parts.collect::<Vec<_>>().join("/")
}
