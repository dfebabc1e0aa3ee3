//! One table of the file, read key by key. Keys that the reader does not request are reported as
//! unknown.

use crate::entry::Entry;
use crate::expand::{Env, ReadSecret};
use crate::key::Key;
use crate::place::At;
use crate::problem::{Problem, Problems};
use crate::program::Program;
use crate::table::Table;
use crate::value::Value;
use crate::words::did_you_mean;
use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// State shared by all sections of one file.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'r> {
    /// Collects problems.
    pub(crate) problems: &'r Problems,
    /// Looks up `${NAME}`.
    pub(crate) env: Env<'r>,
    /// Reads `${file:PATH}`.
    pub(crate) read_secret: ReadSecret<'r>,
    /// Files from which secrets were read.
    pub(crate) secret_files: &'r RefCell<Vec<At<PathBuf>>>,
    /// Properties of the program.
    pub(crate) program: &'r Program,
    /// The whole file.
    pub(crate) root: Option<&'r DeTable<'r>>,
    /// Whether the file is not TOML. If so, only problems of single values and unknown keys are
    /// reported, because a key may seem to be missing when its line is broken.
    pub(crate) is_broken: bool,
    /// Collects problems of inherited values. These problems are discarded, because reading the
    /// inherited table reports them.
    pub(crate) muted: &'r Problems,
}

/// A table that is being read.
#[expect(missing_debug_implementations, reason = "a borrowed part of a file")]
pub struct Section<'r> {
    reading: Reading<'r>,
    table: &'r DeTable<'r>,
    /// Place of the table's header, or of an inline table.
    pub span: Range<usize>,
    /// The name that the user chose for the table.
    pub name: &'r str,
    /// The kind of table for messages, with `NAME` in place of names that the user chose.
    kind: Rc<str>,
    /// Keys requested so far.
    known: Vec<&'static str>,
    /// Other names of keys, each with the right name.
    other_names: Vec<(&'static str, &'static str)>,
    /// Keys with valid values.
    right: Vec<&'static str>,
    /// Another table, from which missing keys are inherited.
    inherited: Option<&'r DeTable<'r>>,
    /// Subtables whose keys are read through this section.
    below: Vec<(&'static str, Self)>,
    /// Whether unknown keys are accepted.
    is_open: bool,
    /// Keys that the type declares but that this table does not accept.
    excluded: &'static [&'static str],
}

impl<'r> Section<'r> {
    /// The root table.
    pub(crate) fn root(table: &'r DeTable<'r>, reading: Reading<'r>) -> Self {
        Self::new(reading, table, 0..0, String::new())
    }

    pub(crate) fn new(
        reading: Reading<'r>,
        table: &'r DeTable<'r>,
        span: Range<usize>,
        kind: String,
    ) -> Self {
        Self {
            reading,
            table,
            span,
            name: "",
            kind: kind.into(),
            known: Vec::new(),
            other_names: Vec::new(),
            right: Vec::new(),
            inherited: None,
            below: Vec::new(),
            is_open: false,
            excluded: &[],
        }
    }

    /// Reads a key; returns `default` if the key is missing or invalid.
    pub fn read<T: Value>(&mut self, key: &'static Key, default: &T) -> T {
        self.read_with(key, default, T::read)
    }

