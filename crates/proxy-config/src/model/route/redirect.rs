//! `redirect = { .. }` of a route: a location from a template, or a link map with a location for
//! each path.

use super::Route;
use super::sources::host_help;
use doorbell::http::redirect::{Redirect as Location, RedirectBuildError, RedirectStatus, Scheme};
use doorbell::http::router;
use doorbell_config::{At, Problem, Section, Table, did_you_mean};
use std::path::PathBuf;

/// Schemes of a location.
const SCHEMES: [(&str, Scheme); 2] = [("http", Scheme::Http), ("https", Scheme::Https)];

/// A redirect.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check, useless = Self::useless)]
pub struct Redirect {
    /// Scheme of the location.
    #[key(default = "https", words = SCHEMES)]
    pub scheme: Scheme,
    /// Host of the location. Default: the host of the request.
    pub host: Option<At<String>>,
    /// Port of the location. Default: the port of the scheme.
    #[key(range = 1..=65_535)]
    pub port: Option<u16>,
    /// Path of the location; may contain the parameters of the route's `path`. Default: the path of
    /// the request.
    #[key(default = "{path}")]
    pub path: String,
    // The redirect to `default` is a 302: the requested path may be added to the map later, and
    // browsers cache a 308 permanently.
    /// Status code: 301, 302, 303, 307 or 308; with `map`, the code of the redirect to `default`.
    /// Default: 308; with `map`: 302.
    #[key(with = status, default_with = Self::default_status)]
    pub status: RedirectStatus,
    /// Keeps the query of the request.
    #[key(default = true)]
    pub keep_query: bool,
    /// File with one redirect per line: the whole path of the request, a location, and optionally a
    /// status code, 308 by default. The file is read again when it changes.
    pub map: Option<At<PathBuf>>,
    /// With `map`: location for paths that are not in the map. Default: 404.
    pub default: Option<At<String>>,
}

impl Redirect {
    fn default_status(&self) -> RedirectStatus {
        if self.map.is_some() { RedirectStatus::Found } else { RedirectStatus::default() }
    }

    /// Keys without effect: with `map` the keys of a template, without `map` the key `default`.
    fn useless(&self) -> &'static [&'static str] {
        match self.map {
            Some(_) => &["scheme", "host", "port", "path", "keep_query"],
            None => &["default"],
        }
    }

    fn check(&self, at: &Section<'_>) {
        let useless = |key: &str, message: String, help: &str| {
            if let Some(place) = at.place(key) {
                at.problem(Problem::error("useless-key", place, message).help(help));
            }
        };
        if at.place("map").is_none() {
            let help = "set `host` and `path` of the location for all requests, or add `map`";
            useless("default", "`default` has no effect without `map`".to_owned(), help);
            return;
        }
        for key in ["scheme", "host", "port", "path", "keep_query"] {
            let message = format!("`{key}` has no effect with `map`");
            useless(key, message, "remove it; the map contains complete locations");
        }
        if let Some(default) = self.default.as_ref().filter(|default| !is_location(default)) {
            let message = format!("{:?} is not a valid location", default.value);
            at.problem(
                Problem::error("bad-value", default.span.clone(), message)
                    .help("write \"https://example.com/\" or a path on the same host, percent-encoded"),
            );
        }
    }

    /// Validates a location from a template against the hosts and paths of its route.
    pub(super) fn check_route(&self, route: &Route, at: &Section<'_>) {
        if at.place("hosts").is_none() && at.place("redirect.host").is_none() {
            let message = format!("redirect `{}` would trust any Host a client sends", route.name);
            at.problem(
                Problem::error("redirect-without-hosts", at.place("redirect").unwrap_or_default(), message)
                    .label("no `hosts` on the route and no `host` here")
                    .help("list the hosts that are yours, `hosts = [\"example.com\"]`, or redirect all requests to one, `redirect = { host = \"example.com\" }`"),
            );
            return;
        }
        if let Some(host) = self.host.as_ref().filter(|host| router::host::canonical(host).is_none()) {
            let (message, help) = match host.starts_with("*.") {
                true => {
                    ("a location contains one host".to_owned(), "write the name of the host for all requests")
                }
                false => (format!("{:?} is not a host", host.value), host_help(host)),
            };
            at.problem(Problem::error("bad-host", host.span.clone(), message).help(help));
        }
        // A location must not contain a host that the client chose freely.
        let wildcards = route.hosts.iter().filter(|host| host.starts_with("*."));
        for host in wildcards.filter(|_| at.place("redirect.host").is_none()) {
            let message = format!("redirect `{}` would trust any Host below {:?}", route.name, host.value);
            at.problem(Problem::error("redirect-without-hosts", host.span.clone(), message).help(
                "list the names, or redirect all requests to one, `redirect = { host = \"example.com\" }`",
            ));
        }
        self.check_path(route, at);
    }

    fn check_path(&self, route: &Route, at: &Section<'_>) {
        let place = at.place("redirect.path").or_else(|| at.place("redirect")).unwrap_or_default();
        // Hosts were validated one by one; a placeholder host lets the builder validate the rest.
        let to = Self { host: Some("localhost".to_owned().into()), ..self.clone() };
        match build_redirect(&to, &[]) {
            Ok(redirect) => {
                for path in &route.paths {
                    let known = router::param_names(path).unwrap_or_default();
                    let words: Vec<&str> = known.iter().map(String::as_str).chain(["path"]).collect();
                    for name in redirect.param_names().filter(|name| !words.contains(name)) {
                        let message = format!("path {:?} has no parameter `{name}`", path.value);
                        let help = did_you_mean(name, &words).unwrap_or_else(|| {
                            "a template accepts `{path}` (the whole path) and the parameters of the route".into()
                        });
                        at.problem(
                            Problem::error("unknown-parameter", place.clone(), message)
                                .also(path.span.clone(), "of this path")
                                .help(help),
                        );
                    }
                }
            }
            Err(RedirectBuildError::BadPath(path)) => at.problem(
                Problem::error("bad-path", place, format!("{path:?} is not a path template"))
                    .help("write \"{path}\", \"/new{path}\" or \"/new/{name}\"; it begins with `/` and holds no `?` or `#`"),
            ),
            // Cannot happen: the host is the placeholder, and the range of `port` excludes 0.
            Err(_) => {}
        }
    }
}

