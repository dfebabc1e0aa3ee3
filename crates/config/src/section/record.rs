//! What a reader asks for, written down: the JSON Schema of a file comes from the code that reads it, so neither can be forgotten.
//!
//! Does not know about: which keys there are. While it records, every table is there and empty, so that readers go down into all of them.

use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use toml::de::DeTable;

/// What was asked for so far.
#[derive(Debug, Default)]
pub struct Recorder {
    tables: RefCell<BTreeMap<String, Table>>,
    /// In the place of every table that is not in the file.
    pub(crate) empty: DeTable<'static>,
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

impl Recorder {
    /// Notes a key of a table; without a form any value will do.
    pub(crate) fn add(&self, table: &str, key: &'static str, form: Option<Value>) {
        let mut tables = self.tables.borrow_mut();
        let forms = tables.entry(table.to_owned()).or_default().keys.entry(key).or_default();
        if let Some(form) = form.filter(|form| !forms.contains(form)) {
            forms.push(form);
        }
    }

    /// Notes the form of the keys of a table that the user chooses.
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
