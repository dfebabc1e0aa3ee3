//! Validates `[route.NAME]` against the other tables: its listeners, limits, tokens, client
//! certificates and endpoint.

use super::super::model::{ClientAuthMode, ClientCert, Listener, Route, Tls};
use doorbell_config::{At, Link, Names, Places, Problem, Problems};

/// Maximum size of a request line (`doorbell-http`'s default).
const LINE_BYTES_MAX: u32 = 8 << 10;

/// Length of the shortest request line without its path.
const LINE_REST_LEN: usize = "GET  HTTP/1.1".len();

/// Tables that routes refer to.
pub(super) struct Resolver<'a> {
    pub(super) listeners: &'a [Listener],
    pub(super) listener_names: Names<'a>,
    pub(super) tls: &'a [Tls],
    pub(super) auth: Names<'a>,
    pub(super) limits: Names<'a>,
    pub(super) endpoints: &'a Names<'a>,
    pub(super) places: &'a Places,
    pub(super) problems: &'a Problems,
}

impl Resolver<'_> {
    pub(super) fn route(&self, route: &mut Route) {
        self.find_listeners(route);
        self.check_lengths(route);
        route.auth.retain_mut(|link| self.auth.find(link));
        let mut seen = Vec::new();
        route.auth.retain(|link| {
            !seen.contains(&link.position) && {
                seen.push(link.position);
                true
            }
        });
        route.details_auth.retain_mut(|link| self.auth.find(link));
        route.limit.take_if(|link| !self.limits.find(link));
        route.health.take_if(|link| !self.endpoints.find(link));
        self.check_client_cert(route);
    }

    fn find_listeners(&self, route: &mut Route) {
        let names = &self.listener_names;
        let table = format!("route.{}", route.name);
        if self.places.get(&format!("{table}.listener")).is_none() {
            if let [only] = self.listeners {
                let only = Link { name: only.name.clone(), position: 0 };
                route.listeners.push(only.into());
                return;
            }
            let message = format!("route `{}` names no listener", route.name);
            let place = self.places.get(&table).unwrap_or_default();
            let help = format!("add `listener = ` with one or a list of {}", names.listed());
            self.problems.add(Problem::error("missing-key", place, message).help(help));
        }
        let mut found: Vec<At<Link>> = Vec::new();
        for mut link in route.listeners.drain(..) {
            let name = link.name.clone();
            let Some(position) = names.get(&name) else {
                let message = format!("there is no listener `{name}`");
                let help =
                    names.suggestion(&name).unwrap_or_else(|| format!("listeners: {}", names.listed()));
                self.problems.add(Problem::error("unknown-listener", link.span, message).help(help));
                continue;
            };
            link.value.position = position;
            if !self.listeners[position].is_http() {
                let message = format!("listener `{name}` is raw and cannot have routes");
                let problem = Problem::error("route-on-raw", link.span, message);
                self.problems.add(problem.help("name an http1 listener"));
            } else if found.iter().all(|known| known.position != position) {
                found.push(link);
            }
        }
        route.listeners = found;
    }

    /// Reports a path that is too long for any request.
    fn check_lengths(&self, route: &Route) {
        let line_max = |position: usize| {
            let listener = self.listeners.get(position).filter(|listener| listener.is_http())?;
            // HTTP/2 has no request line.
            let cap = if listener.http2 { u32::MAX } else { LINE_BYTES_MAX };
            Some(listener.limits.header_bytes.min(cap))
        };
        let Some(line_max) = route.positions().filter_map(line_max).max() else { return };
        let room = (line_max as usize).saturating_sub(LINE_REST_LEN);
        for path in route.paths.iter().filter(|path| shortest(path) > room) {
            let message =
                format!("no request can contain this path: a request line has at most {line_max} bytes");
            self.problems.add(
                Problem::error("unreachable-path", path.span.clone(), message)
                    .help("shorten it, or raise `limits.header_bytes` if that is below 8KiB"),
            );
        }
    }

    /// Reports `client_cert` and `client_names` on a listener that requests no client certificates.
    fn check_client_cert(&self, route: &Route) {
        let requests_cert = |position: &usize| {
            let listener = self.listeners.get(*position);
            let tls = listener.and_then(|listener| self.tls.get(listener.tls.as_ref()?.position));
            tls.is_some_and(|tls| tls.client_auth.mode != ClientAuthMode::None)
        };
        let place = |key: &str| self.places.get(&format!("route.{}.{key}", route.name));
        let exempt = route.client_cert == Some(ClientCert::Exempt);
        let has_names = !route.client_names.is_empty();
        // The contradiction and the missing listener are already reported.
        if (exempt && has_names) || route.listeners.is_empty() {
            return;
        }
        let key = match route.client_cert {
            Some(_) => "client_cert",
            None if has_names => "client_names",
            None => return,
        };
        // An exemption has an effect if one of the listeners requests certificates.
        if exempt && route.positions().any(|position| requests_cert(&position)) {
            return;
        }
        let silent = route.positions().find(|position| !requests_cert(position));
        if let Some(listener) = silent.and_then(|position| self.listeners.get(position)) {
            let message = format!("`{key}`, but listener `{}` requests no client certificate", listener.name);
            let help = match listener.tls.as_ref().and_then(|link| self.tls.get(link.position)) {
                Some(tls) => format!(
                    "add `client_auth = {{ mode = \"require\", ca = \"CA.crt\" }}` to [tls.{}]",
                    tls.name
                ),
                None => format!("name a TLS table with `client_auth` in [listener.{}]", listener.name),
            };
            let problem = Problem::error("no-client-auth", place(key).unwrap_or_default(), message);
            self.problems.add(problem.help(help));
        }
    }
}

/// Length of the shortest path that matches a pattern. A parameter has at least one byte.
fn shortest(pattern: &str) -> usize {
    pattern.split('/').map(|part| if part.starts_with('{') { 2 } else { part.len() + 1 }).sum::<usize>() - 1
}
