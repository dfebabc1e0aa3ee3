//! `[route.NAME]` as it is written in a file, with what stands before it.
//!
//! Does not know about: other tables.

use super::super::model::{Action, Config, Files, Guard, LinkMap, RedirectTo, Reply, Route, Stored};
use super::super::resolve::{default_methods, default_methods_stored};
use super::super::units::format_size;
use super::super::written::CLIENT_CERTS;
use super::{literal, name_of, path_text, text, without};
use crate::http::Method;
use serde_json::{Map, Value, json};

/// Routes of both kinds by their names.
pub(super) fn routes(config: &Config, with_defaults: bool) -> Vec<(String, Value)> {
    let memory = config.routes.iter().map(|route| {
        let default = action_value(&default_action(&route.action), config);
        let value = action_value(&route.action, config);
        route_value(route, config, with_defaults, &default_methods(&route.action), (value, default))
    });
    let stored = config.stored_routes.iter().map(|route| {
        let default = stored_value(&default_stored(&route.action));
        let value = stored_value(&route.action);
        route_value(route, config, with_defaults, &default_methods_stored(&route.action), (value, default))
    });
    memory.chain(stored).collect()
}

/// The action is its key and its value, then the same by default.
fn route_value<A>(
    route: &Route<A>,
    config: &Config,
    with_defaults: bool,
    default_methods: &[Method],
    (action, default): ((&str, Value), (&str, Value)),
) -> (String, Value) {
    let listeners: Vec<_> =
        route.listeners.iter().map(|&position| &*config.listeners[position].name).collect();
    let names = |methods: &[Method]| methods.iter().map(|method| method.as_str()).collect::<Vec<_>>();
    let headers: Map<_, _> = route.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let mut value = json!({ "listener": listeners, "path": literal(&route.paths) });
    if with_defaults || names(&route.methods) != names(default_methods) {
        value["methods"] = json!(names(&route.methods));
    }
    if !route.hosts.is_empty() {
        value["hosts"] = json!(route.hosts);
    }
    if !headers.is_empty() {
        value["headers"] = Value::Object(headers);
    }
    if let Some(guard) = config.guards.get(&route.name) {
        add_guard(&mut value, guard, config);
    }
    let (key, whole) = action;
    // An action that is all default must still be there.
    value[key] = if with_defaults { whole } else { without(whole, &default.1) };
    (route.name.clone(), value)
}

fn add_guard(value: &mut Value, guard: &Guard, config: &Config) {
    let Guard { limit, concurrent, client_cert, client_names, auth } = guard;
    if let Some(limit) = limit.and_then(|position| config.limits.get(position)) {
        value["limit"] = json!(limit.name);
    }
    if let Some(count) = concurrent {
        value["concurrent"] = json!(count);
    }
    if let Some(wanted) = client_cert {
        value["client_cert"] = json!(name_of(&CLIENT_CERTS, *wanted));
    }
    if !client_names.is_empty() {
        value["client_names"] = literal(client_names);
    }
    let auth: Vec<_> = auth.iter().filter_map(|&position| Some(&*config.auth.get(position)?.name)).collect();
    if !auth.is_empty() {
        value["auth"] = json!(auth);
    }
}

fn default_action(action: &Action) -> Action {
    match action {
        Action::Health(_) => Action::Health(usize::MAX),
        Action::Redirect(_) => Action::Redirect(RedirectTo::default()),
        Action::Reply(_) => Action::Reply(Reply::default()),
    }
}

/// What has to be written has no default.
fn default_stored(stored: &Stored) -> Stored {
    match stored {
        Stored::Files(_) => Stored::Files(Files { dir: "\0".into(), ..Files::default() }),
        Stored::Links(_) => Stored::Links(LinkMap { map: "\0".into(), ..LinkMap::default() }),
    }
}

fn action_value(action: &Action, config: &Config) -> (&'static str, Value) {
    match action {
        Action::Health(position) => {
            ("health", json!(config.health.get(*position).map(|health| &health.name)))
        }
        Action::Redirect(to) => {
            let mut redirect = json!({
                "scheme": to.scheme.as_str(),
                "path": text(&to.path),
                "status": to.status.code(),
                "keep_query": to.keep_query,
            });
            if let Some(host) = &to.host {
                redirect["host"] = json!(host);
            }
            if let Some(port) = to.port {
                redirect["port"] = json!(port);
            }
            ("redirect", redirect)
        }
        Action::Reply(reply) => (
            "reply",
            json!({
                "status": reply.status,
                "body": text(&reply.body),
                "content_type": text(&reply.content_type),
            }),
        ),
    }
}

fn stored_value(stored: &Stored) -> (&'static str, Value) {
    match stored {
        Stored::Files(files) => (
            "files",
            json!({
                "dir": path_text(&files.dir),
                "content_type": text(&files.content_type),
                "max_bytes": format_size(files.max_bytes.into()),
            }),
        ),
        Stored::Links(links) => {
            let mut value = json!({ "map": path_text(&links.map), "status": links.status.code() });
            if let Some(default) = &links.default {
                value["default"] = text(default);
            }
            ("redirect", value)
        }
    }
}
