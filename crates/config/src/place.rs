//! Values with their place in the file, and the places of all keys of a file.
//!
//! Does not know about: types of values, the set of keys.

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
    /// The byte range it was read from.
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

/// The place of each key of a file, for rules that only know the value: by path, as in
/// `listener.web.tcp.backlog`.
#[derive(Clone, Debug, Default)]
pub struct Places(BTreeMap<String, Range<usize>>);

impl Places {
    pub(crate) fn of(root: &DeTable<'_>) -> Self {
        let mut places = Self::default();
        places.add("", root);
        places
    }

    /// The place of a key's value, or of a table's header; `None` if it is not in the file.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Range<usize>> {
        self.0.get(path).cloned()
    }

    fn add(&mut self, before: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = format!("{before}{}", key.get_ref());
            if let DeValue::Table(below) = value.get_ref() {
                self.add(&format!("{path}."), below);
            }
            self.0.insert(path, value.span());
        }
    }
}
