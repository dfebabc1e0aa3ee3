//! Types of values: reading, dump and schema.

use crate::entry::{Entry, TABLES, TEXTS};
use crate::form;
use crate::key::Key;
use crate::place::At;
use crate::secret::Secret;
use crate::units::{Rate, format_duration, format_size, parse_duration};
use serde_json::{Value as Json, json};
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeValue;

/// A type that the value of a key can have.
pub trait Value: Clone + Sized + 'static {
    /// Whether a key of this type may be absent without a default.
    const IS_OPTIONAL: bool = false;
    /// The expected type, for messages about keys that also allow a list, or a word that means no
    /// value ([`Key::none`]).
    const EXPECTED: &str = "";

    /// Reads a value and reports all its problems; returns `None` if the value cannot be used.
    fn read(entry: &Entry<'_>) -> Option<Self>;

    /// The value for an absent key without a default. For a type that is not optional, it is only a
    /// placeholder: for a required key, or until the default is computed from other keys.
    fn absent() -> Self;

    /// The value as written in a file; `None` omits the key.
    fn dump(&self, key: &Key, with_defaults: bool) -> Option<Json>;

    /// The JSON Schema of the values.
    fn form(key: &Key) -> Json;
}

/// A type that is written as a string, in its `Display` form.
pub trait Text: Clone + fmt::Display + 'static {
    /// Parses a string; reports problems.
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self>;

    /// The placeholder for a required value that is missing or invalid.
    fn blank() -> Self;
}

impl<T: Text> Value for T {
    const EXPECTED: &str = TEXTS;

    fn read(entry: &Entry<'_>) -> Option<Self> {
        T::parse(entry.string()?, entry)
    }

    fn absent() -> Self {
        T::blank()
    }

    fn dump(&self, _key: &Key, _with_defaults: bool) -> Option<Json> {
        Some(literal(&self.to_string()))
    }

    fn form(_key: &Key) -> Json {
        json!({ "type": "string" })
    }
}

/// A type with a few named values.
///
/// `#[derive(Words)]` implements this trait and [`Value`].
pub trait Words: Copy + PartialEq + 'static {
    /// Every value with its word.
    const WORDS: &'static [(&'static str, Self)];

    /// The word of this value.
    fn word(self) -> &'static str {
        word_of(Self::WORDS, self)
    }
}

/// The word for a value.
pub fn word_of<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    let named = words.iter().find(|(_, known)| *known == value);
    named.map(|(word, _)| *word).expect("every value has a word")
}

/// The schema of a value that is one of `words`.
pub fn words_form<T>(words: &[(&'static str, T)]) -> Json {
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    form::words(&words)
}

/// Escapes a string so that it expands to itself.
#[must_use]
pub fn literal(text: &str) -> Json {
    Json::String(text.replace("${", "$${"))
}

impl Value for bool {
    fn read(entry: &Entry<'_>) -> Option<Self> {
        entry.bool()
    }

    fn absent() -> Self {
        false
    }

    fn dump(&self, _key: &Key, _with_defaults: bool) -> Option<Json> {
        Some(json!(self))
    }

    fn form(_key: &Key) -> Json {
        json!({ "type": "boolean" })
    }
}

impl Value for u32 {
    const EXPECTED: &str = "a whole number";

    fn read(entry: &Entry<'_>) -> Option<Self> {
        Self::try_from(entry.number(Self::MAX.into())?).ok()
    }

    fn absent() -> Self {
        0
    }

    fn dump(&self, key: &Key, _with_defaults: bool) -> Option<Json> {
        Some(if key.is_size { json!(format_size((*self).into())) } else { json!(self) })
    }

    fn form(key: &Key) -> Json {
        if key.is_size {
            return form::text("[0-9]+(?:GiB|MiB|KiB|B)");
        }
        let range = key.numbers(Self::MAX.into());
        json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() })
    }
}

macro_rules! whole_numbers {
    ($($type:ty)*) => {$(
        impl Value for $type {
            const EXPECTED: &str = u32::EXPECTED;

            fn read(entry: &Entry<'_>) -> Option<Self> {
                Self::try_from(entry.number(Self::MAX.into())?).ok()
            }

            fn absent() -> Self {
                0
            }

            fn dump(&self, _key: &Key, _with_defaults: bool) -> Option<Json> {
                Some(json!(self))
            }

            fn form(key: &Key) -> Json {
                let range = key.numbers(Self::MAX.into());
                json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() })
            }
        }
    )*};
}

whole_numbers! { u8 u16 }

impl Value for Duration {
    fn read(entry: &Entry<'_>) -> Option<Self> {
        entry.duration(&durations(entry.key))
    }

    fn absent() -> Self {
        Self::ZERO
    }

    fn dump(&self, _key: &Key, _with_defaults: bool) -> Option<Json> {
        Some(json!(format_duration(*self)))
    }

