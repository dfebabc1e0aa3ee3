//! The raw value of one key: conversions, and reports of wrong values.
//!
//! A wrong value is reported and then treated as absent, so that reading continues and every
//! problem of a file is reported at once.

use crate::expand::{ExpandError, Expanded, expand, expand_secret};
use crate::key::Key;
use crate::place::At;
use crate::problem::Problem;
use crate::secret::Secret;
use crate::section::{self, Reading, Section};
use crate::table::Table;
use crate::units::{
    DURATION_FORM, RATE_FORM, Rate, SIZE_FORM, format_duration, format_size, parse_duration, parse_number,
    parse_rate, parse_size,
};
use crate::words::{did_you_mean, quoted};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// The expected type, in messages about a key that takes a list of tables.
pub const TABLES: &str = "a list of tables";

/// The expected type, in messages about a key that takes a string or a list of strings.
pub const TEXTS: &str = "a string or a list of strings";

/// The raw value of one key.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a borrowed part of a file")]
pub struct Entry<'r> {
    pub(crate) reading: Reading<'r>,
    /// The kind of the enclosing table, as in `listener.NAME`.
    pub(crate) kind: Rc<str>,
    /// The name in the file.
    pub(crate) name: &'r str,
    /// The declaration of the key.
    pub(crate) key: &'r Key,
    pub(crate) raw: &'r Spanned<DeValue<'r>>,
}

