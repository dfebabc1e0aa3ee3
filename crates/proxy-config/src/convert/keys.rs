//! The keys of one table: each is taken once, and the rest is reported.

use super::yaml::{Entry, Node, Value};
use std::cell::RefCell;
use std::fmt;

/// What to do instead, if there is no equivalent.
pub(super) const KEEP: &str = "keep the exporter for this module";

/// A line that was not converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unconverted {
    pub(super) line: usize,
    /// Path of the key or table, as in `modules.m.icmp.ttl`.
    key: String,
    why: String,
    instead: String,
}

impl fmt::Display for Unconverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, key, why, instead } = self;
        write!(f, "{line}: {key}: {why}; {instead}")
    }
}

/// A table that is being converted.
pub(super) struct Keys<'n> {
    path: String,
    line: usize,
    entries: Vec<&'n Entry>,
    notes: &'n RefCell<Vec<Unconverted>>,
}

/// A value with its line and the name of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'n, T> {
    pub(super) line: usize,
    pub(super) name: &'n str,
    pub(super) value: T,
}

impl Entry {
    fn placed(&self) -> Placed<'_, ()> {
        Placed { line: self.line, name: &self.name, value: () }
    }
}

impl Node {
    /// The line of a value of the key `name`.
    pub(super) const fn placed<'n>(&self, name: &'n str) -> Placed<'n, ()> {
        Placed { line: self.line, name, value: () }
    }
}

impl<'n> Keys<'n> {
    /// The keys of a node. Null counts as an empty table; a list or a text is reported and has no
    /// keys.
    pub(super) fn of(path: String, node: &'n Node, notes: &'n RefCell<Vec<Unconverted>>) -> Self {
        let entries = match &node.value {
            Value::Table(table) => table.iter().collect(),
            Value::List(_) | Value::Text(_) => Vec::new(),
        };
        let keys = Self { path, line: node.line, entries, notes };
        let is_null = matches!(&node.value, Value::Text(text) if text.is_empty());
        if !matches!(node.value, Value::Table(_)) && !is_null {
            keys.push(node.line, keys.path.clone(), "this is not a table", "correct the line");
        }
        keys
    }

    /// Reports a key of this table.
    pub(super) fn report<T>(&self, at: &Placed<'_, T>, why: &str, instead: &str) {
        self.push(at.line, self.path_of(at.name), why, instead);
    }

    /// Reports this table as a whole.
    pub(super) fn report_table(&self, why: &str, instead: &str) {
        self.push(self.line, self.path.clone(), why, instead);
    }

    /// Path of a key of this table, with dots between the names.
    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn push(&self, line: usize, key: String, why: &str, instead: &str) {
        let note = Unconverted { line, key, why: why.to_owned(), instead: instead.to_owned() };
        self.notes.borrow_mut().push(note);
    }

    fn take(&mut self, name: &str) -> Option<&'n Entry> {
        let at = self.entries.iter().position(|entry| entry.name == name)?;
        Some(self.entries.remove(at))
    }

    /// Takes a text.
    pub(super) fn text(&mut self, name: &str) -> Option<Placed<'n, &'n str>> {
        let entry = self.take(name)?;
        match &entry.value.value {
            Value::Text(text) => Some(Placed { line: entry.line, name: &entry.name, value: text }),
            Value::List(_) | Value::Table(_) => {
                self.report(&entry.placed(), "this is not text", "correct the line");
                None
            }
        }
    }

    /// Takes true or false; false if the key is missing or invalid.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        self.placed_flag(name).is_some_and(|flag| flag.value)
    }

    /// Takes true or false, with the line and name of the key.
    pub(super) fn placed_flag(&mut self, name: &str) -> Option<Placed<'n, bool>> {
        let text = self.text(name)?;
        let Placed { line, name, value } = text;
        match &*value.to_ascii_lowercase() {
            "true" | "yes" | "on" => Some(Placed { line, name, value: true }),
            "false" | "no" | "off" => Some(Placed { line, name, value: false }),
            _ => {
                self.report(&text, "this is neither true nor false", "correct the line");
                None
            }
        }
    }

    /// Takes a list; empty if the key is missing or invalid.
    pub(super) fn list(&mut self, name: &str) -> &'n [Node] {
        let Some(entry) = self.take(name) else { return &[] };
        match &entry.value.value {
            Value::List(list) => list,
            Value::Text(text) if text.is_empty() => &[],
            Value::Table(_) | Value::Text(_) => {
                self.report(&entry.placed(), "this is not a list", "correct the line");
                &[]
            }
        }
    }

    /// Takes a list of texts.
    pub(super) fn texts(&mut self, name: &'n str) -> Vec<Placed<'n, &'n str>> {
        let mut texts = Vec::new();
        for node in self.list(name) {
            match &node.value {
                Value::Text(text) => texts.push(Placed { line: node.line, name, value: text.as_str() }),
                Value::List(_) | Value::Table(_) => {
                    self.report(&node.placed(name), "this is not text", "correct the line");
                }
            }
        }
        texts
    }

    /// Takes keys of which only one value has an equivalent, and reports other values with the
    /// reason. Returns false if a key has another value.
    pub(super) fn have_only(&mut self, known: &[(&str, &str, &str)]) -> bool {
        let mut is_known = true;
        for (name, only, why) in known {
            if let Some(text) = self.text(name).filter(|text| !text.value.eq_ignore_ascii_case(only)) {
                self.report(&text, why, KEEP);
                is_known = false;
            }
        }
        is_known
    }

    /// Whether one of these keys is present and not taken yet.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        self.entries.iter().any(|entry| names.contains(&entry.name.as_str()))
    }

    /// The tables in this table, by name.
    pub(super) fn tables(self) -> Vec<(&'n str, Self)> {
        let below = |entry: &&'n Entry| {
            let keys = Self::of(self.path_of(&entry.name), &entry.value, self.notes);
            (entry.name.as_str(), Self { line: entry.line, ..keys })
        };
        self.entries.iter().map(below).collect()
    }

    /// Takes a table.
    pub(super) fn table(&mut self, name: &str) -> Option<Self> {
        let entry = self.take(name)?;
        Some(Self::of(self.path_of(name), &entry.value, self.notes))
    }

    /// Takes a table; empty if the key is missing.
    pub(super) fn table_or_empty(&mut self, name: &str) -> Self {
        let path = self.path_of(name);
        self.table(name).unwrap_or(Self { path, line: self.line, entries: Vec::new(), notes: self.notes })
    }

    /// The keys of an element of a list in this table.
    pub(super) fn element(&self, name: &str, node: &'n Node) -> Self {
        Self::of(self.path_of(name), node, self.notes)
    }

    /// Takes all keys. Values other than texts are reported and not returned.
    pub(super) fn all_texts(mut self) -> Vec<Placed<'n, &'n str>> {
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        names.into_iter().filter_map(|name| self.text(name)).collect()
    }

    /// Reports the remaining keys except those in `ignored`.
    pub(super) fn finish_except(mut self, ignored: &[&str]) {
        self.entries.retain(|entry| !ignored.contains(&entry.name.as_str()));
        self.finish(&[]);
    }

    /// Reports the remaining keys: those in `known` with their own explanations.
    pub(super) fn finish(self, known: &[(&str, &str, &str)]) {
        for entry in &self.entries {
            let explained = known.iter().find(|(name, ..)| *name == entry.name);
            let unknown = ("", "this key is unknown", "correct the line");
            let (_, why, instead) = explained.unwrap_or(&unknown);
            self.report(&entry.placed(), why, instead);
        }
    }
}