    /// Reads a key with a custom reader; see [`Self::read`].
    pub fn read_with<T: Clone>(
        &mut self,
        key: &'static Key,
        default: &T,
        read: impl FnOnce(&Entry<'_>) -> Option<T>,
    ) -> T {
        if let Some(table) = key.table {
            return match self.below(table) {
                Some(below) => below.read_here(key, default, read),
                None => default.clone(),
            };
        }
        self.read_here(key, default, read)
    }

    fn read_here<T: Clone>(
        &mut self,
        key: &'static Key,
        default: &T,
        read: impl FnOnce(&Entry<'_>) -> Option<T>,
    ) -> T {
        if self.excluded.contains(&key.name) {
            return default.clone();
        }
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

    /// A subtable whose keys are read through this section; opened on first use.
    fn below(&mut self, name: &'static str) -> Option<&mut Self> {
        if !self.known.contains(&name) {
            let section = self.entry(name, &Key::PLAIN)?.table()?;
            self.below.push((name, section));
        }
        self.below.iter_mut().find(|(known, _)| *known == name).map(|(_, section)| section)
    }

    /// Inherits missing keys from a top-level table.
    pub fn inherit(&mut self, table: &str) {
        self.inherited = self.reading.root.and_then(|root| root.get(table)?.get_ref().as_table());
    }

    /// Accepts unknown keys.
    pub fn accept_others(&mut self) {
        self.is_open = true;
    }

    /// Excludes keys that the type of this table declares: their values are the defaults, and in
    /// the file they are unknown keys.
    pub const fn without(&mut self, keys: &'static [&'static str]) {
        self.excluded = keys;
    }

    /// The word for the table in messages: `check` for `[check.NAME]`.
    #[must_use]
    pub fn noun(&self) -> &str {
        let kind = self.kind.strip_suffix(".NAME").unwrap_or(&self.kind);
        kind.rsplit('.').next().unwrap_or(kind)
    }

    /// Whether a key is present, here or inherited, with a valid value. `path` may name a key of a
    /// subtable, as in `expect.status`.
    #[must_use]
    pub fn has_valid(&self, path: &str) -> bool {
        match path.split_once('.') {
            None => self.right.contains(&path),
            Some((table, key)) => {
                self.below.iter().any(|(known, section)| *known == table && section.has_valid(key))
            }
        }
    }

    /// Whether a key is present here with a valid value, and not inherited.
    #[must_use]
    pub fn is_own(&self, key: &str) -> bool {
        self.table.contains_key(key) && self.has_valid(key)
    }

    /// The place of a key's value, valid or not. `path` may name a key of a subtable, as in
    /// `tcp.backlog`.
    #[must_use]
    pub fn place(&self, path: &str) -> Option<Range<usize>> {
        let mut parts = path.split('.');
        let name = parts.next()?;
        let first = self.table.get(name).or_else(|| self.inherited?.get(name))?;
        let value = parts.try_fold(first, |value, part| value.get_ref().as_table()?.get(part))?;
        Some(value.span())
    }

    /// The place of a key's value if it is valid.
    #[must_use]
    pub fn right_place(&self, path: &str) -> Option<Range<usize>> {
        let is_below = path.contains('.');
        self.place(path).filter(|place| match is_below {
            true => !self.reading.problems.has_error_at(place),
            false => self.has_valid(path),
        })
    }

    /// Reports a problem of the table or of several keys, unless the file is not TOML.
    pub fn problem(&self, problem: Problem) {
        if !self.reading.is_broken {
            self.reading.problems.add(problem);
        }
    }

    /// Reports a problem unless a problem with the same code was reported at the same place.
    pub fn problem_once(&self, problem: Problem) {
        if !self.reading.problems.has(problem.code, &problem.span) {
            self.problem(problem);
        }
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

    /// Reads the whole table as a type that declares its keys.
    #[must_use]
    pub fn into_table<T: Table>(self) -> T {
        crate::table::read(self)
    }

    /// Reports the keys that were not requested.
    pub fn finish(mut self) {
        for (_, below) in std::mem::take(&mut self.below) {
            below.finish();
        }
        let mut entries: Vec<_> = self.table.iter().filter(|_| !self.is_open).collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, _) in entries {
            let text: &str = name.get_ref();
            if self.known.contains(&text) {
                continue;
            }
            let place = if self.kind.is_empty() { "the file".into() } else { format!("[{}]", self.kind) };
            self.reading.problems.add(
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

    /// The raw value of a key.
    fn entry(&mut self, name: &'static str, key: &'r Key) -> Option<Entry<'r>> {
        self.known.push(name);
        let muted = Reading { problems: self.reading.muted, ..self.reading };
        let own = self.table.get(name).map(|raw| (raw, self.reading));
        let (raw, reading) = own.or_else(|| Some((self.inherited?.get(name)?, muted)))?;
        Some(Entry { reading, kind: Rc::clone(&self.kind), name, key, raw })
    }

    /// Every key with its value, in the order of the file.
    pub(crate) fn sorted(&self) -> Vec<(At<&'r str>, &'r Spanned<DeValue<'r>>)> {
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
}

/// The kind of the subtable `key` in a table of kind `kind`.
pub(crate) fn kind_below(kind: &str, key: &str) -> String {
    if kind.is_empty() { key.to_owned() } else { format!("{kind}.{key}") }
}
