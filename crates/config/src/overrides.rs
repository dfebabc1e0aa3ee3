//! Environment variables that replace keys: `PREFIX__TABLE__KEY`.

use crate::problem::{Problem, Problems, Source};
use crate::program::Program;
use crate::units::parse_number;
use crate::words::quoted;
use serde_json::Value;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Separates the names of tables and keys.
const SEPARATOR: &str = "__";

/// Environment variables that replace keys, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(Vec<(String, String)>);

/// The variables as a text, so that problems can mark places in it. Offsets in this text follow
/// those of the file, starting at [`Self::base`].
#[derive(Debug)]
pub(crate) struct Environment {
    program: Program,
    /// Offset at which the text of the variables begins; lower offsets are those of the file.
    pub(crate) base: usize,
    /// Lines `NAME=value`, with spaces in place of the line ends of values.
    pub(crate) source: Source,
    /// The same lines with the values as given.
    pub(crate) given: String,
    /// Byte ranges of name and value in each line.
    lines: Vec<(Range<usize>, Range<usize>)>,
}

impl Overrides {
    /// No variables.
    pub const NONE: Self = Self(Vec::new());

    /// Selects the variables that begin with the prefix of [`Program::variables`]. An empty
    /// variable counts as unset.
    #[must_use]
    pub fn of(prefix: &str, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = |(name, value): &(String, String)| name.starts_with(prefix) && !value.is_empty();
        let mut all: Vec<_> = variables.into_iter().filter(ours).collect();
        all.sort_unstable();
        Self(all)
    }

    /// Whether there are no variables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Environment {
    pub(crate) fn of(program: Program, overrides: &Overrides, base: usize) -> Self {
        let (mut text, mut given, mut lines) = (String::new(), String::new(), Vec::new());
        for (name, value) in &overrides.0 {
            let line = format!("{name}={value}\n");
            let (start, end) = (given.len(), given.len() + name.len());
            lines.push((start..end, end + 1..end + 1 + value.len()));
            text += &line[..line.len() - 1].replace(['\n', '\r'], " ");
            text.push('\n');
            given += &line;
        }
        Self { program, base, source: Source { name: "environment".into(), text }, given, lines }
    }

    /// Converts a place after the end of the file to a place in this text; `None` for a place in
    /// the file.
    pub(crate) fn place(&self, span: &Range<usize>) -> Option<Range<usize>> {
        let len = self.source.text.len();
        let within = |at: usize| (at - self.base).min(len);
        (span.start >= self.base).then(|| within(span.start)..within(span.end.max(span.start)))
    }

    /// The name of the variable at a place after the end of the file.
    pub(crate) fn variable(&self, span: &Range<usize>) -> Option<&str> {
        let at = self.place(span)?.start;
        let (name, _) = self.lines.iter().find(|(name, value)| (name.start..=value.end).contains(&at))?;
        self.given.get(name.clone())
    }

    /// Stores every value at its key. Returns the places of refused values, which may be secrets.
    pub(crate) fn apply<'i>(&'i self, root: &mut DeTable<'i>, problems: &Problems) -> Vec<Range<usize>> {
        let mut refused = Vec::new();
        if self.lines.is_empty() {
            return refused;
        }
        let schema = (self.program.schema)();
        for (name, value) in &self.lines {
            let shift = |span: &Range<usize>| self.base + span.start..self.base + span.end;
            let text = &self.given;
            let spans = (shift(name), shift(value));
            if let Err(problem) =
                put(self, root, &schema, (&text[name.clone()], &text[value.clone()]), &spans)
            {
                problems.add(*problem);
                refused.push(spans.1);
            }
        }
        refused
    }
}

