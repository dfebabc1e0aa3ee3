//! Building blocks of a JSON Schema for values.
//!
//! Does not know about: which value has which form.

use serde_json::{Value, json};

/// A value with a reference has its form only after expansion.
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
