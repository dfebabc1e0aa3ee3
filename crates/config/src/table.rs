//! Tables whose keys are fields: `#[derive(Table)]` generates the functions that list them.

use crate::entry::Entry;
use crate::expand::Env;
use crate::form;
use crate::key::Key;
use crate::problem::Problems;
use crate::program::Program;
use crate::section::{Reading, Section};
use crate::value::Value;
use serde_json::{Map, Value as Json, json};
use std::cell::RefCell;
use std::path::Path;
use toml::de::DeValue;

/// A table of a file.
pub trait Table: Clone + Sized + 'static {
    /// Documentation: the comment of the struct.
    const DOC: &'static str;

    /// Its keys, in the order of the fields.
    fn keys() -> &'static [Key];

    /// The table with every key at its default.
    fn defaults() -> &'static Self;

    /// Reads every key, and applies the table's own checks.
    fn take(at: &mut Section<'_>) -> Self;

    /// Adds every key to a dump.
    fn show(&self, to: &mut Dump);

    /// The name that the user chose for the table.
    fn name(&self) -> &str {
        ""
    }

    /// The JSON Schema of its keys.
    #[must_use]
    fn properties() -> Map<String, Json> {
        properties_of(Self::keys())
    }

    /// The JSON Schema of the table.
    #[must_use]
    fn schema() -> Json {
        json!({
            "type": "object",
            "description": Self::DOC,
            "properties": Self::properties(),
            "additionalProperties": false,
        })
    }

    /// The table as written in a file, with or without default values.
    #[must_use]
    fn to_json(&self, with_defaults: bool) -> Json {
        let mut dump = Dump { with_defaults, table: Map::new() };
        self.show(&mut dump);
        Json::Object(dump.table)
    }
}

/// The JSON Schema of keys, those of a subtable grouped together.
#[must_use]
pub fn properties_of(keys: &[Key]) -> Map<String, Json> {
    let mut properties = Map::new();
    for key in keys {
        let form = Map::from_iter([(key.name.to_owned(), key.schema())]);
        let form = match key.table {
            None => form,
            Some(table) => Map::from_iter([(table.to_owned(), form::table(form))]),
        };
        form::merge(&mut properties, form);
    }
    properties
}

/// Reads a whole table and reports unknown keys.
pub(crate) fn read<T: Table>(mut at: Section<'_>) -> T {
    let table = T::take(&mut at);
    at.finish();
    table
}

/// A table that is being dumped.
#[derive(Debug)]
pub struct Dump {
    with_defaults: bool,
    table: Map<String, Json>,
}

impl Dump {
    /// Adds a key. If defaults are omitted, a key at its default is not added unless it is always shown.
    pub fn key<T: Value>(&mut self, key: &Key, value: &T) {
        self.shown(key, value.dump(key, self.with_defaults), key.default.as_ref());
    }

    /// Adds a key whose default depends on other keys.
    pub fn key_with<T: Value>(&mut self, key: &Key, value: &T, default: &T) {
        let default = default.dump(key, self.with_defaults);
        self.shown(key, value.dump(key, self.with_defaults), default.as_ref());
    }

    /// Removes keys. A key in a subtable is written `tcp.backlog`.
    pub fn hide(&mut self, paths: &[&str]) {
        for path in paths {
            let (tables, key) = path.rsplit_once('.').unwrap_or(("", path));
            let tables = tables.split('.').filter(|table| !table.is_empty());
            let mut tables = tables.map(str::to_owned);
            let below = tables.try_fold(&mut self.table, |table, name| table.get_mut(&name)?.as_object_mut());
            below.and_then(|table| table.remove(key));
        }
    }

    /// Adds a value to this table, or to the subtable `table`.
    pub fn put(&mut self, table: Option<&str>, name: &str, value: Json) {
        let table = match table {
            None => Some(&mut self.table),
            Some(name) => self.table.entry(name).or_insert_with(|| json!({})).as_object_mut(),
        };
        table.map(|table| table.insert(name.to_owned(), value));
    }

    /// Adds a key whose value was converted by the caller.
    pub fn shown(&mut self, key: &Key, value: Option<Json>, default: Option<&Json>) {
        let Some(value) = value else { return };
        let is_default = default == Some(&value);
        let is_empty = value.as_object().is_some_and(Map::is_empty);
        let is_empty_list = key.default.is_none() && value.as_array().is_some_and(Vec::is_empty);
        if key.is_shown || !is_empty_list && (self.with_defaults || !is_default && !is_empty) {
            self.put(key.table, key.name, value);
        }
    }
}

/// The default of a key, read as if it were in a file; without one, [`Value::absent`].
///
/// # Panics
/// The default in the declaration of the key is not a valid value.
#[must_use]
pub fn default_of<T: Value>(key: &'static Key) -> T {
    if key.default.is_some() { default_by(key, T::read) } else { T::absent() }
}

/// The default of a key, read with a custom reader as if it were in a file.
///
/// # Panics
/// The declaration of the key has no default, or the default is not a valid value.
pub fn default_by<T>(key: &'static Key, read: impl FnOnce(&Entry<'_>) -> Option<T>) -> T {
    let text = key.default.as_ref().map(Json::to_string).unwrap_or_default();
    let (problems, muted, secret_files) = (Problems::default(), Problems::default(), RefCell::default());
    let env: Env<'_> = &|_| None;
    let read_secret = |_: &Path| Err("a default has no secret".to_owned());
    let reading = Reading {
        problems: &problems,
        muted: &muted,
        is_broken: false,
        root: None,
        env,
        read_secret: &read_secret,
        secret_files: &secret_files,
        program: &Program::NONE,
    };
    let raw = DeValue::parse(&text).ok();
    let entry = raw.as_ref().map(|raw| Entry { reading, kind: "".into(), name: key.name, key, raw });
    let value = entry.and_then(|entry| read(&entry));
    value.unwrap_or_else(|| panic!("the default of `{}` is not a valid value: {text}", key.name))
}
