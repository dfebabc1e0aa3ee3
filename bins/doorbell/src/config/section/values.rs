//! Values that have a form of their own: paths, rates, networks, counts that may be off, secrets.
//!
//! Does not know about: which key wants one.

use super::super::expand::{ExpandError, Expanded, expand_secret};
use super::super::likeness::is_credential;
use super::super::model::{FieldValue, Rate, Secret};
use super::super::problem::Problem;
use super::super::units::{RATE_FORM, parse_rate, parse_size};
use super::{At, Section, did_you_mean, quoted, record};
use crate::http::forwarded::{Network, NetworkError};
use serde_json::json;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

impl<'r> Section<'r> {
    /// A path in the file system.
    pub(crate) fn path(&mut self, key: &'static str) -> Option<At<PathBuf>> {
        let text = self.string(key)?;
        self.as_path(text)
    }

    /// One path or a list of them.
    pub(crate) fn paths(&mut self, key: &'static str) -> Vec<At<PathBuf>> {
        let texts = self.strings(key).map(|texts| texts.value).unwrap_or_default();
        texts.into_iter().filter_map(|text| self.as_path(text)).collect()
    }

    fn as_path(&self, text: At<String>) -> Option<At<PathBuf>> {
        let At { value, span } = text;
        if !value.is_empty() && !value.contains('\0') {
            return Some(At { value: value.into(), span });
        }
        let problem = Problem::error("bad-value", span, format!("{value:?} is not the name of a file"));
        self.problem(problem.help("write a path such as \"/etc/doorbell/tls/tls.crt\""));
        None
    }

    /// A list of tables; a table alone is not one.
    pub(crate) fn tables(&mut self, key: &'static str) -> Vec<Self> {
        self.note(key, || Some(json!({ "type": "array", "items": record::link(&self.kind_below(key)) })));
        let mut absent = Vec::new();
        if let Some(recorder) = self.reading.recorder {
            absent.push(self.below_absent(self.kind_below(key), recorder));
        }
        let Some(value) = self.raw(key) else { return absent };
        let DeValue::Array(list) = value.get_ref() else {
            return self.wrong_type(value, "a list of tables").unwrap_or_default();
        };
        if list.is_empty() {
            let problem = Problem::error("empty-list", value.span(), "a list without a table");
            self.problem(problem.help("remove it, or fill it"));
        }
        list.iter().filter_map(|value| self.below(key.into(), value)).collect()
    }