    fn form(_key: &Key) -> Json {
        form::text("(?:[0-9]+(?:d|h|ms|us|m|s))+")
    }
}

fn durations(key: &Key) -> RangeInclusive<Duration> {
    let bounds = key
        .range
        .as_ref()
        .and_then(|[low, high]| Some((parse_duration(low.as_str()?)?, parse_duration(high.as_str()?)?)));
    bounds.map_or(Duration::ZERO..=Duration::MAX, |(low, high)| low..=high)
}

impl Value for Rate {
    fn read(entry: &Entry<'_>) -> Option<Self> {
        entry.rate()
    }

    fn absent() -> Self {
        Self { requests: 1, period: Duration::from_secs(1) }
    }

    fn dump(&self, _key: &Key, _with_defaults: bool) -> Option<Json> {
        Some(json!(self.to_string()))
    }

    fn form(_key: &Key) -> Json {
        form::text("[0-9]+/[a-z0-9]+")
    }
}

impl Text for String {
    fn parse(text: String, _entry: &Entry<'_>) -> Option<Self> {
        Some(text)
    }

    fn blank() -> Self {
        Self::new()
    }
}

impl Text for SocketAddr {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        let message = format!("{text:?} is not an IP address and port");
        text.parse().ok().or_else(|| entry.refuse("bad-address", message, "write \"127.0.0.1:8080\""))
    }

    fn blank() -> Self {
        Self::from(([0; 4], 0))
    }
}

impl Value for PathBuf {
    const EXPECTED: &str = String::EXPECTED;

    fn read(entry: &Entry<'_>) -> Option<Self> {
        entry.path()
    }

    fn absent() -> Self {
        Self::new()
    }

    /// Paths come from strings, so the conversion is lossless.
    fn dump(&self, _key: &Key, _with_defaults: bool) -> Option<Json> {
        Some(literal(&self.to_string_lossy()))
    }

    fn form(_key: &Key) -> Json {
        json!({ "type": "string" })
    }
}

impl Value for Secret {
    fn read(entry: &Entry<'_>) -> Option<Self> {
        entry.secret(|expanded| expanded.has_literal)
    }

    fn absent() -> Self {
        Self::new(String::new())
    }

    fn dump(&self, _key: &Key, _with_defaults: bool) -> Option<Json> {
        Some(json!(Self::MASK))
    }

    /// `writeOnly`: a file contains the secret, but no output shows it. The values of keys with
    /// this mark are masked.
    fn form(_key: &Key) -> Json {
        json!({ "type": "string", "writeOnly": true })
    }
}

impl<T: Value> Value for At<T> {
    const IS_OPTIONAL: bool = T::IS_OPTIONAL;
    const EXPECTED: &str = T::EXPECTED;

    fn read(entry: &Entry<'_>) -> Option<Self> {
        Some(Self { value: T::read(entry)?, span: entry.span() })
    }

    fn absent() -> Self {
        T::absent().into()
    }

    fn dump(&self, key: &Key, with_defaults: bool) -> Option<Json> {
        self.value.dump(key, with_defaults)
    }

    fn form(key: &Key) -> Json {
        T::form(key)
    }
}

impl<T: Value> Value for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn read(entry: &Entry<'_>) -> Option<Self> {
        let Some(none) = entry.key.none else { return T::read(entry).map(Some) };
        if entry.is_word(none)? {
            return Some(None);
        }
        if entry.key.is_size || T::EXPECTED != u32::EXPECTED {
            return T::read(entry).map(Some);
        }
        entry.number_or_text(|entry| match entry.raw() {
            DeValue::Integer(_) => T::read(entry).map(Some),
            _ => entry.wrong_type(&format!("{none:?} or {}", T::EXPECTED)),
        })
    }

    fn absent() -> Self {
        None
    }

    fn dump(&self, key: &Key, with_defaults: bool) -> Option<Json> {
        match self {
            Some(value) => value.dump(key, with_defaults),
            None => key.none.map(Json::from),
        }
    }

    fn form(key: &Key) -> Json {
        match key.none {
            Some(none) => form::either(&[form::words(&[none]), T::form(key)]),
            None => T::form(key),
        }
    }
}

impl<T: Value> Value for Vec<T> {
    const IS_OPTIONAL: bool = true;

    /// Reads the valid elements; a single value needs no brackets, unless it is a table.
    fn read(entry: &Entry<'_>) -> Option<Self> {
        entry.list(T::EXPECTED, T::read)
    }

    fn absent() -> Self {
        Self::new()
    }

    fn dump(&self, key: &Key, with_defaults: bool) -> Option<Json> {
        Some(self.iter().filter_map(|value| value.dump(key, with_defaults)).collect())
    }

    fn form(key: &Key) -> Json {
        match T::EXPECTED {
            TABLES => json!({ "type": "array", "items": T::form(key) }),
            _ => form::one_or_list(&T::form(key)),
        }
    }
}
