//! Building blocks of a JSON Schema for values.

use serde_json::{Map, Value, json};

/// Pattern of a reference. A value with a reference has the required form only after expansion.
const REFERENCE: &str = "\\$\\{";

/// A string of this form, or one with a reference.
#[must_use]
pub fn text(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^(?:{pattern})$|{REFERENCE}") })
}

/// One of a few words.
#[must_use]
pub fn words(words: &[&str]) -> Value {
    json!({ "type": "string", "anyOf": [{ "enum": words }, { "pattern": REFERENCE }] })
}

/// A value of this form, or a list of them.
#[must_use]
pub fn one_or_list(form: &Value) -> Value {
    json!({ "anyOf": [form, { "type": "array", "items": form }] })
}

/// Any one of these forms.
#[must_use]
pub fn either(forms: &[Value]) -> Value {
    json!({ "anyOf": forms })
}

/// A table with these keys.
#[must_use]
pub fn table(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Adds the keys of one table to those of another. If both have a key, subtables are merged, and
/// other values may have either form.
pub fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, mut form) in from {
        let Some(known) = into.get_mut(&key) else {
            into.insert(key, form);
            continue;
        };
        if *known == form {
            continue;
        }
        let is_table = |form: &Value| form.get("properties").is_some_and(Value::is_object);
        if !is_table(known) || !is_table(&form) {
            *known = either(&[known.take(), form]);
        } else if let (Value::Object(both), Value::Object(more)) =
            (&mut known["properties"], form["properties"].take())
        {
            merge(both, more);
        }
    }
}
