//! The JSON Schema of configuration files, for editors: made by the readers themselves.
//!
//! Does not know about: keys, but for the few whose value a reader takes apart by hand. Rules between keys are `doorbell check`'s.

use super::keys;
use super::program::PROGRAM;
use super::written;
use doorbell_config::{Problems, Reading, Recorder, Section};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fmt::Write as _;
use toml::de::DeTable;

/// Draft 7, which editors know best.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// What a file looks like.
#[must_use]
pub fn schema() -> Value {
    let recorder = Recorder::default();
    let text = seed();
    let (table, _syntax) = DeTable::parse_recoverable(&text);
    // Nothing is reported: the file is one of examples, half of them empty.
    let problems = Problems::default();
    let secret_files = RefCell::default();
    let read_secret = |_: &std::path::Path| Err("there is none".to_owned());
    let reading = Reading {
        problems: &problems,
        env: &|_| None,
        read_secret: &read_secret,
        secret_files: &secret_files,
        program: &PROGRAM,
        recorder: Some(&recorder),
    };
    drop(written::File::read(Section::root(table.get_ref(), reading)));
    let mut schema = recorder.into_schema();
    schema["$schema"] = DIALECT.into();
    schema["title"] = "doorbell.toml".into();
    schema["required"] = json!(["version"]);
    for (pointer, form) in by_hand() {
        if let Some(place) = schema.pointer_mut(&pointer) {
            *place = form;
        }
    }
    for pointer in [
        "/properties/check/additionalProperties/properties/flap",
        "/properties/check_defaults/properties/flap",
    ] {
        if let Some(place) = schema.pointer_mut(pointer) {
            *place = json!({ "anyOf": [place.take(), { "enum": ["off"] }] });
        }
    }
    keys::annotate(&mut schema);
    schema
}

/// Which keys there are may depend on a word: a check of each type.
fn seed() -> String {
    let mut text = "version = 1\n[check_defaults]\nflap = {}\n".to_owned();
    for word in written::TYPES {
        let _infallible = writeln!(text, "[check.{word}]\ntype = \"{word}\"\nflap = {{}}");
    }
    text
}

/// Values that take several types, by their place. A place that is no more is left out.
fn by_hand() -> Vec<(String, Value)> {
    let at = |path: &str| {
        let mut pointer = String::new();
        for part in path.split('.') {
            pointer.push_str(if part == "NAME" { "/additionalProperties" } else { "/properties/" });
            if part != "NAME" {
                pointer.push_str(part);
            }
        }
        pointer
    };
    vec![(at("version"), json!({ "const": 1 })), (at("check.NAME.type"), json!({ "enum": written::TYPES }))]
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn values_taken_apart_by_hand_are_where_they_were() {
        let schema = schema();
        for (pointer, form) in by_hand() {
            let found = schema.pointer(&pointer).and_then(Value::as_object);
            let mut found = found.cloned().unwrap_or_default();
            found.retain(|key, _| !["description", "default"].contains(&&**key));
            assert_eq!(Value::Object(found), form, "{pointer}");
        }
    }
}