fn put<'i>(
    environment: &Environment,
    root: &mut DeTable<'i>,
    schema: &Value,
    (name, value): (&'i str, &'i str),
    (name_span, value_span): &(Range<usize>, Range<usize>),
) -> Result<(), Box<Problem>> {
    let program = &environment.program;
    let keys: Vec<String> =
        name[program.variables.len()..].split(SEPARATOR).map(str::to_ascii_lowercase).collect();
    let wrong = |message: String| Problem::error("bad-variable", name_span.clone(), message);
    let Some((last, tables)) = keys.split_last().filter(|_| keys.iter().all(|key| !key.is_empty())) else {
        let help = format!(
            "separate the tables and the key with two underscores, as in {}",
            program.variable_example
        );
        return Err(Box::new(wrong(format!("{name} names no key")).help(help)));
    };
    let several = |names: String| {
        let help = "rename all but one of them, or set the value in the file";
        Box::new(wrong(format!("{name} stands for more than one of {names}")).help(help))
    };
    let (mut table, mut known) = (root, schema);
    for key in tables {
        let (key, below) = step(table, known, key).map_err(several)?;
        known = below;
        if table.get(key.as_str()).is_none() {
            let empty = Spanned::new(name_span.clone(), DeValue::Table(DeTable::new()));
            table.insert(Spanned::new(name_span.clone(), key.clone().into()), empty);
        }
        table = match table.get_mut(key.as_str()).map(Spanned::get_mut) {
            Some(DeValue::Table(below)) => below,
            _ => {
                let help = "write this key as a table in the file, or set the value in the file";
                return Err(Box::new(
                    wrong(format!("`{key}` is not a table in the file, so no key in it can be set"))
                        .help(help),
                ));
            }
        };
    }
    let (key, form) = step(table, known, last).map_err(several)?;
    let takes_one = ["boolean", "integer", "string"].iter().any(|kind| takes(form, kind));
    if !takes_one && (takes(form, "object") || takes(form, "array")) {
        let help = format!(
            "name one key in it, as in {}; lists and tables can only be set in the file",
            program.variable_example
        );
        return Err(Box::new(wrong(format!("{name} stands for more than one value")).help(help)));
    }
    let former = table.get(key.as_str()).map(Spanned::span);
    if let Some(former) = former.and_then(|span| environment.variable(&span)) {
        let message = format!("{former} and {name} set the same key");
        return Err(Box::new(wrong(message).help("remove one of the two variables")));
    }
    let value = Spanned::new(value_span.clone(), typed(form, value));
    // `insert` alone would keep the former key, with its place in the file.
    table.remove(key.as_str());
    table.insert(Spanned::new(name_span.clone(), key.into()), value);
    Ok(())
}

/// The key as written in the file, and its schema. Names chosen by the user match
/// regardless of case, and `_` in a variable also matches `-`. Returns an error with the names if
/// several match, even if one is equal: a variable in capitals can stand for each of them.
fn step<'s>(table: &DeTable<'_>, known: &'s Value, key: &str) -> Result<(String, &'s Value), String> {
    if let Some(below) = known.get("properties").and_then(|keys| keys.get(key)) {
        return Ok((key.to_owned(), below));
    }
    let same = |written: &str| written.to_ascii_lowercase().replace('-', "_") == key.replace('-', "_");
    let written = table.keys().map(|written| &**written.get_ref());
    let written: Vec<&str> = written.filter(|written| same(written)).collect();
    if written.len() > 1 {
        return Err(quoted(&written));
    }
    let key = written.first().map_or(key, |written| *written).to_owned();
    Ok((key, known.get("additionalProperties").unwrap_or(&Value::Null)))
}

/// Whether the schema allows a value of this type.
fn takes(form: &Value, kind: &str) -> bool {
    let is_any = |form: &Value| {
        form.get("anyOf")
            .and_then(Value::as_array)
            .is_some_and(|any| any.iter().any(|form| takes(form, kind)))
    };
    form.get("type").and_then(Value::as_str) == Some(kind) || is_any(form)
}

/// Converts the text of a variable to the type of its key. If the key accepts any type, digits
/// become a number, and `true` and `false` a boolean.
fn typed<'i>(form: &Value, text: &'i str) -> DeValue<'i> {
    let is_open = form.get("type").or_else(|| form.get("anyOf")).is_none();
    let parsed = match text {
        "false" | "true" if is_open || takes(form, "boolean") => Some(DeValue::Boolean(text == "true")),
        _ if is_open || takes(form, "integer") => parse_number(text),
        _ => None,
    };
    parsed.unwrap_or_else(|| DeValue::String(text.into()))
}
