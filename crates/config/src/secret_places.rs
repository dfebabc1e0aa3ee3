//! Finds the values of a file that may contain a secret in clear text, by means of the schema and
//! the names of keys, and the comments after such values. The form of a value is its schema.
//!
//! A problem shows its line, on a terminal, in a log or in the output of CI, so secrets on this
//! line are masked, also those of misspelt keys.

use crate::expand::is_only_references;
use crate::line::comment;
use crate::secret_names::{credentials, is_credential};
use crate::words::similar;
use serde_json::Value;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Finds all values that may contain a secret in clear text: values of secret keys; values of
/// unknown keys whose name resembles that of a secret, or that are in a table with secrets; values
/// in place of such a table; credentials inside other values, as in URLs. Also finds the comment at
/// the end of a line with such a value, which may contain a former secret.
///
/// Expensive, so only for files with problems.
#[must_use]
pub fn secret_spans(schema: &Value, root: &DeTable<'_>, text: &str) -> Vec<Range<usize>> {
    let mut places = Places { text, spans: Vec::new() };
    walk(root, schema, &mut places);
    places.spans
}

struct Places<'t> {
    text: &'t str,
    spans: Vec<Range<usize>>,
}

impl Places<'_> {
    /// Adds the comments on the lines of a value: on its first line, and on its last line.
    fn add_comments(&mut self, value: &Range<usize>) {
        for start in [value.start, value.end] {
            let line = self.text.get(start..).and_then(|text| text.lines().next()).unwrap_or_default();
            let comment = comment(line);
            self.spans.extend(comment.map(|comment| start + comment.start..start + comment.end));
        }
    }
}

fn walk(table: &DeTable<'_>, form: &Value, places: &mut Places<'_>) {
    let known = form["properties"].as_object();
    let has_secrets = known.is_some_and(|known| known.values().any(is_secret));
    for (key, value) in table {
        let name: &str = key.get_ref();
        let form = known.and_then(|known| known.get(name)).or_else(|| chosen(form));
        let is_unknown_secret = form.is_none() && is_credential(name);
        // A misspelt key is treated as the key that a problem suggests.
        let meant = || known?.get(similar(name, known?.keys().map(String::as_str))?);
        match form.or_else(meant).filter(|_| !is_unknown_secret) {
            Some(form) => descend(value, form, places),
            None if has_secrets || is_unknown_secret => hide(value, places),
            None => descend(value, &Value::Null, places),
        }
    }
}

fn descend(value: &Spanned<DeValue<'_>>, form: &Value, places: &mut Places<'_>) {
    match value.get_ref() {
        _ if is_secret(form) => hide(value, places),
        DeValue::Table(table) => walk(table, table_form(form).unwrap_or(&Value::Null), places),
        DeValue::Array(list) => list.iter().for_each(|value| descend(value, form, places)),
        // A value in place of a table may contain the secrets of the table.
        _ if contains_secrets(form) => hide(value, places),
        _ => hide_credentials(value, places),
    }
}

fn hide(value: &Spanned<DeValue<'_>>, places: &mut Places<'_>) {
    places.add_comments(&value.span());
    match value.get_ref() {
        DeValue::Array(list) => list.iter().for_each(|value| hide(value, places)),
        DeValue::String(text) if !is_only_references(text) => places.spans.push(value.span()),
        DeValue::Table(table) => table.values().for_each(|value| hide(value, places)),
        DeValue::Boolean(_) | DeValue::String(_) => {}
        // A secret of a wrong type is still a secret.
        DeValue::Datetime(_) | DeValue::Float(_) | DeValue::Integer(_) => places.spans.push(value.span()),
    }
}

fn hide_credentials(value: &Spanned<DeValue<'_>>, places: &mut Places<'_>) {
    let DeValue::String(text) = value.get_ref() else { return };
    let (found, span) = (credentials(text), value.span());
    if !found.is_empty() {
        places.add_comments(&span);
    }
    let start = match span.len() - text.len().min(span.len()) {
        // A value from an environment variable has no quotes.
        0 => span.start,
        2 => span.start + 1,
        // If the string contains escapes or has triple quotes, positions inside it are unknown.
        _ => return places.spans.extend(found.first().map(|_| span)),
    };
    places.spans.extend(found.into_iter().map(|part| start + part.start..start + part.end));
}

/// The form of the values in a table whose keys the user chooses.
fn chosen(form: &Value) -> Option<&Value> {
    form.get("additionalProperties").filter(|form| form.is_object())
}

/// The form of a table, or of a table in a list.
pub(crate) fn table_form(form: &Value) -> Option<&Value> {
    if form.get("properties").is_some() || chosen(form).is_some() {
        return Some(form);
    }
    let any = form.get("anyOf").and_then(Value::as_array);
    any.into_iter().flatten().chain(form.get("items")).find_map(table_form)
}

/// Whether the user chooses the keys of a table, and the values are no tables.
pub(crate) fn is_map(table: &Value) -> bool {
    chosen(table).is_some_and(|form| table_form(form).is_none())
}

/// Whether a value, or all values of a table, are secrets.
fn is_secret(form: &Value) -> bool {
    let any = form["anyOf"].as_array().into_iter().flatten();
    any.chain([form, &form["additionalProperties"]]).any(|form| form["writeOnly"] == true)
}

/// Whether a value is a secret, or a table with secrets.
pub(crate) fn contains_secrets(form: &Value) -> bool {
    let table = table_form(form).unwrap_or(&Value::Null);
    let keys = table["properties"].as_object().into_iter().flat_map(serde_json::Map::values);
    is_secret(form) || keys.chain(chosen(table)).any(contains_secrets)
}
