//! What a reader asks for, written down: the JSON Schema of a file comes from the code that reads it, so neither can be forgotten.
//!
//! Does not know about: which keys there are. While it records, every table is there and empty, so that readers go down into all of them.

use super::Section;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use toml::de::DeTable;

/// What was asked for so far.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    tables: RefCell<BTreeMap<String, Table>>,
    /// In the place of every table that is not in the file.
    pub(super) empty: DeTable<'static>,
}

#[derive(Debug, Default)]
struct Table {
    /// By key, each form that the value may have; none when the reader looks at the value itself.
    keys: BTreeMap<&'static str, Vec<Value>>,
    /// Of keys that the user chooses.
    others: Option<Value>,
}

/// Stands for the schema of another table until all are known.
const LINK: &str = "$table";

/// Anything that is filled in from outside has its form only then.
const REFERENCE: &str = "\\$\\{";

impl Recorder {
    fn add(&self, table: &str, key: &'static str, form: Option<Value>) {
        let mut tables = self.tables.borrow_mut();
        let forms = tables.entry(table.to_owned()).or_default().keys.entry(key).or_default();
        if let Some(form) = form.filter(|form| !forms.contains(form)) {
            forms.push(form);
        }
    }

    /// The schema of the whole file.
    pub(crate) fn into_schema(self) -> Value {
        let tables = self.tables.into_inner();
        schema_of(&tables, "")
    }
}

fn schema_of(tables: &BTreeMap<String, Table>, name: &str) -> Value {
    let Some(table) = tables.get(name) else { return json!({ "type": "object" }) };
    let mut properties = Map::new();
    for (key, forms) in &table.keys {
        let mut forms: Vec<Value> = forms.iter().map(|form| resolved(tables, form)).collect();
        let schema = match forms.len() {
            0 => json!({}),
            1 => forms.remove(0),
            _ => json!({ "anyOf": forms }),
        };
        properties.insert((*key).to_owned(), schema);
    }
    let others = table.others.as_ref().map_or(json!(false), |form| resolved(tables, form));
    json!({ "type": "object", "properties": properties, "additionalProperties": others })
}

fn resolved(tables: &BTreeMap<String, Table>, form: &Value) -> Value {
    let link = |value: &Value| value.get(LINK).and_then(Value::as_str).map(|name| schema_of(tables, name));
    if let Some(schema) = link(form) {
        return schema;
    }
    let mut form = form.clone();
    for key in ["additionalProperties", "items"] {
        if let Some(schema) = form.get(key).and_then(link) {
            form[key] = schema;
        }
    }
    form
}

/// A string of this form, or one that is filled in from outside.
pub(super) fn text(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^(?:{pattern})$|{REFERENCE}") })
}

/// One of a few words.
pub(super) fn words(words: &[&str]) -> Value {
    json!({ "type": "string", "anyOf": [{ "enum": words }, { "pattern": REFERENCE }] })
}

/// One of these, or a list of them.
pub(super) fn one_or_list(form: &Value) -> Value {
    json!({ "anyOf": [form, { "type": "array", "items": form }] })
}

pub(super) fn either(forms: &[Value]) -> Value {
    json!({ "anyOf": forms })
}

pub(super) fn link(table: &str) -> Value {
    json!({ LINK: table })
}

impl Section<'_> {
    /// Notes a key; without a form any value will do.
    pub(super) fn note(&self, key: &'static str, form: impl FnOnce() -> Option<Value>) {
        if let Some(recorder) = self.reading.recorder {
            recorder.add(&self.kind, key, form());
        }
    }

    /// Notes the form of the keys that the user chooses.
    pub(super) fn note_others(&self, form: impl FnOnce() -> Value) {
        if let Some(recorder) = self.reading.recorder {
            let mut tables = recorder.tables.borrow_mut();
            tables.entry(self.kind.clone()).or_default().others = Some(form());
        }
    }
}
