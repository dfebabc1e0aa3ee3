//! `reference/keys.md`: every key of a configuration file, generated from the schema.

use crate::page::{GENERATED, cell};
use doorbell_proxy::cli::manual::{default_shown, properties};
use doorbell_proxy_config::schema;
use serde_json::Value;
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Configuration keys

Every table and key of `doorbell.toml`. `NAME` stands for a name of your choice, of at most 128
letters, digits, `_` and `-`. The same text is in `doorbell man doorbell.toml`; editors read it from
`doorbell config schema`.

- A duration is a number and a unit, or several: `500ms`, `2s`, `1m30s`, `1h`, `7d`.
- A size is a number and a unit: `0B`, `64KiB`, `16MiB`, `1GiB`.
- A rate is a number and a period: `10/s`, `600/m`.
- A text may contain `${NAME}`, an environment variable; a secret may also contain `${file:PATH}`, the
  content of a file.
- A key with a single value can be set by an environment variable without changing the file:
  `DOORBELL__SECTION__KEY`, which takes precedence over the file.

A key without a default is optional unless its text says otherwise. A key of `[check.NAME]` that is also
in `[check_defaults]` takes its default from there.
";

/// Renders `reference/keys.md`.
pub(crate) fn page() -> String {
    let schema = schema();
    let mut page = format!("{GENERATED}{INTRODUCTION}");
    let single = |form: &Value| tables("", form).is_empty() && names("", form).is_none();
    let top: Vec<_> = properties(&schema).filter(|(_, form)| single(form)).collect();
    page.push_str("\n## Top level\n");
    rows(&mut page, "", &top);
    for (key, form) in properties(&schema) {
        below(&mut page, key, form);
    }
    page
}

/// Renders the sections of a key that holds one table or several.
fn below(page: &mut String, path: &str, form: &Value) {
    for (path, table) in tables(path, form) {
        section(page, &path, description(form), description(table), table);
    }
    if let Some((path, table)) = names(path, form) {
        section(page, &path, description(form), description(table), table);
    }
}

fn section(page: &mut String, path: &str, group: &str, own: &str, table: &Value) {
    let _infallible = write!(page, "\n## `{}`\n", header(path));
    let texts = [group, own].map(str::trim);
    let texts = if texts[0] == texts[1] { &texts[..1] } else { &texts[..] };
    for text in texts.iter().filter(|text| !text.is_empty()) {
        let _infallible = write!(page, "\n{}\n", cell(text));
    }
    let keys: Vec<_> = properties(table).collect();
    rows(page, path, &keys);
    for (key, form) in keys {
        below(page, &format!("{path}.{key}"), form);
    }
}

/// Header of a table, such as `[control]`, or `[[maintenance.window]]` for a list of tables.
fn header(path: &str) -> String {
    match path.strip_suffix("[]") {
        Some(path) => format!("[[{path}]]"),
        None => format!("[{path}]"),
    }
}

fn rows(page: &mut String, path: &str, keys: &[(&String, &Value)]) {
    if keys.is_empty() {
        return;
    }
    page.push_str("\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n");
    for (key, form) in keys {
        let place = if path.is_empty() { (*key).clone() } else { format!("{path}.{key}") };
        let default = default_shown(form).map(|shown| format!("`{shown}`")).unwrap_or_default();
        let value = values(&place, form).join(" or ");
        let _infallible = writeln!(
            page,
            "| `{key}` | {} | {} | {} |",
            cell(&value),
            cell(&default),
            cell(description(form))
        );
    }
}

/// The tables that the schema `form` allows and that have keys, with their paths.
fn tables<'f>(path: &str, form: &'f Value) -> Vec<(String, &'f Value)> {
    let forms = form["anyOf"].as_array().into_iter().flatten();
    let own = [form].into_iter().chain(forms).map(|form| (path.to_owned(), form));
    let listed = (format!("{path}[]"), &form["items"]);
    own.chain([listed]).filter(|(_, form)| properties(form).next().is_some()).collect()
}

/// The table under a name that the user chooses, with its path; `None` if there is no such table.
fn names<'f>(path: &str, form: &'f Value) -> Option<(String, &'f Value)> {
    let table = &form["additionalProperties"];
    properties(table).next().map(|_| (format!("{path}.NAME"), table))
}

fn description(form: &Value) -> &str {
    form["description"].as_str().unwrap_or_default()
}

/// Describes the valid values of a key, in the terms of [`INTRODUCTION`].
fn values(path: &str, form: &Value) -> Vec<String> {
    if let Some(words) = form["enum"].as_array() {
        let words: Vec<_> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return vec![words.join(", ")];
    }
    if let Some(constant) = form.get("const") {
        return vec![format!("`{constant}`")];
    }
    if let Some(forms) = form["anyOf"].as_array() {
        let is_value = |form: &&Value| form["pattern"] != "\\$\\{";
        let mut found: Vec<String> = Vec::new();
        for value in forms.iter().filter(is_value).flat_map(|form| values(path, form)) {
            if !found.contains(&value) {
                found.push(value);
            }
        }
        return found;
    }
    vec![match form["type"].as_str() {
        Some("array") => match tables(path, form).first() {
            Some((path, _)) => linked(path),
            None => format!("list of {}", values(path, &form["items"]).join(" or ")),
        },
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("integer") => whole(form),
        Some("object") => match tables(path, form).into_iter().next().or_else(|| names(path, form)) {
            Some((path, _)) => linked(&path),
            None => format!("table of {}", values(path, &form["additionalProperties"]).join(" or ")),
        },
        Some("string") => text(form).to_owned(),
        _ => "number or text".to_owned(),
    }]
}

fn linked(path: &str) -> String {
    let anchor: String =
        path.chars().filter(|letter| letter.is_alphanumeric() || "_-".contains(*letter)).collect();
    format!("[table](#{})", anchor.to_lowercase())
}

fn whole(form: &Value) -> String {
    match (form["minimum"].as_u64(), form["maximum"].as_u64()) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("{least} or more"),
        _ => "whole number".to_owned(),
    }
}

/// Kind of a string value, derived from its pattern.
fn text(form: &Value) -> &'static str {
    match form["pattern"].as_str() {
        Some(pattern) if pattern.contains("|ms|") => "duration",
        Some(pattern) if pattern.contains("KiB") => "size",
        Some(pattern) if pattern.contains("/[a-z") => "rate",
        Some(pattern) if pattern.starts_with('%') => "percentage",
        _ => "text",
    }
}