    /// A count where nothing would be let through with 0.
    pub(crate) fn limit(&mut self, key: &'static str, max: u32) -> Option<At<u32>> {
        self.note(key, || Some(json!({ "type": "integer", "minimum": 1, "maximum": max })));
        let value = self.raw(key)?;
        let is_zero = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte == b'0');
        if value.get_ref().as_integer().is_some_and(|number| is_zero(number.as_str())) {
            return self.zero(key, value.span());
        }
        self.integer(key, 1..=max)
    }

    /// A size where nothing would be let through with 0.
    pub(crate) fn size_limit(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<At<u32>> {
        if let Some(value) = self.raw(key)
            && value.get_ref().as_str().and_then(parse_size) == Some(0)
        {
            return self.zero(key, value.span());
        }
        self.size(key, range)
    }

    /// As [`Self::limit`], or `"off"`, which is `None` inside.
    pub(crate) fn limit_or_off(&mut self, key: &'static str, max: u32) -> Option<At<Option<u32>>> {
        let count = json!({ "type": "integer", "minimum": 1, "maximum": max });
        self.note(key, || Some(record::either(&[record::words(&["off"]), count])));
        let value = self.raw(key)?;
        match value.get_ref() {
            DeValue::String(word) if word == "off" => Some(At { value: None, span: value.span() }),
            DeValue::Integer(_) => self.limit(key, max).map(At::some),
            _ => self.wrong_type(value, "\"off\" or a whole number"),
        }
    }

    /// A duration, or `"off"`, which is `None` inside.
    pub(crate) fn duration_or_off(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Option<At<Option<Duration>>> {
        self.note(key, || Some(record::text("off|(?:[0-9]+(?:d|h|ms|us|m|s))+")));
        match self.raw(key)?.get_ref() {
            DeValue::String(word) if word == "off" => Some(At { value: None, span: self.raw(key)?.span() }),
            _ => self.duration(key, range).map(At::some),
        }
    }

    pub(crate) fn rate(&mut self, key: &'static str) -> Option<At<Rate>> {
        self.note(key, || Some(record::text("[0-9]+/[a-z0-9]+")));
        let value = self.raw(key)?;
        let text = self.as_string(value)?;
        match parse_rate(&text.value) {
            Some(rate) if rate.requests == 0 => self.zero(key, text.span),
            Some(value) => Some(At { value, span: text.span }),
            None => self.bad_unit("bad-rate", "a rate", RATE_FORM, &text),
        }
    }

    /// A rate, or `"off"`, which is `None` inside.
    pub(crate) fn rate_or_off(&mut self, key: &'static str) -> Option<At<Option<Rate>>> {
        self.note(key, || Some(record::words(&["off"])));
        if self.reading.recorder.is_some() {
            self.rate(key);
        }
        match self.raw(key)?.get_ref() {
            DeValue::String(word) if word == "off" => Some(At { value: None, span: self.raw(key)?.span() }),
            _ => self.rate(key).map(At::some),
        }
    }

    fn zero<T>(&self, key: &str, span: Range<usize>) -> Option<T> {
        let problem =
            Problem::error("zero-limit", span, format!("with `{key}` at zero nothing gets through"));
        self.problem(problem.help("give more than zero"));
        None
    }

    /// Networks in CIDR form.
    pub(crate) fn networks(&mut self, key: &'static str) -> Option<At<Vec<At<Network>>>> {
        let At { value: texts, span } = self.strings(key)?;
        let read = |At { value: text, span }: At<String>| match text.parse() {
            Ok(value) => Some(At { value, span }),
            Err(error) => {
                let help = match &error {
                    NetworkError::HostBits(network) => format!("write \"{network}\""),
                    NetworkError::BadAddress | NetworkError::BadLength(_) => {
                        "write \"10.0.0.0/8\", \"fd00::/8\" or one address".to_owned()
                    }
                };
                let message = format!("{text:?} is not a network: {error}");
                self.problem(Problem::error("bad-network", span, message).help(help));
                None
            }
        };
        Some(At { value: texts.into_iter().filter_map(read).collect(), span })
    }

    /// One or several of a few words; none of them when one is wrong.
    pub(crate) fn choices<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Option<At<Vec<T>>> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.note(key, || Some(record::one_or_list(&record::words(&names))));
        let At { value: texts, span } = self.strings_unnoted(key)?;
        if texts.is_empty() {
            let problem = Problem::error("empty-list", span, format!("`{key}` is an empty list"));
            self.problem(problem.help(format!("one of {}", quoted(&names))));
            return None;
        }
        let given_len = texts.len();
        let mut values = Vec::new();
        for At { value: text, span } in texts {
            if let Some(&(_, value)) = choices.iter().find(|(name, _)| *name == text) {
                values.push(value);
                continue;
            }
            // Some know the words in other cases.
            let same = names.iter().find(|name| name.eq_ignore_ascii_case(&text));
            let help = same.map(|name| format!("did you mean `{name}`?"));
            let help = help.or_else(|| did_you_mean(&text, &names));
            let help = help.unwrap_or_else(|| format!("one of {}", quoted(&names)));
            self.problem(Problem::error("bad-value", span, format!("`{key}` cannot be {text:?}")).help(help));
        }
        (values.len() == given_len).then_some(At { value: values, span })
    }

    pub(crate) fn secret(&mut self, key: &'static str) -> Option<At<Secret>> {
        self.note(key, || Some(json!({ "type": "string" })));
        let value = self.raw(key)?;
        self.as_secret(value, |expanded| expanded.has_literal)
    }

    /// How many keys there are, right or wrong.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Every key with a secret, for tables whose keys the user chooses.
    pub(crate) fn all_secrets(&self) -> Vec<(At<String>, At<Secret>)> {
        self.note_others(|| json!({ "type": "string" }));
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let secrets = entries.into_iter().filter_map(|(name, value)| {
            let name = At { value: name.get_ref().to_string(), span: name.span() };
            Some((name, self.as_secret(value, |expanded| expanded.has_literal)?))
        });
        secrets.collect()
    }

    /// Header fields of a request. Who we are is a secret, and words such as `Bearer` before it are none.
    pub(crate) fn all_fields(&self) -> Vec<(At<String>, At<FieldValue>)> {
        self.note_others(|| json!({ "type": "string" }));
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let fields = entries.into_iter().filter_map(|(name, value)| {
            let name = At { value: name.get_ref().to_string(), span: name.span() };
            let value = if is_credential(&name.value) {
                let is_clear = |expanded: &Expanded| expanded.has_literal && !expanded.has_reference;
                let At { value, span } = self.as_secret(value, is_clear)?;
                At { value: FieldValue::Secret(value), span }
            } else {
                let At { value, span } = self.as_string(value)?;
                At { value: FieldValue::Open(value), span }
            };
            Some((name, value))
        });
        fields.collect()
    }

    /// Every key with a number, for tables whose keys the user chooses.
    pub(crate) fn all_integers(&self, range: RangeInclusive<u32>) -> Vec<(At<String>, At<u32>)> {
        self.note_others(|| json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() }));
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let numbers = entries.into_iter().filter_map(|(name, value)| {
            let key = At { value: name.get_ref().to_string(), span: name.span() };
            let number = self.as_integer(&key.value, value, &range)?;
            Some((key, number))
        });
        numbers.collect()
    }

    fn as_secret(
        &self,
        value: &Spanned<DeValue<'_>>,
        is_clear: impl FnOnce(&Expanded) -> bool,
    ) -> Option<At<Secret>> {
        let Some(text) = value.get_ref().as_str() else { return self.wrong_type(value, "a string") };
        let span = value.span();
        if text == Secret::MASK {
            let message = format!("`{}` is what a dump shows in the place of a secret", Secret::MASK);
            self.problem(Problem::error("masked-secret", span, message).help(SECRET_FORM));
            return None;
        }
        match expand_secret(text, self.reading.env, self.reading.read_secret) {
            Ok(expanded) => {
                if is_clear(&expanded) {
                    let problem = Problem::warning("clear-secret", span.clone(), "a secret in clear text");
                    self.problem(problem.help(SECRET_FORM));
                }
                let files = expanded.files.into_iter().map(|value| At { value, span: span.clone() });
                self.reading.secret_files.borrow_mut().extend(files);
                Some(At { value: Secret::new(expanded.text), span })
            }
            // What is no name may be a part of the secret.
            Err(ExpandError::BadName(_)) => {
                let problem = Problem::error("bad-reference", span, "`${` is not followed by a name");
                self.problem(problem.help("write `${file:/path}` or `${NAME}`, and `$${` for a plain `${`"));
                None
            }
            Err(error) => self.cannot_expand(error, span),
        }
    }
}

const SECRET_FORM: &str =
    "keep it in a file, `\"${file:/run/secrets/NAME}\"`, or in the environment, `\"${NAME}\"`";

impl<T> At<T> {
    fn some(self) -> At<Option<T>> {
        At { value: Some(self.value), span: self.span }
    }
}
