//! Tables whose keys the user chooses: header fields of a request, expressions for header fields of
//! a response, values of JSON content.

use super::http::FieldValue;
use doorbell_config::{Entry, Json, Key, Map, Problem, Secret, Value, is_credential, literal};
use serde_json::json;
use std::collections::HashMap;

/// Fields that doorbell writes itself, or that would break a request.
const OWN_FIELDS: [&str; 4] = ["connection", "content-length", "transfer-encoding", "upgrade"];

impl Value for FieldValue {
    fn read(entry: &Entry<'_>) -> Option<Self> {
        match is_credential(entry.name()) {
            true => entry.credential().map(Self::Secret),
            false => entry.string().map(Self::Open),
        }
    }

    fn absent() -> Self {
        Self::Open(String::new())
    }

    fn dump(&self, _: &Key, _: bool) -> Option<Json> {
        Some(match self {
            Self::Open(text) => literal(text),
            Self::Secret(_) => Secret::MASK.into(),
        })
    }

    /// Any field that is sent may be a credential.
    fn form(key: &Key) -> Json {
        Secret::form(key)
    }
}

pub(super) fn read(entry: &Entry<'_>) -> Option<Vec<(String, FieldValue)>> {
    let fields = Map::<FieldValue>::read(entry)?;
    refuse_twice(&fields, entry);
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    for (name, value) in fields.iter() {
        let problem = |message: String, help: &str| {
            entry.problem(Problem::error("bad-header", name.span.clone(), message).help(help));
        };
        if name.is_empty() || !name.bytes().all(token) {
            problem(format!("{:?} is not the name of a header field", name.value), "letters, digits and `-`");
        } else if OWN_FIELDS.contains(&&*name.to_ascii_lowercase()) {
            let help = "remove it; doorbell writes this field itself";
            problem(format!("header field `{}` cannot be set", name.value), help);
        }
        let text = value.reveal();
        let allowed = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        if !text.bytes().all(allowed) || text.as_bytes().trim_ascii() != text.as_bytes() {
            let message = format!("the value of `{}` cannot be sent", name.value);
            entry.problem(
                Problem::error("bad-header", value.span.clone(), message)
                    .help("no line breaks or other control characters, no space at either end"),
            );
        }
    }
    Some(pairs(&fields))
}

pub(super) fn dump(fields: &[(String, FieldValue)]) -> Option<Json> {
    dump_pairs(fields)
}

pub(super) fn form(key: &Key) -> Json {
    Map::<FieldValue>::form(key)
}

/// Refuses names that differ only in case: they are one field, and one of the values would be lost.
fn refuse_twice<T>(fields: &Map<T>, entry: &Entry<'_>) {
    let mut known = HashMap::new();
    for (name, _) in fields.iter() {
        if let Some(first) = known.insert(name.to_ascii_lowercase(), name) {
            let message = format!("header field `{}` is the same as `{}`", name.value, first.value);
            let problem = Problem::error("bad-header", name.span.clone(), message);
            entry.problem(
                problem.also(first.span.clone(), "first here").help("remove one of them; case is ignored"),
            );
        }
    }
}

fn pairs<T: Clone>(map: &Map<T>) -> Vec<(String, T)> {
    map.iter().map(|(name, value)| (name.value.clone(), value.value.clone())).collect()
}

fn dump_pairs<T: Value>(pairs: &[(String, T)]) -> Option<Json> {
    let key = Key::new::<T>("", "");
    let shown = pairs.iter().filter_map(|(name, value)| Some((name.clone(), value.dump(&key, true)?)));
    (!pairs.is_empty()).then(|| json!(shown.collect::<serde_json::Map<_, _>>()))
}

/// Expressions for the values of header fields.
pub(super) mod patterns {
    use super::super::http::Pattern;
    use super::{Entry, Json, Key, Map, Value, dump_pairs, pairs, refuse_twice};

    pub(in super::super) fn read(entry: &Entry<'_>) -> Option<Vec<(String, Pattern)>> {
        let patterns = Map::<Pattern>::read(entry)?;
        refuse_twice(&patterns, entry);
        let patterns = pairs(&patterns);
        Some(patterns.into_iter().map(|(name, pattern)| (name.to_ascii_lowercase(), pattern)).collect())
    }

    pub(in super::super) fn dump(patterns: &[(String, Pattern)]) -> Option<Json> {
        dump_pairs(patterns)
    }

    pub(in super::super) fn form(key: &Key) -> Json {
        Map::<Pattern>::form(key)
    }
}

/// Values of JSON content by their pointers.
pub(super) mod pointers {
    use super::{Entry, Json, Key, Map, Problem, Value, dump_pairs, pairs};

    pub(in super::super) fn read(entry: &Entry<'_>) -> Option<Vec<(String, String)>> {
        let values = Map::<String>::read(entry)?;
        for (pointer, _) in values.iter().filter(|(name, _)| !name.is_empty() && !name.starts_with('/')) {
            let message = format!("{:?} is not a JSON pointer", pointer.value);
            let problem = Problem::error("bad-value", pointer.span.clone(), message);
            entry.problem(problem.help(format!("write \"/{}\"", pointer.replace('.', "/"))));
        }
        Some(pairs(&values))
    }

    pub(in super::super) fn dump(values: &[(String, String)]) -> Option<Json> {
        dump_pairs(values)
    }

    pub(in super::super) fn form(key: &Key) -> Json {
        Map::<String>::form(key)
    }
}
