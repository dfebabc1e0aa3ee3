//! `[control]` and `[maintenance]` as they are written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::{Control, ControlSocket, Maintenance};
use super::{path_text, text};
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

pub(super) fn maintenance_value(maintenance: &Maintenance) -> Value {
    let mut value = Map::new();
    if let Some(path) = &maintenance.file_dir {
        value.insert("file_dir".into(), path_text(path));
    }
    Value::Object(value)
}