impl<'r> Entry<'r> {
    /// The byte range of the value.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.raw.span()
    }

    /// The name of the key.
    #[must_use]
    pub fn name(&self) -> &'r str {
        self.name
    }

    /// The value in the file.
    #[must_use]
    pub fn raw(&self) -> &'r DeValue<'r> {
        self.raw.get_ref()
    }

    /// An element of a list, under the same key.
    pub(crate) fn item(&self, raw: &'r Spanned<DeValue<'r>>) -> Self {
        Self { raw, ..self.clone() }
    }

    /// Reports a problem.
    pub fn problem(&self, problem: Problem) {
        self.reading.problems.add(problem);
    }

    /// Reports an invalid value.
    pub fn refuse<T>(
        &self,
        code: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.problem(Problem::error(code, self.span(), message).help(help));
        None
    }

    /// Reports a value of an unexpected type.
    pub fn wrong_type<T>(&self, expected: &str) -> Option<T> {
        self.wrong_type_with(expected, None)
    }

    pub(crate) fn wrong_type_with<T>(&self, expected: &str, help: Option<String>) -> Option<T> {
        let found = match self.raw().type_str() {
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
            Problem::error("wrong-type", self.span(), message).label(format!("expected {expected}"));
        problem.help = help;
        self.problem(problem);
        None
    }

    /// Reads a table.
    #[must_use]
    pub fn table(&self) -> Option<Section<'r>> {
        self.table_of(section::kind_below(&self.kind, self.name))
    }

    /// Reads a table, which is named `kind` in messages.
    pub(crate) fn table_of(&self, kind: String) -> Option<Section<'r>> {
        let DeValue::Table(table) = self.raw() else {
            let key = self.name;
            let example = (self.reading.program.example)(key);
            let example = example.map_or_else(|| format!("{key} = {{ .. }}"), str::to_owned);
            return self
                .wrong_type_with("a table", Some(format!("write the keys in braces, as in {example}")));
        };
        Some(Section::new(self.reading, table, self.span(), kind))
    }

    /// Reads a table whose keys are declared by its type.
    #[must_use]
    pub fn read_table<T: Table>(&self) -> Option<T> {
        self.table().map(crate::table::read)
    }

    /// Reads a list and returns its valid elements, or `None` if every element is invalid. A single
    /// value needs no brackets, unless `expected` is [`TABLES`]. If `expected` is [`TEXTS`] or
    /// [`TABLES`], a value of another type is reported here, otherwise by `read`.
    pub fn list<T>(&self, expected: &str, read: impl Fn(&Self) -> Option<T>) -> Option<Vec<T>> {
        let DeValue::Array(list) = self.raw() else {
            return match expected {
                TEXTS if !self.raw().is_str() => self.wrong_type_with(expected, self.in_quotes()),
                TABLES => self.wrong_type(expected),
                _ => read(self).map(|one| vec![one]),
            };
        };
        if list.is_empty() && self.key.is_filled {
            let message = format!("`{}` is an empty list", self.name);
            return self.refuse("empty-list", message, "remove it, or add an element");
        }
        let right: Vec<T> = list.iter().filter_map(|raw| read(&self.item(raw))).collect();
        (list.is_empty() || !right.is_empty()).then_some(right)
    }

    /// Reads true or false.
    pub fn bool(&self) -> Option<bool> {
        self.raw().as_bool().or_else(|| self.wrong_type("true or false"))
    }

    /// Reads a string, with `${NAME}` replaced.
    pub fn string(&self) -> Option<String> {
        let Some(text) = self.raw().as_str() else {
            return self.wrong_type_with("a string", self.in_quotes());
        };
        match expand(text, self.reading.env) {
            Ok(text) => Some(text),
            Err(error) => self.cannot_expand(error),
        }
    }

    /// Whether the value is this word, with `${NAME}` replaced.
    pub fn is_word(&self, word: &str) -> Option<bool> {
        Some(self.raw().is_str() && self.string()? == word)
    }

    /// Reads a value that is a whole number or a string. A string with `${NAME}` is a number if only
    /// digits remain after the replacement, as in a variable that replaces a key.
    pub fn number_or_text<T>(&self, read: impl FnOnce(&Entry<'_>) -> Option<T>) -> Option<T> {
        let Some(text) = self.raw().as_str() else { return read(self) };
        let replaced = self.string()?;
        match parse_number(&replaced).filter(|_| replaced != text) {
            Some(number) => read(&Entry { raw: &Spanned::new(self.span(), number), ..self.clone() }),
            None => read(self),
        }
    }

    /// Help for a value that should be a string: the same value in quotes.
    pub(crate) fn in_quotes(&self) -> Option<String> {
        let text = match self.raw() {
            DeValue::Integer(number) => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => return None,
        };
        Some(format!("write it in quotes: \"{text}\""))
    }

    /// Reads a path in the file system.
    pub fn path(&self) -> Option<PathBuf> {
        let text = self.string()?;
        if !text.is_empty() && !text.contains('\0') {
            return Some(text.into());
        }
        self.refuse(
            "bad-value",
            format!("{text:?} is not the name of a file"),
            "write a path such as \"/etc/doorbell/tls/tls.crt\"",
        )
    }

    /// Reads a whole number.
    pub fn integer(&self, range: &RangeInclusive<u64>) -> Option<u64> {
        let Some(number) = self.raw().as_integer() else { return self.wrong_type("a whole number") };
        let digits = number.as_str().replace('_', "");
        if self.key.is_nonzero && digits.bytes().all(|byte| byte == b'0') {
            return self.zero();
        }
        let number = u64::from_str_radix(&digits, number.radix()).ok();
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(number),
            None => self.out_of_range(&range.start().to_string(), &range.end().to_string()),
        }
    }

    /// Reads a whole number or a size within the range of the key, at most `max`.
    pub(crate) fn number(&self, max: u64) -> Option<u64> {
        let range = self.key.numbers(max);
        if self.key.is_size { self.size(&range) } else { self.integer(&range) }
    }

    /// Reads a duration, as in `1m30s`.
    pub fn duration(&self, range: &RangeInclusive<Duration>) -> Option<Duration> {
        let text = self.with_unit("a duration", DURATION_FORM)?;
        let Some(duration) = parse_duration(&text) else {
            return self.bad_unit("bad-duration", "a duration", DURATION_FORM, &text);
        };
        if range.contains(&duration) {
            return Some(duration);
        }
        self.out_of_range(&format_duration(*range.start()), &format_duration(*range.end()))
    }

    /// Reads a size in bytes, as in `16KiB`.
    pub fn size(&self, range: &RangeInclusive<u64>) -> Option<u64> {
        let text = self.with_unit("a size", SIZE_FORM)?;
        let Some(size) = parse_size(&text) else {
            return self.bad_unit("bad-size", "a size", SIZE_FORM, &text);
        };
        if self.key.is_nonzero && size == 0 {
            return self.zero();
        }
        if range.contains(&size) {
            return Some(size);
        }
        self.out_of_range(&format_size(*range.start()), &format_size(*range.end()))
    }

    /// Reads a rate, as in `20/s`.
    pub fn rate(&self) -> Option<Rate> {
        let text = self.string()?;
        match parse_rate(&text) {
            Some(rate) if rate.requests == 0 => self.zero(),
            Some(rate) => Some(rate),
            None => self.bad_unit("bad-rate", "a rate", RATE_FORM, &text),
        }
    }

    /// Reads one of a few words.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.string()?;
        if let Some(&(_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(value);
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        // If the text differs from a word only in case, this word is suggested.
        let same = names.iter().find(|name| name.eq_ignore_ascii_case(&text));
        let help = same.map(|name| format!("did you mean `{name}`?"));
        let help = help.or_else(|| did_you_mean(&text, &names));
        let help = help.unwrap_or_else(|| format!("one of {}", quoted(&names)));
        self.refuse("bad-value", format!("`{}` cannot be {text:?}", self.name), help)
    }

    /// Reads a secret. `is_clear` returns whether to warn about clear text.
    pub(crate) fn secret(&self, is_clear: impl FnOnce(&Expanded) -> bool) -> Option<Secret> {
        let Some(text) = self.raw().as_str() else { return self.wrong_type("a string") };
        let span = self.span();
        if text == Secret::MASK {
            let message = format!("`{}` is the placeholder for a secret in a dump", Secret::MASK);
            return self.refuse("masked-secret", message, SECRET_FORM);
        }
        match expand_secret(text, self.reading.env, self.reading.read_secret) {
            Ok(expanded) => {
                if is_clear(&expanded) {
                    let problem = Problem::warning("clear-secret", span.clone(), "a secret in clear text");
                    self.problem(problem.help(SECRET_FORM));
                }
                let files = expanded.files.into_iter().map(|value| At { value, span: span.clone() });
                self.reading.secret_files.borrow_mut().extend(files);
                Some(Secret::new(expanded.text))
            }
            // An invalid name may be part of the secret, so it is not shown.
            Err(ExpandError::BadName(_)) => self.refuse(
                "bad-reference",
                "`${` is not followed by a name",
                "write `${file:/path}` or `${NAME}`, and `$${` for a plain `${`",
            ),
            Err(error) => self.cannot_expand(error),
        }
    }

    /// Reads the secret value of a header field. Words such as `Bearer` before a reference are not
    /// secret.
    pub fn credential(&self) -> Option<Secret> {
        self.secret(|expanded| expanded.has_literal && !expanded.has_reference)
    }

    fn cannot_expand<T>(&self, error: ExpandError) -> Option<T> {
        let (code, message, help) = match error {
            ExpandError::BadName(name) if name.starts_with("file:") => (
                "bad-reference",
                "only a secret can come from a file".to_owned(),
                "write the value itself, or `${NAME}` for an environment variable".to_owned(),
            ),
            ExpandError::BadName(name) => (
                "bad-reference",
                format!("`${{{name}}}` is not a valid name of an environment variable"),
                "write `${NAME}` or `${NAME:-default}`, and `$${` for a plain `${`".to_owned(),
            ),
            ExpandError::File { path, why } => (
                "missing-file",
                format!("{path:?} cannot be read: {why}"),
                "create the file, readable by the user of the process".to_owned(),
            ),
            ExpandError::Unclosed => (
                "bad-reference",
                "`${` without a `}`".to_owned(),
                "write `${NAME}`, and `$${` for a plain `${`".to_owned(),
            ),
            ExpandError::Unset(name) => (
                "unset-variable",
                format!("environment variable {name} is not set"),
                format!("set it, or give a default: `${{{name}:-default}}`"),
            ),
        };
        self.refuse(code, message, help)
    }

    /// Reads a string that contains a number and a unit. The error for a number without a unit
    /// suggests a unit.
    fn with_unit(&self, what: &str, form: &str) -> Option<String> {
        if self.raw().is_str() {
            return self.string();
        }
        self.problem(
            Problem::error("wrong-type", self.span(), format!("expected {what} in quotes"))
                .label("expected a string")
                .help(format!("write {form}")),
        );
        None
    }

    fn bad_unit<T>(&self, code: &'static str, what: &str, form: &str, text: &str) -> Option<T> {
        self.refuse(code, format!("{text:?} is not {what}"), format!("write {form}"))
    }

    fn out_of_range<T>(&self, low: &str, high: &str) -> Option<T> {
        self.refuse(
            "out-of-range",
            format!("`{}` is out of range", self.name),
            format!("from {low} to {high}"),
        )
    }

    fn zero<T>(&self) -> Option<T> {
        let message = format!("`{}` must not be zero: zero would block everything", self.name);
        self.refuse("zero-limit", message, "use a value above zero")
    }
}

const SECRET_FORM: &str =
    "keep it in a file, `\"${file:/run/secrets/NAME}\"`, or in the environment, `\"${NAME}\"`";
