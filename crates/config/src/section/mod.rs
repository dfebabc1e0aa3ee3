//! One table of the file, read key by key: the reader asks for known keys, and the rest is
//! reported.
//!
//! Does not know about: the set of keys.

mod keyed;
mod record;

pub use record::Recorder;

use crate::entry::Entry;
use crate::expand::{Env, ReadSecret};
use crate::key::Key;
use crate::place::At;
use crate::problem::{Problem, Problems};
use crate::program::Program;
use crate::table::Table;
use crate::value::Value;
use crate::words::did_you_mean;
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// State shared by all sections of one file.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions have nothing to show")]
pub struct Reading<'r> {
    /// Collects problems.
    pub problems: &'r Problems,
    /// Looks up `${NAME}`.
    pub env: Env<'r>,
    /// Reads `${file:PATH}`.
    pub read_secret: ReadSecret<'r>,
    /// Files that contain secrets.
    pub secret_files: &'r RefCell<Vec<At<PathBuf>>>,
    /// Properties of the program.
    pub program: &'r Program,
    /// Records the requested keys for the schema.
    pub recorder: Option<&'r Recorder>,
}

/// A table that is being read.
#[expect(missing_debug_implementations, reason = "a borrowed part of a file")]
pub struct Section<'r> {
    reading: Reading<'r>,
    table: &'r DeTable<'r>,
    /// Place of the table's header, or of an inline table.
    pub span: Range<usize>,
    /// The name the user chose for it.
    pub name: &'r str,
    /// The kind as in the file, with `NAME` for names chosen by the user; for messages.
    kind: Rc<str>,
    /// Keys requested so far.
    known: Vec<&'static str>,
    /// Other names of keys, each with the right name.
    other_names: Vec<(&'static str, &'static str)>,
    /// Keys with valid values.
    right: Vec<&'static str>,
}

impl<'r> Section<'r> {
    /// The root table.
    #[must_use]
    pub fn root(table: &'r DeTable<'r>, reading: Reading<'r>) -> Self {
        Self::new(reading, table, 0..0, String::new())
    }

    pub(crate) fn new(
        reading: Reading<'r>,
        table: &'r DeTable<'r>,
        span: Range<usize>,
        kind: String,
    ) -> Self {
        let (known, other_names, right) = (Vec::new(), Vec::new(), Vec::new());
        Self { reading, table, span, name: "", kind: kind.into(), known, other_names, right }
    }

    /// Reads a key; returns the default of the table if it is missing or invalid.
    pub fn read<T: Value>(&mut self, key: &'static Key, default: &T) -> T {
        self.read_with(key, default, T::read)
    }

    /// The same with a custom reader.
    pub fn read_with<T: Clone>(
        &mut self,
        key: &'static Key,
        default: &T,
        read: impl FnOnce(&Entry<'_>) -> Option<T>,
    ) -> T {
        self.note(key.name, || Some(key.schema()));
        self.other_names.extend(key.other_names.iter().map(|other| (*other, key.name)));
        let Some(entry) = self.entry(key.name, key) else {
            if let Some(example) = key.required {
                self.missing(key, example);
            }
            return default.clone();
        };
        let Some(value) = read(&entry) else { return default.clone() };
        self.right.push(key.name);
        value
    }

    /// Whether a key is present with a valid value.
    #[must_use]
    pub fn is_right(&self, key: &str) -> bool {
        self.right.contains(&key)
    }

    /// The place of a key's value, valid or not; also of keys in a table below, as `tcp.backlog`.
    #[must_use]
    pub fn place(&self, path: &str) -> Option<Range<usize>> {
        let mut parts = path.split('.');
        let first = self.table.get(parts.next()?)?;
        let value = parts.try_fold(first, |value, part| value.get_ref().as_table()?.get(part))?;
        Some(value.span())
    }

    /// The place of a key's value if it is valid.
    #[must_use]
    pub fn right_place(&self, path: &str) -> Option<Range<usize>> {
        let is_below = path.contains('.');
        self.place(path).filter(|place| match is_below {
            true => !self.reading.problems.has_error_at(place),
            false => self.is_right(path),
        })
    }

    /// Reports a problem.
    pub fn problem(&self, problem: Problem) {
        self.reading.problems.add(problem);
    }

    fn missing(&self, key: &Key, example: &str) {
        let table = match (self.name, self.kind.rsplit_once(".NAME")) {
            ("", _) => format!("[{}]", self.kind),
            (name, Some((kind, ""))) => format!("{kind} `{name}`"),
            (name, _) => format!("`{name}`"),
        };
        let message = format!("{table} has no `{}`", key.name);
        self.problem(
            Problem::error("missing-key", self.span.clone(), message)
                .help(format!("add `{} = {example}`", key.name)),
        );
    }

    /// Reads a table below this one whose keys are declared by its type.
    pub fn table<T: Table>(&mut self, key: &'static str) -> Option<T> {
        self.note(key, || Some(T::schema()));
        self.entry(key, &Key::PLAIN)?.table().map(crate::table::read)
    }

    /// Reads the whole table, for types that declare its keys.
    #[must_use]
    pub fn into_table<T: Table>(self) -> T {
        crate::table::read(self)
    }

    /// Reports the keys that were not requested.
    pub fn finish(self) {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, _) in entries {
            let text: &str = name.get_ref();
            if self.known.contains(&text) {
                continue;
            }
            let place = if self.kind.is_empty() { "the file".into() } else { format!("[{}]", self.kind) };
            self.problem(
                Problem::error("unknown-key", name.span(), format!("unknown key {text:?}"))
                    .label(format!("not a key of {place}"))
                    .help(self.instead_of(text)),
            );
        }
    }

