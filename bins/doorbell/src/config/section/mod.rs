//! One table of the file, read key by key: what is asked for is known, what is left over is reported.
//!
//! Does not know about: which keys there are. A wrong value is reported and then treated as absent, so that reading
//! goes on and every problem of a file comes out at once.

mod record;
mod values;
mod words;

pub(crate) use record::Recorder;
pub(crate) use words::{did_you_mean, quoted};

use super::expand::{Env, ExpandError, ReadSecret, expand};
use super::problem::{Problem, Problems};
use super::units::{DURATION_FORM, SIZE_FORM, format_duration, format_size, parse_duration, parse_size};
use serde_json::json;
use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

/// What every section of one file shares.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'r> {
    pub(crate) problems: &'r Problems,
    pub(crate) env: Env<'r>,
    pub(crate) read_secret: ReadSecret<'r>,
    /// Files that secrets came from, for a look at who else can read them.
    pub(crate) secret_files: &'r RefCell<Vec<At<PathBuf>>>,
    /// Writes down what is asked for.
    pub(crate) recorder: Option<&'r Recorder>,
}

/// A table that is being read.
pub(crate) struct Section<'r> {
    reading: Reading<'r>,
    table: &'r DeTable<'r>,
    /// The header of the table, or the table itself when it stands in a line.
    pub(crate) span: Range<usize>,
    /// As in the file, with `NAME` for names the user chose; for messages.
    kind: String,
    known: Vec<&'static str>,
}

impl<'r> Section<'r> {
    pub(crate) fn root(table: &'r DeTable<'r>, reading: Reading<'r>) -> Self {
        Self { reading, table, span: 0..0, kind: String::new(), known: Vec::new() }
    }

    /// A table below this one.
    pub(crate) fn section(&mut self, key: &'static str) -> Option<Self> {
        self.note(key, || Some(record::link(&self.kind_below(key))));
        match (self.raw(key), self.reading.recorder) {
            (Some(value), _) => self.below(key.into(), value),
            (None, Some(recorder)) => Some(self.below_absent(self.kind_below(key), recorder)),
            (None, None) => None,
        }
    }

    /// Tables named by the user: `[key.NAME]`, in the order of the file.
    pub(crate) fn named(&mut self, key: &'static str) -> Vec<(At<String>, Self)> {
        let kind = format!("{key}.NAME");
        self.note(key, || Some(json!({ "type": "object", "additionalProperties": record::link(&kind) })));
        let mut sections = Vec::new();
        if let Some(recorder) = self.reading.recorder {
            sections.push((At { value: "NAME".into(), span: 0..0 }, self.below_absent(kind, recorder)));
        }
        let Some(value) = self.raw(key) else { return sections };
        let Some(group) = self.below(key.into(), value) else { return sections };
        let mut entries: Vec<_> = group.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        if let Some((first, _)) = entries.iter().find(|(_, value)| !value.get_ref().is_table()) {
            let message = format!("`[{key}]` has no name");
            let help = format!("write `[{key}.NAME]` above it, as in [{key}.main]");
            self.problem(
                Problem::error("missing-name", first.span(), message).label("a key of which one?").help(help),
            );
        }
        for (name, value) in entries {
            let text: &str = name.get_ref();
            if !value.get_ref().is_table() {
                continue;
            }
            if text.is_empty()
                || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
            {
                let message = format!("{text:?} is not a name");
                self.problem(
                    Problem::error("bad-name", name.span(), message)
                        .help("a name is made of letters, digits, `_` and `-`"),
                );
                continue;
            }
            if let Some(section) = self.below(format!("{key}.NAME"), value) {
                sections.push((At { value: text.to_owned(), span: name.span() }, section));
            }
        }
        sections
    }

    /// Every key with a string, for tables whose keys the user chooses.
    pub(crate) fn all_strings(&self) -> Vec<(At<String>, At<String>)> {
        self.note_others(|| json!({ "type": "string" }));
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let strings = entries.into_iter().filter_map(|(name, value)| {
            let name = At { value: name.get_ref().to_string(), span: name.span() };
            Some((name, self.as_string(value)?))
        });
        strings.collect()
    }

    /// Tables in a list: `[[key]]`, in the order of the file.
    pub(crate) fn list(&mut self, key: &'static str) -> Vec<Self> {
        let kind = self.kind_below(key);
        self.note(key, || Some(json!({ "type": "array", "items": record::link(&kind) })));
        let Some(value) = self.raw(key) else {
            return self
                .reading
                .recorder
                .map(|recorder| self.below_absent(kind, recorder))
                .into_iter()
                .collect();
        };
        let DeValue::Array(list) = value.get_ref() else {
            self.wrong_type::<()>(value, "a list of tables");
            return Vec::new();
        };
        list.iter().filter_map(|value| self.below(key.into(), value)).collect()
    }

    pub(crate) fn string(&mut self, key: &'static str) -> Option<At<String>> {
        self.note(key, || Some(json!({ "type": "string" })));
        let value = self.raw(key)?;
        self.as_string(value)
    }

