//! `[admin]` as it is written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::{Admin, Secret};
use serde_json::{Map, Value, json};

/// Nothing where there is none; otherwise the address, since the section alone would not be seen.
pub(super) fn admin_value(admin: Option<&Admin>) -> Value {
    let mut value = Map::new();
    if let Some(admin) = admin {
        value.insert("bind".into(), json!(admin.bind.to_string()));
        if !admin.hosts.is_empty() {
            value.insert("hosts".into(), json!(admin.hosts));
        }
        if admin.open {
            value.insert("open".into(), json!(true));
        }
        if admin.token.is_some() {
            value.insert("token".into(), json!(Secret::MASK));
        }
    }
    Value::Object(value)
}
