//! `[control]` and `[maintenance]` as they are written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::{Config, Control, ControlSocket, Maintenance, Window};
use super::{path_text, text};
use doorbell_config::format_duration;
use serde_json::{Map, Value, json};

pub(super) fn control_value(control: &Control) -> Value {
    let socket = match &control.socket {
        ControlSocket::Auto => json!("auto"),
        ControlSocket::Off => json!("off"),
        ControlSocket::Path(path) => path_text(path),
    };
    let mut value = Map::new();
    value.insert("socket".into(), socket);
    if let Some(group) = &control.group {
        value.insert("group".into(), text(group));
    }
    Value::Object(value)
}

pub(super) fn maintenance_value(maintenance: &Maintenance, config: &Config) -> Value {
    let mut value = Map::new();
    if let Some(path) = &maintenance.file_dir {
        value.insert("file_dir".into(), path_text(path));
    }
    if !maintenance.windows.is_empty() {
        let windows = maintenance.windows.iter().map(|window| window_value(window, config));
        value.insert("window".into(), windows.collect());
    }
    Value::Object(value)
}

fn window_value(window: &Window, config: &Config) -> Value {
    let endpoints = window.endpoints.iter().filter_map(|&endpoint| config.health.get(endpoint));
    let endpoints: Vec<Value> = endpoints.map(|health| json!(health.name)).collect();
    let mut value = json!({
        "cron": text(window.cron.as_str()),
        "for": format_duration(window.length),
        "reason": text(&window.reason),
    });
    if !endpoints.is_empty() {
        value["endpoints"] = Value::Array(endpoints);
    }
    value
}
