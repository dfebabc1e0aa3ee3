//! Parts of a JSON Schema that values are made of.
//!
//! Does not know about: which value has which form.

use serde_json::{Value, json};

/// Anything that is filled in from outside has its form only then.
const REFERENCE: &str = "\\$\\{";

/// A string of this form, or one that is filled in from outside.
#[must_use]
pub fn text(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^(?:{pattern})$|{REFERENCE}") })
}

/// One of a few words.
#[must_use]
pub fn words(words: &[&str]) -> Value {
    json!({ "type": "string", "anyOf": [{ "enum": words }, { "pattern": REFERENCE }] })
}

/// One of these, or a list of them.
#[must_use]
pub fn one_or_list(form: &Value) -> Value {
    json!({ "anyOf": [form, { "type": "array", "items": form }] })
}

/// One of these.
#[must_use]
pub fn either(forms: &[Value]) -> Value {
    json!({ "anyOf": forms })
}
