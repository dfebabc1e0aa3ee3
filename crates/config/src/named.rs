//! Tables by names that the user chooses, as `[listener.NAME]`.

use crate::entry::Entry;
use crate::key::Key;
use crate::problem::Problem;
use crate::table::{self, Table};
use crate::value::Value;
use serde_json::{Value as Json, json};
use std::ops::{Deref, DerefMut};

/// Maximum length of the name of a table, in bytes.
pub const NAME_LEN_MAX: usize = 128;

/// Tables by name, in the order of the file. Each table contains its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T>(Vec<T>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> From<Vec<T>> for Named<T> {
    fn from(tables: Vec<T>) -> Self {
        Self(tables)
    }
}

impl<T> Deref for Named<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for Named<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<'a, T> IntoIterator for &'a Named<T> {
    type IntoIter = std::slice::Iter<'a, T>;
    type Item = &'a T;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Named<T> {
    type IntoIter = std::slice::IterMut<'a, T>;
    type Item = &'a mut T;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}

impl<T: Table> Value for Named<T> {
    const IS_OPTIONAL: bool = true;

    fn read(entry: &Entry<'_>) -> Option<Self> {
        let entries = entry.table()?.sorted();
        let kind = entry.name();
        if let Some((first, _)) = entries.iter().find(|(_, raw)| !raw.get_ref().is_table()) {
            entry.problem(
                Problem::error("missing-name", first.span.clone(), format!("`[{kind}]` has no name"))
                    .label("the name is missing")
                    .help(format!("write `[{kind}.NAME]` above it, as in [{kind}.main]")),
            );
        }
        let mut tables = Vec::new();
        for (name, raw) in entries.into_iter().filter(|(_, raw)| raw.get_ref().is_table()) {
            let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            if !(1..=NAME_LEN_MAX).contains(&name.len()) || !name.bytes().all(is_good) {
                let help = format!("a name is made of at most {NAME_LEN_MAX} letters, digits, `_` and `-`");
                let message = format!("{:?} is not a name", name.value);
                entry.problem(Problem::error("bad-name", name.span, message).help(help));
                continue;
            }
            if let Some(mut section) = entry.item(raw).table_of(format!("{kind}.NAME")) {
                section.name = name.value;
                tables.push(table::read(section));
            }
        }
        Some(Self(tables))
    }

    fn absent() -> Self {
        Self::default()
    }

    fn dump(&self, _key: &Key, with_defaults: bool) -> Option<Json> {
        let tables = self.iter().map(|table| (table.name().to_owned(), table.to_json(with_defaults)));
        (!self.is_empty()).then(|| tables.collect())
    }

    fn form(_key: &Key) -> Json {
        json!({ "type": "object", "additionalProperties": T::schema() })
    }
}
