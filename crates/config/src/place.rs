//! Values with their place in the file, and the places of all keys of a file.

use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use toml::de::{DeTable, DeValue};

/// A value and its byte range in the file.
///
/// Comparisons ignore the place.
#[derive(Clone, Debug, Default)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// The byte range from which the value was read.
    pub span: Range<usize>,
}

impl<T> At<T> {
    /// Converts the value and keeps the place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> At<U> {
        At { value: change(self.value), span: self.span }
    }
}

impl<T> From<T> for At<T> {
    /// A value that is not from the file.
    fn from(value: T) -> Self {
        Self { value, span: 0..0 }
    }
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for At<T> {}

/// The place of each key of a file by its path, as in `listener.web.tcp.backlog`. For validation
/// that gets the values without their places.
#[derive(Clone, Debug, Default)]
pub struct Places(BTreeMap<String, Place>);

/// The byte ranges of a key and its value.
#[derive(Clone, Debug)]
struct Place {
    key: Range<usize>,
    value: Range<usize>,
}

impl Places {
    pub(crate) fn of(root: &DeTable<'_>) -> Self {
        let mut places = Self::default();
        places.add("", root);
        places
    }

    /// The place of a key's value, or of a table's header; `None` if the file does not contain the
    /// key.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Range<usize>> {
        self.0.get(path).map(|place| place.value.clone())
    }

    /// The place of the value of a key in a table with a name, as in `[listener.NAME]`.
    #[must_use]
    pub fn key(&self, [kind, name, key]: [&str; 3]) -> Option<Range<usize>> {
        self.get(&format!("{kind}.{name}.{key}"))
    }

    /// The place of the name of a table, as in `[listener.NAME]`; the start of the file if it has
    /// no such table.
    #[must_use]
    pub fn name(&self, [kind, name]: [&str; 2]) -> Range<usize> {
        self.0.get(&format!("{kind}.{name}")).map(|place| place.key.clone()).unwrap_or_default()
    }

    fn add(&mut self, before: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = format!("{before}{}", key.get_ref());
            if let DeValue::Table(below) = value.get_ref() {
                self.add(&format!("{path}."), below);
            }
            self.0.insert(path, Place { key: key.span(), value: value.span() });
        }
    }
}