    /// A suggestion for an unknown key.
    fn instead_of(&self, unknown: &str) -> String {
        let mut sorted = self.known.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let renamed = self.other_names.iter().find(|(other, _)| *other == unknown);
        renamed
            .map(|(_, name)| format!("it is called `{name}`"))
            .or_else(|| (self.reading.program.elsewhere)(&self.kind, unknown).map(str::to_owned))
            .or_else(|| did_you_mean(unknown, &sorted))
            .unwrap_or_else(|| format!("known keys: {}", sorted.join(", ")))
    }

    /// Records a key; without a form any value is allowed.
    fn note(&self, key: &'static str, form: impl FnOnce() -> Option<Json>) {
        if let Some(recorder) = self.reading.recorder {
            recorder.add(&self.kind, key, form());
        }
    }

    /// The raw value of a key.
    fn entry(&mut self, name: &'static str, key: &'r Key) -> Option<Entry<'r>> {
        self.known.push(name);
        let raw = self.table.get(name)?;
        Some(Entry { reading: self.reading, kind: Rc::clone(&self.kind), name, key, raw })
    }

    /// Tables named by the user: `[key.NAME]`, in the order of the file.
    pub fn named(&mut self, key: &'static str) -> Vec<(At<String>, Self)> {
        let kind = format!("{key}.NAME");
        self.note(key, || Some(json!({ "type": "object", "additionalProperties": record::link(&kind) })));
        let mut sections = Vec::new();
        if let Some(recorder) = self.reading.recorder {
            sections
                .push((At { value: "NAME".into(), span: 0..0 }, self.below_absent(kind.clone(), recorder)));
        }
        let Some(entry) = self.entry(key, &Key::PLAIN) else { return sections };
        let Some(group) = entry.table() else { return sections };
        let entries = group.sorted();
        if let Some((first, _)) = entries.iter().find(|(_, value)| !value.get_ref().is_table()) {
            let message = format!("`[{key}]` has no name");
            let help = format!("write `[{key}.NAME]` above it, as in [{key}.main]");
            self.problem(
                Problem::error("missing-name", first.span.clone(), message)
                    .label("a key of which one?")
                    .help(help),
            );
        }
        for (name, raw) in entries.into_iter().filter(|(_, value)| value.get_ref().is_table()) {
            let text = name.value;
            if text.is_empty()
                || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
            {
                self.problem(
                    Problem::error("bad-name", name.span, format!("{text:?} is not a name"))
                        .help("a name is made of letters, digits, `_` and `-`"),
                );
                continue;
            }
            if let Some(mut section) = entry.item(raw).table_of(kind.clone()) {
                section.name = text;
                sections.push((At { value: text.to_owned(), span: name.span }, section));
            }
        }
        sections
    }

    /// All keys with their values, in the order of the file.
    fn sorted(&self) -> Vec<(At<&'r str>, &'r Spanned<DeValue<'r>>)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let entries = entries.into_iter().map(|(name, value)| {
            let text: &str = name.get_ref();
            (At { value: text, span: name.span() }, value)
        });
        entries.collect()
    }

    /// All entries of a table whose keys the user chooses, in the order of the file.
    pub(crate) fn entries(&self, key: &'r Key) -> Vec<(At<String>, Entry<'r>)> {
        let entries = self.sorted().into_iter().map(|(name, raw)| {
            let entry =
                Entry { reading: self.reading, kind: Rc::clone(&self.kind), name: name.value, key, raw };
            (name.map(str::to_owned), entry)
        });
        entries.collect()
    }

    fn below_absent(&self, kind: String, recorder: &'r Recorder) -> Self {
        Self::new(self.reading, &recorder.empty, 0..0, kind)
    }
}

/// The kind of a table below one of this kind.
pub(crate) fn kind_below(kind: &str, key: &str) -> String {
    if kind.is_empty() { key.to_owned() } else { format!("{kind}.{key}") }
}