    /// A string, or a list of them.
    pub(crate) fn strings(&mut self, key: &'static str) -> Option<At<Vec<At<String>>>> {
        self.note(key, || Some(record::one_or_list(&json!({ "type": "string" }))));
        self.strings_unnoted(key)
    }

    fn strings_unnoted(&mut self, key: &'static str) -> Option<At<Vec<At<String>>>> {
        let value = self.raw(key)?;
        let span = value.span();
        if let DeValue::Array(list) = value.get_ref() {
            let list: Vec<_> = list.iter().filter_map(|value| self.as_string(value)).collect();
            return Some(At { value: list, span });
        }
        if !value.get_ref().is_str() {
            return self.wrong_type_with(value, "a string or a list of strings", quoted_scalar(value));
        }
        let one = self.as_string(value)?;
        Some(At { value: vec![one], span })
    }

    pub(crate) fn bool(&mut self, key: &'static str) -> Option<At<bool>> {
        self.note(key, || Some(json!({ "type": "boolean" })));
        let value = self.raw(key)?;
        match value.get_ref().as_bool() {
            Some(flag) => Some(At { value: flag, span: value.span() }),
            None => self.wrong_type(value, "true or false"),
        }
    }

    pub(crate) fn integer(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<At<u32>> {
        self.note(key, || {
            Some(json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() }))
        });
        let value = self.raw(key)?;
        self.as_integer(key, value, &range)
    }

    fn as_integer(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        range: &RangeInclusive<u32>,
    ) -> Option<At<u32>> {
        let Some(number) = value.get_ref().as_integer() else {
            return self.wrong_type(value, "a whole number");
        };
        let number = u32::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok();
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(At { value: number, span: value.span() }),
            None => {
                self.out_of_range(key, value.span(), &range.start().to_string(), &range.end().to_string())
            }
        }
    }

    pub(crate) fn duration(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Option<At<Duration>> {
        self.note(key, || Some(record::text("(?:[0-9]+(?:d|h|ms|us|m|s))+")));
        let text = self.unit_string(key, "a duration", DURATION_FORM)?;
        let Some(duration) = parse_duration(&text.value) else {
            return self.bad_unit("bad-duration", "a duration", DURATION_FORM, &text);
        };
        if range.contains(&duration) {
            return Some(At { value: duration, span: text.span });
        }
        self.out_of_range(key, text.span, &format_duration(*range.start()), &format_duration(*range.end()))
    }

    pub(crate) fn size(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<At<u32>> {
        self.note(key, || Some(record::text("[0-9]+(?:GiB|MiB|KiB|B)")));
        let text = self.unit_string(key, "a size", SIZE_FORM)?;
        let Some(size) = parse_size(&text.value) else {
            return self.bad_unit("bad-size", "a size", SIZE_FORM, &text);
        };
        match u32::try_from(size).ok().filter(|size| range.contains(size)) {
            Some(size) => Some(At { value: size, span: text.span }),
            None => {
                let [low, high] = [*range.start(), *range.end()].map(|size| format_size(size.into()));
                self.out_of_range(key, text.span, &low, &high)
            }
        }
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<At<T>> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.note(key, || Some(record::words(&names)));
        let value = self.raw(key)?;
        let text = self.as_string(value)?;
        if let Some(&(_, value)) = choices.iter().find(|(name, _)| *name == text.value) {
            return Some(At { value, span: text.span });
        }
        let problem = Problem::error("bad-value", text.span, format!("`{key}` cannot be {:?}", text.value))
            .help(did_you_mean(&text.value, &names).unwrap_or_else(|| format!("one of {}", quoted(&names))));
        self.problem(problem);
        None
    }

    /// The value of a key as it stands; for keys that take several types.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'r Spanned<DeValue<'r>>> {
        self.note(key, || None);
        self.raw(key)
    }

    fn raw(&mut self, key: &'static str) -> Option<&'r Spanned<DeValue<'r>>> {
        self.known.push(key);
        self.table.get(key)
    }

    pub(crate) fn problem(&self, problem: Problem) {
        self.reading.problems.add(problem);
    }

    /// Reports a value of another type than expected.
    pub(crate) fn wrong_type<T>(&self, value: &Spanned<DeValue<'_>>, expected: &str) -> Option<T> {
        self.wrong_type_with(value, expected, None)
    }

    fn wrong_type_with<T>(
        &self,
        value: &Spanned<DeValue<'_>>,
        expected: &str,
        help: Option<String>,
    ) -> Option<T> {
        let found = match value.get_ref().type_str() {
            "string" => "a string",
            "integer" => "a whole number",
            "float" => "a number with a fraction",
            "boolean" => "true or false",
            "array" => "a list",
            "table" => "a table",
            _ => "a date",
        };
        let message = format!("expected {expected}, found {found}");
        let mut problem =
            Problem::error("wrong-type", value.span(), message).label(format!("expected {expected}"));
        problem.help = help;
        self.problem(problem);
        None
    }

    /// Reports the keys that nobody asked for.
    pub(crate) fn finish(self) {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, _) in entries {
            let text: &str = name.get_ref();
            if self.known.contains(&text) {
                continue;
            }
            let place = if self.kind.is_empty() { "the file".into() } else { format!("[{}]", self.kind) };
            let mut sorted = self.known.clone();
            sorted.sort_unstable();
            sorted.dedup();
            let help = words::elsewhere(&self.kind, text).map(str::to_owned);
            let help = help.or_else(|| did_you_mean(text, &sorted));
            let help = help.unwrap_or_else(|| format!("known keys: {}", sorted.join(", ")));
            self.problem(
                Problem::error("unknown-key", name.span(), format!("unknown key {text:?}"))
                    .label(format!("not a key of {place}"))
                    .help(help),
            );
        }
    }

    fn below(&self, kind: String, value: &'r Spanned<DeValue<'r>>) -> Option<Self> {
        let kind = if kind.contains('.') { kind } else { self.kind_below(&kind) };
        match value.get_ref() {
            DeValue::Table(table) => {
                Some(Self { reading: self.reading, table, span: value.span(), kind, known: Vec::new() })
            }
            _ => {
                let key = kind.rsplit('.').next().unwrap_or_default();
                let example = words::example(key).map_or_else(|| format!("{key} = {{ .. }}"), str::to_owned);
                self.wrong_type_with(
                    value,
                    "a table",
                    Some(format!("write the keys in braces, as in {example}")),
                )
            }
        }
    }

    fn kind_below(&self, key: &str) -> String {
        if self.kind.is_empty() { key.to_owned() } else { format!("{}.{key}", self.kind) }
    }

    fn below_absent(&self, kind: String, recorder: &'r Recorder) -> Self {
        Self { reading: self.reading, table: &recorder.empty, span: 0..0, kind, known: Vec::new() }
    }

    fn as_string(&self, value: &Spanned<DeValue<'_>>) -> Option<At<String>> {
        let Some(text) = value.get_ref().as_str() else {
            return self.wrong_type_with(value, "a string", quoted_scalar(value));
        };
        let span = value.span();
        match expand(text, self.reading.env) {
            Ok(value) => Some(At { value, span }),
            Err(error) => self.cannot_expand(error, span),
        }
    }

    fn cannot_expand<T>(&self, error: ExpandError, span: Range<usize>) -> Option<T> {
        let problem = match error {
            ExpandError::BadName(name) if name.starts_with("file:") => {
                Problem::error("bad-reference", span, "only a secret can come from a file")
                    .help("write the value itself, or `${NAME}` for an environment variable")
            }
            ExpandError::BadName(name) => {
                Problem::error("bad-reference", span, format!("`${{{name}}}` is not an environment variable"))
                    .help("write `${NAME}` or `${NAME:-default}`, and `$${` for a plain `${`")
            }
            ExpandError::File { path, why } => {
                Problem::error("missing-file", span, format!("{path:?} cannot be read: {why}"))
                    .help("put the secret there, readable for the user that doorbell runs as")
            }
            ExpandError::Unclosed => Problem::error("bad-reference", span, "`${` without a `}`")
                .help("write `${NAME}`, and `$${` for a plain `${`"),
            ExpandError::Unset(name) => {
                Problem::error("unset-variable", span, format!("environment variable {name} is not set"))
                    .help(format!("set it, or give a default: `${{{name}:-default}}`"))
            }
        };
        self.problem(problem);
        None
    }

    /// A string that holds a number and a unit; a bare number is told which unit it could mean.
    fn unit_string(&mut self, key: &'static str, what: &str, form: &str) -> Option<At<String>> {
        let value = self.raw(key)?;
        if value.get_ref().is_str() {
            return self.as_string(value);
        }
        self.problem(
            Problem::error("wrong-type", value.span(), format!("expected {what} in quotes"))
                .label("expected a string")
                .help(format!("write {form}")),
        );
        None
    }

    fn bad_unit<T>(&self, code: &'static str, what: &str, form: &str, text: &At<String>) -> Option<T> {
        let message = format!("{:?} is not {what}", text.value);
        self.problem(Problem::error(code, text.span.clone(), message).help(format!("write {form}")));
        None
    }

    fn out_of_range<T>(&self, key: &str, span: Range<usize>, low: &str, high: &str) -> Option<T> {
        let problem = Problem::error("out-of-range", span, format!("`{key}` is out of range"));
        self.problem(problem.help(format!("from {low} to {high}")));
        None
    }
}

/// How a value that is not text is written as text.
fn quoted_scalar(value: &Spanned<DeValue<'_>>) -> Option<String> {
    let text = match value.get_ref() {
        DeValue::Integer(number) => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => return None,
    };
    Some(format!("write it in quotes: \"{text}\""))
}
