//! Records the requests of a reader: the JSON Schema of a file comes from the code that reads it,
//! so the two always agree.
//!
//! Does not know about: the set of keys. During recording every table exists and is empty, so that
//! readers descend into all of them.

use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use toml::de::DeTable;

/// The requests so far.
#[derive(Debug, Default)]
pub struct Recorder {
    tables: RefCell<BTreeMap<String, Table>>,
    /// Stands in for every table that is not in the file.
    pub(crate) empty: DeTable<'static>,
}

#[derive(Debug, Default)]
struct Table {
    /// The allowed forms by key; empty if the reader examines the raw value.
    keys: BTreeMap<&'static str, Vec<Value>>,
    /// The form of keys that the user chooses.
    others: Option<Value>,
}

/// Refers to the schema of another table until all are known.
const LINK: &str = "$table";

impl Recorder {
    /// Records a key of a table; without a form any value is allowed.
    pub(crate) fn add(&self, table: &str, key: &'static str, form: Option<Value>) {
        let mut tables = self.tables.borrow_mut();
        let forms = tables.entry(table.to_owned()).or_default().keys.entry(key).or_default();
        if let Some(form) = form.filter(|form| !forms.contains(form)) {
            forms.push(form);
        }
    }

    /// Records the form of the keys of a table that the user chooses.
    pub(crate) fn add_others(&self, table: &str, form: Value) {
        self.tables.borrow_mut().entry(table.to_owned()).or_default().others = Some(form);
    }

    /// The schema of the whole file.
    #[must_use]
    pub fn into_schema(self) -> Value {
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

pub(super) fn link(table: &str) -> Value {
    json!({ LINK: table })
}