/// Builds the redirect of a route with these hosts.
pub fn build_redirect(to: &Redirect, hosts: &[String]) -> Result<Location, RedirectBuildError> {
    let mut builder = Location::to(to.scheme).path(&*to.path).status(to.status).keep_query(to.keep_query);
    if let Some(port) = to.port {
        builder = builder.port(port);
    }
    match &to.host {
        // The router accepts only hosts of the route, and all of them redirect to `host`.
        Some(host) => builder.canonical_host(&host.value).build(),
        None => hosts.iter().fold(builder, |builder, host| builder.host(host)).build(),
    }
}

/// Whether this is an absolute HTTP location, or a path on the same host, that needs no escaping in
/// a header field (RFC 3986 2).
fn is_location(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let names_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':']));
    let is_path = text.starts_with('/') && !text.starts_with("//");
    (names_host || is_path)
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
}

/// Reader of a redirect's status code.
mod status {
    use super::RedirectStatus;
    use doorbell_config::{Entry, Json, Key};
    use serde_json::json;

    pub(super) fn read(entry: &Entry<'_>) -> Option<RedirectStatus> {
        let code = entry.integer(&(0..=999))?;
        u16::try_from(code).ok().and_then(RedirectStatus::from_code).or_else(|| {
            let help = "one of 301, 302, 303, 307, 308; the default is 308, which keeps the method";
            entry.refuse("bad-value", format!("{code} is not a status of a redirect"), help)
        })
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(status: &RedirectStatus) -> Option<Json> {
        Some(status.code().into())
    }

    pub(super) fn form(_: &Key) -> Json {
        json!({ "type": "integer", "enum": [301, 302, 303, 307, 308] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        for good in ["https://example.com/", "http://e.com:8080/a?b=c#d", "/", "/a%20b"] {
            assert!(is_location(good), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "//example.com",
            "ftp://e.com",
            "https://",
            "https:///x",
            "/a b",
            "/\r\n",
            "/é",
            "javascript:x",
        ] {
            assert!(!is_location(bad), "{bad}");
        }
    }
}
