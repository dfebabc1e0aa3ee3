//! The JSON Schema of configuration files, for editors.
//!
//! Does not know about: keys, apart from `version`. Rules between keys are not part of the schema;
//! `doorbell validate` checks these rules.

use super::model::Config;
use doorbell_config::Table as _;
use serde_json::{Value, json};

/// Identifier of JSON Schema draft 7, which editors support best.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// The schema of a configuration file.
#[must_use]
pub fn schema() -> Value {
    let mut schema = Config::schema();
    schema["$schema"] = DIALECT.into();
    schema["title"] = "doorbell.toml".into();
    schema["required"] = json!(["version"]);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn readers_tell_their_keys() {
        let schema = schema();
        for (pointer, expected) in [
            ("/properties/version/const", json!(1)),
            ("/additionalProperties", json!(false)),
            (
                "/properties/listener/additionalProperties/properties/timeouts/properties/header/type",
                json!("string"),
            ),
            ("/properties/listener/additionalProperties/additionalProperties", json!(false)),
            (
                "/properties/check/additionalProperties/properties/expect/properties/exists/type",
                json!("boolean"),
            ),
            ("/properties/check/additionalProperties/properties/send_hex/type", json!("string")),
            (
                "/properties/health/additionalProperties/properties/weight/additionalProperties/type",
                json!("integer"),
            ),
            (
                "/properties/route/additionalProperties/properties/headers/additionalProperties/type",
                json!("string"),
            ),
            ("/properties/health/additionalProperties/properties/status/properties/up/maximum", json!(399)),
            ("/properties/maintenance/properties/window/type", json!("array")),
            ("/properties/maintenance/properties/window/items/properties/reason/type", json!("string")),
        ] {
            assert_eq!(schema.pointer(pointer), Some(&expected), "{pointer}");
        }
    }

    /// Collects every location of the schema with its subschema.
    fn places<'s>(form: &'s Value, at: &str, found: &mut BTreeMap<String, &'s Value>) {
        let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
        let lists = form["anyOf"].as_array().into_iter().flatten();
        for inner in lists.chain([&form["items"]]).filter(|inner| inner.is_object()) {
            places(inner, at, found);
        }
        for (key, form) in form["properties"].as_object().into_iter().flatten() {
            found.insert(below(key), form);
            places(form, &below(key), found);
        }
        let others = &form["additionalProperties"];
        if others["properties"].is_object() {
            found.insert(below("NAME"), others);
            places(others, &below("NAME"), found);
        }
    }

    #[test]
    fn every_key_has_its_documentation() {
        let schema = schema();
        let mut found = BTreeMap::from([(String::new(), &schema)]);
        places(&schema, "", &mut found);
        assert!(found.len() > 330, "{}", found.len());
        for (at, form) in &found {
            let doc = form["description"].as_str().unwrap_or_else(|| panic!("`{at}` has no documentation"));
            assert!(doc.ends_with('.') && !doc.contains("  "), "{at}: {doc}");
        }
    }

    /// The schema has no default for a key whose default depends on other keys.
    #[test]
    fn defaults_are_those_of_a_file_without_them() {
        let schema = schema();
        let mut found = BTreeMap::new();
        places(&schema, "", &mut found);
        for (at, expected) in [
            ("runtime.driver", Some(Value::from("auto"))),
            ("lifecycle.drain_delay", Some("5s".into())),
            ("listener.NAME.tcp.backlog", Some(4096.into())),
            ("check_defaults.interval", Some("5s".into())),
            ("check_defaults.flap", Some("off".into())),
            ("check_defaults.flap.window", Some("5m".into())),
            ("health.NAME.status.down", Some(503.into())),
            ("check.NAME.expect.code", Some("NOERROR".into())),
            ("route.NAME.redirect", None),
            ("check_defaults.timeout", None),
            ("check_defaults.down_interval", None),
            ("check.NAME.up_above", None),
            ("limit.NAME.burst", None),
            ("health.NAME.on_drain.default", None),
            ("listener.NAME.bind", None),
            ("route.NAME.listener", None),
            ("route.NAME.methods", None),
            ("route.NAME.redirect.status", None),
            ("health.NAME.require", None),
        ] {
            assert_eq!(found.get(at).and_then(|form| form.get("default")), expected.as_ref(), "{at}");
        }
    }

    #[test]
    fn a_key_of_several_kinds_of_checks_says_of_which() {
        let schema = schema();
        let doc =
            &schema["properties"]["check"]["additionalProperties"]["properties"]["address"]["description"];
        let doc = doc.as_str().unwrap();
        assert!(doc.contains("redis, tcp, tls: ") && doc.contains("http, websocket: "), "{doc}");
    }
}
