//! `[route.NAME]` as it is written in a file, with what stands before it.
//!
//! Does not know about: other tables.

use super::super::model::{Action, Config, Files, Guard, HealthRoute, LinkMap, RedirectTo, Reply, Route};
use super::super::resolve::default_methods;
use super::super::written::{CLIENT_CERTS, DETAILS, FORMATS};
use super::{literal, name_of, path_text, text, without};
use crate::http::Method;
use doorbell_config::format_size;
use serde_json::{Map, Value, json};

/// Routes by their names.
pub(super) fn routes(config: &Config, with_defaults: bool) -> Vec<(String, Value)> {
    config
        .routes
        .iter()
        .map(|route| (route.name.clone(), route_value(route, config, with_defaults)))
        .collect()
}

fn route_value(route: &Route, config: &Config, with_defaults: bool) -> Value {
    let listeners: Vec<_> =
        route.listeners.iter().map(|&position| &*config.listeners[position].name).collect();
    let names = |methods: &[Method]| methods.iter().map(|method| method.as_str()).collect::<Vec<_>>();
    let headers: Map<_, _> = route.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let mut value = json!({ "listener": listeners, "path": literal(&route.paths) });
    if with_defaults || names(&route.methods) != names(&default_methods(&route.action)) {
        value["methods"] = json!(names(&route.methods));
    }
    if !route.hosts.is_empty() {
        value["hosts"] = json!(route.hosts);
    }
    if !headers.is_empty() {
        value["headers"] = Value::Object(headers);
    }
    add_guard(&mut value, &route.guard, config);
    if let Action::Health(health) = &route.action {
        add_health(&mut value, health, config, with_defaults);
    }
    let (key, whole) = action_value(&route.action, config);
    let (_, default) = action_value(&default_action(&route.action), config);
    // An action that is all default must still be there.
    value[key] = if with_defaults { whole } else { without(whole, &default) };
    value
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

/// How health is answered.
fn add_health(value: &mut Value, health: &HealthRoute, config: &Config, with_defaults: bool) {
    let HealthRoute { format, details, details_auth, .. } = health;
    let default = HealthRoute::of(health.endpoint);
    if with_defaults || *format != default.format {
        value["format"] = json!(name_of(&FORMATS, *format));
    }
    if with_defaults || *details != default.details {
        value["details"] = json!(name_of(&DETAILS, *details));
    }
    let names: Vec<_> =
        details_auth.iter().filter_map(|&position| Some(&*config.auth.get(position)?.name)).collect();
    if !names.is_empty() {
        value["details_auth"] = json!(names);
    }
}

/// What has to be written has no default.
fn default_action(action: &Action) -> Action {
    match action {
        Action::Files(_) => Action::Files(Files { dir: "\0".into(), ..Files::default() }),
        Action::Grpc => Action::Grpc,
        Action::Health(_) => Action::Health(HealthRoute::of(usize::MAX)),
        Action::Push => Action::Push,
        Action::Links(_) => Action::Links(LinkMap { map: "\0".into(), ..LinkMap::default() }),
        Action::Redirect(_) => Action::Redirect(RedirectTo::default()),
        Action::Reply(_) => Action::Reply(Reply::default()),
    }
}

fn action_value(action: &Action, config: &Config) -> (&'static str, Value) {
    match action {
        Action::Files(files) => (
            "files",
            json!({
                "dir": path_text(&files.dir),
                "content_type": text(&files.content_type),
                "max_bytes": format_size(files.max_bytes.into()),
            }),
        ),
        Action::Grpc => ("grpc", json!(true)),
        Action::Health(health) => {
            ("health", json!(config.health.get(health.endpoint).map(|health| &health.name)))
        }
        Action::Push => ("push", json!(true)),
        Action::Links(links) => {
            let mut value = json!({ "map": path_text(&links.map), "status": links.status.code() });
            if let Some(default) = &links.default {
                value["default"] = text(default);
            }
            ("redirect", value)
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
        Action::Reply(reply) => {
            let mut value = json!({ "status": reply.status, "content_type": text(&reply.content_type) });
            match &reply.file {
                Some(file) => value["file"] = path_text(&file.path),
                None => value["body"] = text(&reply.body),
            }
            ("reply", value)
        }
    }
}
