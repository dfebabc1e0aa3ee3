//! A configuration as TOML or JSON, with or without what is the default anyway.
//!
//! Does not know about: the file it came from; comments and order are lost.

mod check;
mod route;

use super::model::Config;
use doorbell_checks::options::EgressOptions;
use doorbell_config::Table as _;
use serde_json::{Map, Value, json};
use std::path::Path;

/// As a file that reads back to the same configuration.
///
/// # Errors
/// Never for a configuration that was checked.
pub fn to_toml(config: &Config, with_defaults: bool) -> Result<String, toml::ser::Error> {
    toml::to_string_pretty(&to_json(config, with_defaults))
}

/// The same keys and values as the file.
#[must_use]
pub fn to_json(config: &Config, with_defaults: bool) -> Value {
    let keep = |value: Value, default: Value| if with_defaults { value } else { without(value, &default) };
    let named = |entries: Vec<(String, Value)>| Value::Object(entries.into_iter().collect());
    let listeners =
        config.listeners.iter().map(|listener| (listener.name.clone(), listener.to_json(with_defaults)));
    let agents = config.agents.iter().map(|agent| (agent.name.clone(), agent.to_json(with_defaults)));
    let gates = config.tcp_gates.iter().map(|gate| (gate.name.clone(), gate.to_json(with_defaults)));
    let checks = config.checks.iter().map(|check| {
        let (whole, default) = check::check_values(check);
        (check.name.clone(), keep(whole, default))
    });
    let tls = config.tls.iter().map(|tls| (tls.name.clone(), tls.to_json(with_defaults)));
    let auth = config.auth.iter().map(|auth| (auth.name.clone(), auth.to_json(with_defaults)));
    let limits = config.limits.iter().map(|limit| (limit.name.clone(), limit.to_json(with_defaults)));
    let routes = route::routes(config, with_defaults);
    // One that is always there need not be written.
    let health = config.health.iter().map(|health| (health.name.clone(), health.to_json(with_defaults)));
    let health = health.filter(|(name, value)| !is_empty(value) || !["livez", "readyz"].contains(&&**name));
    let mut root = Map::new();
    root.insert("version".into(), json!(1));
    for (key, value) in [
        ("runtime", config.runtime.to_json(with_defaults)),
        ("log", config.log.to_json(with_defaults)),
        ("lifecycle", config.lifecycle.to_json(with_defaults)),
        ("systemd", config.systemd.to_json(with_defaults)),
        ("control", config.control.to_json(with_defaults)),
        ("maintenance", config.maintenance.to_json(with_defaults)),
        ("admin", config.admin.as_ref().map_or(Value::Null, |admin| admin.to_json(with_defaults))),
        ("tuning", config.tuning.to_json(with_defaults)),
        ("compute", config.compute.to_json(with_defaults)),
        ("tls", named(tls.collect())),
        ("auth", named(auth.collect())),
        ("limit", named(limits.collect())),
        ("http2", config.http2.to_json(with_defaults)),
        ("grpc", config.grpc.to_json(with_defaults)),
        ("listener", named(listeners.collect())),
        (
            "check_defaults",
            keep(check::defaults_value(&config.egress), check::defaults_value(&EgressOptions::default())),
        ),
        ("check", named(checks.collect())),
        ("health", named(health.collect())),
        ("agent", named(agents.collect())),
        ("tcp_gate", named(gates.collect())),
        (
            "blackbox",
            config.blackbox.as_ref().map_or(Value::Null, |blackbox| blackbox.to_json(with_defaults)),
        ),
        ("route", named(routes)),
    ] {
        if value.as_object().is_some_and(|table| !table.is_empty()) {
            root.insert(key.into(), value);
        }
    }
    Value::Object(root)
}

/// What is in `value` and not the same in `default`. Choices and names are kept where the value differs.
fn without(value: Value, default: &Value) -> Value {
    match (value, default) {
        (Value::Object(table), Value::Object(default)) => {
            let rest = table.into_iter().filter_map(|(key, value)| match default.get(&key) {
                Some(same) if *same == value => None,
                Some(other) => Some((key, without(value, other))).filter(|(_, left)| !is_empty(left)),
                None => Some((key, value)),
            });
            Value::Object(rest.collect())
        }
        (value, _) => value,
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// A string that expands to this one when it is read back.
fn text(value: &str) -> Value {
    Value::String(value.replace("${", "$${"))
}

/// Paths come from strings, so nothing is lost.
fn path_text(path: &Path) -> Value {
    text(&path.to_string_lossy())
}

/// The word for a value in the file.
fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    let named = names.iter().find(|(_, known)| *known == value);
    named.map(|(name, _)| *name).expect("every value has a name")
}

fn literal(values: &[String]) -> Value {
    Value::Array(values.iter().map(|value| text(value)).collect())
}
