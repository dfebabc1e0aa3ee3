//! Values by names that the user chooses, as in `weight = { NAME = 1 }`.

use crate::entry::Entry;
use crate::key::Key;
use crate::place::At;
use crate::value::Value;
use serde_json::{Value as Json, json};
use std::ops::Deref;

/// Values by name, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<T>(Vec<(At<String>, At<T>)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for Map<T> {
    type Target = Vec<(At<String>, At<T>)>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> FromIterator<(String, T)> for Map<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(list: I) -> Self {
        Self(list.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl<T> Map<T> {
    /// Keeps the values for which `is_good` returns true; `is_good` may change a value.
    pub fn retain(&mut self, mut is_good: impl FnMut(&mut At<T>) -> bool) {
        self.0.retain_mut(|(_, value)| is_good(value));
    }
}

impl<T: Value> Value for Map<T> {
    const IS_OPTIONAL: bool = true;

    fn read(entry: &Entry<'_>) -> Option<Self> {
        let entries = entry.table()?.entries(entry.key);
        let is_empty = entries.is_empty();
        let right: Vec<_> =
            entries.into_iter().filter_map(|(name, entry)| Some((name, At::read(&entry)?))).collect();
        (is_empty || !right.is_empty()).then_some(Self(right))
    }

    fn absent() -> Self {
        Self::default()
    }

    fn dump(&self, key: &Key, with_defaults: bool) -> Option<Json> {
        let values = self.iter();
        Some(
            values
                .filter_map(|(name, value)| Some((name.value.clone(), value.dump(key, with_defaults)?)))
                .collect(),
        )
        .filter(|_| !self.is_empty())
    }

    fn form(key: &Key) -> Json {
        json!({ "type": "object", "additionalProperties": T::form(key) })
    }
}
