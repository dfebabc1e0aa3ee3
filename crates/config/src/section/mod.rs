//! One table of the file, read key by key: what is asked for is known, what is left over is reported.
//!
//! Does not know about: which keys there are.

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

/// What every section of one file shares.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions have nothing to show")]
pub struct Reading<'r> {
    /// Where problems are reported.
    pub problems: &'r Problems,
    /// `${NAME}`
    pub env: Env<'r>,
    /// `${file:PATH}`
    pub read_secret: ReadSecret<'r>,
    /// Files that secrets came from.
    pub secret_files: &'r RefCell<Vec<At<PathBuf>>>,
    /// Facts of the program.
    pub program: &'r Program,
    /// Writes down what is asked for.
    pub recorder: Option<&'r Recorder>,
}

/// A table that is being read.
#[expect(missing_debug_implementations, reason = "a borrowed part of a file")]
pub struct Section<'r> {
    reading: Reading<'r>,
    table: &'r DeTable<'r>,
    /// The header of the table, or the table itself when it stands in a line.
    pub span: Range<usize>,
    /// The name the user chose for it.
    pub name: &'r str,
    /// As in the file, with `NAME` for names the user chose; for messages.
    kind: Rc<str>,
    /// Keys that were asked for.
    known: Vec<&'static str>,
    /// Other names of keys, each with the name to use.
    other_names: Vec<(&'static str, &'static str)>,
    /// Keys whose value was right.
    right: Vec<&'static str>,
}

impl<'r> Section<'r> {
    /// The table around all others.
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

    /// Reads a key: its value, or the default of the table where it is left out or wrong.
    pub fn read<T: Value>(&mut self, key: &'static Key, default: &T) -> T {
        self.read_with(key, default, T::read)
    }

    /// The same with a reader of its own.
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

    /// Whether a key is written with a usable value.
    #[must_use]
    pub fn is_right(&self, key: &str) -> bool {
        self.right.contains(&key)
    }

    /// Where the value of a key is written, right or wrong; also of one in a table below, as `tcp.backlog`.
    #[must_use]
    pub fn place(&self, path: &str) -> Option<Range<usize>> {
        let mut parts = path.split('.');
        let first = self.table.get(parts.next()?)?;
        let value = parts.try_fold(first, |value, part| value.get_ref().as_table()?.get(part))?;
        Some(value.span())
    }

    /// Where the value of a key is written if it can be used.
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

    /// A table below this one whose keys are declared by its type.
    pub fn table<T: Table>(&mut self, key: &'static str) -> Option<T> {
        self.note(key, || Some(T::schema()));
        self.entry(key, &Key::PLAIN)?.table().map(crate::table::read)
    }

    /// The whole table, for types that declare its keys.
    #[must_use]
    pub fn into_table<T: Table>(self) -> T {
        crate::table::read(self)
    }

    /// Reports the keys that were not asked for.
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

    /// What was probably meant by an unknown key.
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

    /// Notes a key; without a form any value will do.
    fn note(&self, key: &'static str, form: impl FnOnce() -> Option<Json>) {
        if let Some(recorder) = self.reading.recorder {
            recorder.add(&self.kind, key, form());
        }
    }

    /// The value of a key, not read yet.
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

    /// Every key with its value, in the order of the file.
    fn sorted(&self) -> Vec<(At<&'r str>, &'r Spanned<DeValue<'r>>)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let entries = entries.into_iter().map(|(name, value)| {
            let text: &str = name.get_ref();
            (At { value: text, span: name.span() }, value)
        });
        entries.collect()
    }

    /// Every entry of a table whose keys the user chooses, in the order of the file.
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

/// A table below one of this kind.
pub(crate) fn kind_below(kind: &str, key: &str) -> String {
    if kind.is_empty() { key.to_owned() } else { format!("{kind}.{key}") }
}
