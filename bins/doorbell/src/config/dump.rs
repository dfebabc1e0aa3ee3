//! A configuration as TOML or JSON, with or without what is the default anyway.
//!
//! Does not know about: the file it came from; comments and order are lost.

use super::defaults::default_config;
use super::model::{
    Action, Config, Engine, Health, HealthState, LogFormat, LogLevel, OnWorkerFailure, Protocol,
};
use super::model::{
    Http1, Lifecycle, Listener, Log, RedirectTo, Reply, Route, Runtime, Tcp, Timeouts, Tuning,
};
use super::resolve_route::default_methods;
use super::tuning;
use super::units::{format_duration, format_size};
use serde_json::{Map, Value, json};

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
    let listeners = config.listeners.iter().map(|listener| {
        let default = Listener { protocol: default_protocol(&listener.protocol), ..Listener::default() };
        let whole = listener_value(listener);
        let bind = whole["bind"].clone();
        let mut value = keep(whole, listener_value(&default));
        value["bind"] = bind;
        if let Protocol::Raw { .. } = listener.protocol {
            value["protocol"] = json!("raw");
        }
        (listener.name.clone(), value)
    });
    let built_in = default_config().health;
    let health = config.health.iter().filter(|health| with_defaults || !built_in.contains(health));
    let health = health.map(|health| (health.name.clone(), health_value(health)));
    let routes = config.routes.iter().map(|route| {
        let methods = default_methods(&route.action);
        let default = Route { methods, action: default_action(&route.action), ..EMPTY_ROUTE };
        let mut value = keep(route_value(route, config), route_value(&default, config));
        // An action that is all default must still be there.
        match &route.action {
            Action::Health(_) => {}
            Action::Redirect(_) if value.get("redirect").is_some() => {}
            Action::Redirect(_) => value["redirect"] = json!({}),
            Action::Reply(_) if value.get("reply").is_some() => {}
            Action::Reply(_) => value["reply"] = json!({}),
        }
        (route.name.clone(), value)
    });
    let mut root = Map::new();
    root.insert("version".into(), json!(1));
    for (key, value) in [
        ("runtime", keep(runtime_value(&config.runtime), runtime_value(&Runtime::default()))),
        ("log", keep(log_value(&config.log), log_value(&Log::default()))),
        ("lifecycle", keep(lifecycle_value(&config.lifecycle), lifecycle_value(&Lifecycle::default()))),
        ("tuning", keep(tuning::to_value(&config.tuning), tuning::to_value(&Tuning::default()))),
        ("listener", named(listeners.collect())),
        ("health", named(health.collect())),
        ("route", named(routes.collect())),
    ] {
        if value.as_object().is_some_and(|table| !table.is_empty()) {
            root.insert(key.into(), value);
        }
    }
    Value::Object(root)
}

const EMPTY_ROUTE: Route = Route {
    name: String::new(),
    listeners: Vec::new(),
    hosts: Vec::new(),
    paths: Vec::new(),
    methods: Vec::new(),
    headers: Vec::new(),
    action: Action::Health(usize::MAX),
};

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

fn default_protocol(protocol: &Protocol) -> Protocol {
    match protocol {
        Protocol::Http1(_) => Protocol::Http1(Http1::default()),
        // Whoever reads the dump must find `protocol`, but what is HTTP's has no place on a raw listener.
        Protocol::Raw { .. } => Protocol::Raw { reply: "\0".into(), speaks_first: false },
    }
}

fn default_action(action: &Action) -> Action {
    match action {
        Action::Health(_) => Action::Health(usize::MAX),
        Action::Redirect(_) => Action::Redirect(RedirectTo::default()),
        Action::Reply(_) => Action::Reply(Reply::default()),
    }
}

fn runtime_value(runtime: &Runtime) -> Value {
    json!({
        "engine": match runtime.engine {
            Engine::Auto => "auto",
            Engine::Epoll => "epoll",
            Engine::IoUring => "io_uring",
        },
        "workers": runtime.workers.map_or_else(|| json!("auto"), |count| json!(count)),
        "pin_cpus": runtime.pin_cpus,
        "max_connections": runtime.max_connections.map_or_else(|| json!("auto"), |count| json!(count)),
        "on_worker_failure": match runtime.on_worker_failure {
            OnWorkerFailure::Degrade => "degrade",
            OnWorkerFailure::Exit => "exit",
        },
    })
}

fn log_value(log: &Log) -> Value {
    json!({
        "format": match log.format {
            LogFormat::Auto => "auto",
            LogFormat::Json => "json",
            LogFormat::Text => "text",
        },
        "level": match log.level {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        },
    })
}

fn lifecycle_value(lifecycle: &Lifecycle) -> Value {
    json!({
        "drain_delay": format_duration(lifecycle.drain_delay),
        "drain_timeout": format_duration(lifecycle.drain_timeout),
    })
}

fn listener_value(listener: &Listener) -> Value {
    let Timeouts { header, body, write, linger } = listener.timeouts;
    let Tcp { backlog, defer_accept, nodelay, quickack } = listener.tcp;
    let binds: Vec<String> = listener.binds.iter().map(ToString::to_string).collect();
    let mut value = json!({
        "bind": literal(&binds),
        "timeouts": {
            "header": format_duration(header),
            "body": format_duration(body),
            "write": format_duration(write),
            "linger": format_duration(linger),
        },
        "limits": { "connections_per_ip": listener.connections_per_ip },
        "tcp": { "backlog": backlog, "defer_accept": defer_accept, "nodelay": nodelay, "quickack": quickack },
    });
    match &listener.protocol {
        Protocol::Http1(http1) => {
            value["protocol"] = json!("http1");
            value["keep_alive"] = json!({
                "enabled": http1.keep_alive,
                "idle": format_duration(http1.idle),
                "max_requests": http1.max_requests,
            });
            value["limits"]["header_bytes"] = json!(format_size(http1.header_bytes.into()));
            value["limits"]["headers"] = json!(http1.headers);
            value["limits"]["body_bytes"] = json!(format_size(http1.body_bytes.into()));
        }
        Protocol::Raw { reply, speaks_first } => {
            value["protocol"] = json!("raw");
            value["reply"] = text(reply);
            value["speaks_first"] = json!(speaks_first);
        }
    }
    value
}

fn health_value(health: &Health) -> Value {
    json!({ "initial": match health.initial { HealthState::Down => "down", HealthState::Up => "up" } })
}

fn route_value(route: &Route, config: &Config) -> Value {
    let listeners: Vec<_> =
        route.listeners.iter().map(|&position| &*config.listeners[position].name).collect();
    let methods: Vec<_> = route.methods.iter().map(|method| method.as_str()).collect();
    let headers: Map<_, _> = route.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let mut value = json!({ "listener": listeners, "path": literal(&route.paths), "methods": methods });
    if !route.hosts.is_empty() {
        value["hosts"] = json!(route.hosts);
    }
    if !headers.is_empty() {
        value["headers"] = Value::Object(headers);
    }
    match &route.action {
        Action::Health(position) => {
            value["health"] = json!(config.health.get(*position).map(|health| &health.name));
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
            value["redirect"] = redirect;
        }
        Action::Reply(reply) => {
            value["reply"] = json!({
                "status": reply.status,
                "body": text(&reply.body),
                "content_type": text(&reply.content_type),
            });
        }
    }
    value
}

/// A string that expands to this one when it is read back.
fn text(value: &str) -> Value {
    Value::String(value.replace("${", "$${"))
}

fn literal(values: &[String]) -> Value {
    Value::Array(values.iter().map(|value| text(value)).collect())
}
