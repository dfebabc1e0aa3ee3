//! `redirect = { .. }` resolved: a template or a map of links.
//!
//! Does not know about: what is in the map, how a location is written.

use super::super::model::{Action, LinkMap, RedirectTo};
use super::super::written;
use super::route::Resolver;
use crate::http::redirect::{Redirect, RedirectBuildError};
use crate::http::router;
use doorbell_config::{At, Problem};

impl Resolver<'_> {
    pub(super) fn redirect_of(&self, written: &written::Redirect) -> Option<Action> {
        if written.has_map {
            return self.links_of(written).map(Action::Links);
        }
        if let Some(default) = &written.default {
            self.problems.add(
                Problem::error("useless-key", default.span.clone(), "`default` has no meaning without `map`")
                    .help("set `host` and `path` to where all requests go, or add `map`"),
            );
        }
        let default = RedirectTo::default();
        Some(Action::Redirect(RedirectTo {
            scheme: written.scheme.as_ref().map_or(default.scheme, |at| at.value),
            host: written.host.as_ref().map(|at| at.value.clone()),
            port: written.port.as_ref().and_then(|at| u16::try_from(at.value).ok()),
            path: written.path.as_ref().map_or(default.path, |at| at.value.clone()),
            status: written.status.unwrap_or(default.status),
            keep_query: written.keep_query.as_ref().map_or(default.keep_query, |at| at.value),
        }))
    }

    fn links_of(&self, written: &written::Redirect) -> Option<LinkMap> {
        for (key, span) in &written.not_of_maps {
            self.problems.add(
                Problem::error("useless-key", span.clone(), format!("`{key}` has no meaning beside `map`"))
                    .help("remove it; the map has whole locations"),
            );
        }
        if let Some(default) = &written.default
            && !is_location(&default.value)
        {
            let message = format!("{:?} is not where a client could go", default.value);
            self.problems.add(
                Problem::error("bad-value", default.span.clone(), message)
                    .help("write \"https://example.com/\" or a path on the same host, percent-encoded"),
            );
        }
        let default = LinkMap::default();
        Some(LinkMap {
            map: written.map.as_ref()?.value.clone(),
            default: written.default.as_ref().map(|at: &At<String>| at.value.clone()),
            status: written.status.unwrap_or(default.status),
        })
    }

    pub(super) fn check_redirect(
        &self,
        route: &written::Route,
        written: &written::Redirect,
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
            match host.value.starts_with("*.") {
                true => self.problems.add(
                    Problem::error("bad-host", host.span.clone(), "a location names one host")
                        .help("write the name that all are sent to"),
                ),
                false => self.bad_host(&host.value, host.span.clone()),
            }
        }
        if !written.has_host {
            self.check_no_wildcards(route);
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

    /// A location is written from a list, never from what a client sends.
    fn check_no_wildcards(&self, route: &written::Route) {
        let hosts = route.hosts.iter().flat_map(|hosts| &hosts.value);
        for host in hosts.filter(|host| host.value.starts_with("*.")) {
            let message =
                format!("redirect `{}` would trust any Host below {:?}", route.name.value, host.value);
            self.problems.add(
                Problem::error("redirect-without-hosts", host.span.clone(), message)
                    .help("list the names, or send all to one, `redirect = { host = \"example.com\" }`"),
            );
        }
    }
}

/// An absolute HTTP location, or a path on the same host, that a header field can carry as it is (RFC 3986 2).
fn is_location(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let names_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':']));
    let is_path = text.starts_with('/') && !text.starts_with("//");
    (names_host || is_path)
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
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
