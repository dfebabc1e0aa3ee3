//! Readers of single keys, for tables that do not derive [`Table`](crate::Table) yet. Will be
//! removed with the last of them.
//!
//! Does not know about: defaults.

use super::{Section, record};
use crate::entry::Entry;
use crate::expand::Expanded;
use crate::form;
use crate::key::Key;
use crate::place::At;
use crate::secret::Secret;
use crate::secret_names::is_credential;
use serde_json::{Value as Json, json};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// A key that refuses zero because it would block everything.
static NONZERO: Key = Key { is_nonzero: true, ..Key::PLAIN };

#[expect(
    missing_docs,
    reason = "the name describes each reader; they are removed with the last table that does not derive"
)]
impl<'r> Section<'r> {
    pub fn section(&mut self, key: &'static str) -> Option<Self> {
        let kind = super::kind_below(&self.kind, key);
        self.note(key, || Some(record::link(&kind)));
        match (self.plain(key), self.reading.recorder) {
            (Some(entry), _) => entry.table(),
            (None, Some(recorder)) => Some(self.below_absent(kind, recorder)),
            (None, None) => None,
        }
    }

    pub fn all_strings(&self) -> Vec<(At<String>, At<String>)> {
        self.all(json!({ "type": "string" }), |entry| entry.string())
    }

    /// Header fields of a request, each with whether its value is a secret; a prefix such as
    /// `Bearer` does not count as clear text.
    pub fn all_fields<T>(
        &self,
        open: impl Fn(String) -> T,
        hidden: impl Fn(Secret) -> T,
    ) -> Vec<(At<String>, At<T>)> {
        let is_clear = |expanded: &Expanded| expanded.has_literal && !expanded.has_reference;
        self.all(json!({ "type": "string" }), |entry| match is_credential(entry.name()) {
            true => entry.secret(is_clear).map(&hidden),
            false => entry.string().map(&open),
        })
    }

    fn all<T>(&self, form: Json, read: impl Fn(&Entry<'r>) -> Option<T>) -> Vec<(At<String>, At<T>)> {
        if let Some(recorder) = self.reading.recorder {
            recorder.add_others(&self.kind, form);
        }
        let entries = self.entries(&Key::PLAIN).into_iter();
        entries.filter_map(|(name, entry)| Some((name, at(&entry, read(&entry))?))).collect()
    }

    pub fn string(&mut self, key: &'static str) -> Option<At<String>> {
        self.note(key, || Some(json!({ "type": "string" })));
        let entry = self.plain(key)?;
        at(&entry, entry.string())
    }

    pub fn strings(&mut self, key: &'static str) -> Option<At<Vec<At<String>>>> {
        self.note(key, || Some(form::one_or_list(&json!({ "type": "string" }))));
        self.strings_unnoted(key)
    }

    fn strings_unnoted(&mut self, key: &'static str) -> Option<At<Vec<At<String>>>> {
        let entry = self.plain(key)?;
        if let DeValue::Array(list) = entry.raw() {
            let items = list.iter().map(|value| entry.item(value));
            let list = items.filter_map(|item| at(&item, item.string())).collect();
            return Some(At { value: list, span: entry.span() });
        }
        if !entry.raw().is_str() {
            return entry.wrong_type_with("a string or a list of strings", entry.in_quotes());
        }
        let one = at(&entry, entry.string())?;
        Some(At { value: vec![one], span: entry.span() })
    }

    pub fn bool(&mut self, key: &'static str) -> Option<At<bool>> {
        self.note(key, || Some(json!({ "type": "boolean" })));
        let entry = self.plain(key)?;
        at(&entry, entry.bool())
    }

    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<At<u32>> {
        self.integer_of(key, &Key::PLAIN, range)
    }

    fn integer_of(
        &mut self,
        name: &'static str,
        key: &'static Key,
        range: RangeInclusive<u32>,
    ) -> Option<At<u32>> {
        self.note(name, || {
            Some(json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() }))
        });
        let entry = self.entry(name, key)?;
        at(&entry, as_u32(&entry, &range))
    }

    pub fn limit(&mut self, key: &'static str, max: u32) -> Option<At<u32>> {
        self.integer_of(key, &NONZERO, 1..=max)
    }

    pub fn size(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<At<u32>> {
        self.size_of(key, &Key::PLAIN, range)
    }

    pub fn size_limit(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<At<u32>> {
        self.size_of(key, &NONZERO, range)
    }

    fn size_of(
        &mut self,
        name: &'static str,
        key: &'static Key,
        range: RangeInclusive<u32>,
    ) -> Option<At<u32>> {
        self.note(name, || Some(form::text("[0-9]+(?:GiB|MiB|KiB|B)")));
        let entry = self.entry(name, key)?;
        let size = entry.size(&wide(&range)).and_then(|size| u32::try_from(size).ok());
        at(&entry, size)
    }

    pub fn duration(&mut self, key: &'static str, range: RangeInclusive<Duration>) -> Option<At<Duration>> {
        self.note(key, || Some(form::text("(?:[0-9]+(?:d|h|ms|us|m|s))+")));
        let entry = self.plain(key)?;
        at(&entry, entry.duration(&range))
    }

    pub fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<At<T>> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.note(key, || Some(form::words(&names)));
        let entry = self.plain(key)?;
        at(&entry, entry.word(choices))
    }

    pub fn path(&mut self, key: &'static str) -> Option<At<PathBuf>> {
        self.note(key, || Some(json!({ "type": "string" })));
        let entry = self.plain(key)?;
        at(&entry, entry.path())
    }

    pub fn secret(&mut self, key: &'static str) -> Option<At<Secret>> {
        self.note(key, || Some(json!({ "type": "string" })));
        let entry = self.plain(key)?;
        at(&entry, entry.secret(|expanded| expanded.has_literal))
    }

    /// Number of keys, valid or not.
    #[expect(clippy::len_without_is_empty, reason = "only counted")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The raw value of a key; for keys that accept several types.
    pub fn value(&mut self, key: &'static str) -> Option<&'r Spanned<DeValue<'r>>> {
        self.note(key, || None);
        Some(self.plain(key)?.raw)
    }

    /// Reports a value of an unexpected type.
    pub fn wrong_type<T>(&self, value: &'r Spanned<DeValue<'r>>, expected: &str) -> Option<T> {
        let (reading, kind) = (self.reading, std::rc::Rc::clone(&self.kind));
        Entry { reading, kind, name: "", key: &Key::PLAIN, raw: value }.wrong_type(expected)
    }

    fn plain(&mut self, key: &'static str) -> Option<Entry<'r>> {
        self.entry(key, &Key::PLAIN)
    }
}

fn at<T>(entry: &Entry<'_>, value: Option<T>) -> Option<At<T>> {
    Some(At { value: value?, span: entry.span() })
}

fn wide(range: &RangeInclusive<u32>) -> RangeInclusive<u64> {
    u64::from(*range.start())..=u64::from(*range.end())
}

fn as_u32(entry: &Entry<'_>, range: &RangeInclusive<u32>) -> Option<u32> {
    entry.integer(&wide(range)).and_then(|number| u32::try_from(number).ok())
}
