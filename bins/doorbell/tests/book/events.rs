//! Generates `reference/events.md`: events, their values, reasons and log messages, from the
//! sources that define them.

use crate::messages;
use crate::page::{GENERATED, cell};
use crate::source::{items, read, snake};
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Events, states and log messages

## Events

`doorbell events` prints the last 2,048 events; `--follow` goes on with new ones. With `-o json` each is
an object with `number` (counted from 1 at the start), `at_unix_ms`, `at_uptime_ms`, `event` and the
fields of its kind. The same events are at `/-/events` of the admin listener.

| Event | Meaning | Fields |
|---|---|---|
";

const STATES: [(&str, &str, &str); 4] = [
    ("States of a check", "crates/health/src/check/state.rs", "pub enum CheckState {"),
    ("States of an endpoint", "crates/health/src/endpoint/verdict.rs", "pub enum EndpointState {"),
    ("Causes of an endpoint's state", "crates/health/src/endpoint/verdict.rs", "pub enum Cause {"),
    ("Life cycle of the process", "crates/control/src/word.rs", "    Lifecycle {"),
];

pub(crate) fn page() -> String {
    let mut page = format!("{GENERATED}{INTRODUCTION}");
    events(&mut page);
    for (title, path, head) in STATES {
        let _infallible = write!(page, "\n## {title}\n\n| Word | Meaning |\n|---|---|\n");
        words(&mut page, path, head.trim_start());
    }
    page.push_str(
        "\n## Reasons for the end of a connection\n\n\
         Label `reason` of `doorbell_connections_closed_total`.\n\n| Reason | Meaning |\n|---|---|\n",
    );
    words(&mut page, "crates/doorbell/src/error.rs", "close_reasons! {\n    ///");
    log(&mut page);
    page
}

/// Writes one row for each variant of the enum, with its fields, which are indented deeper.
fn events(page: &mut String) {
    let found = items(&read("crates/control/src/event.rs"), "pub enum EventKind {");
    let least = found.iter().map(|item| item.indent).min().unwrap();
    let mut rows: Vec<(String, String, Vec<String>)> = Vec::new();
    for item in &found {
        if item.indent == least {
            rows.push((snake(&item.name), item.text.clone(), Vec::new()));
        } else {
            let text = item.text.trim_end_matches('.');
            rows.last_mut().unwrap().2.push(format!("`{}`: {text}", item.name));
        }
    }
    assert!(rows.len() >= 7 && rows.iter().all(|(_, _, fields)| fields.len() >= 2));
    for (name, text, fields) in rows {
        let _infallible = writeln!(page, "| `{name}` | {} | {} |", cell(&text), cell(&fields.join("; ")));
    }
}

fn words(page: &mut String, path: &str, head: &str) {
    let found = items(&read(path), head);
    assert!(found.len() >= 4, "{path}");
    for item in found {
        assert!(!item.text.is_empty(), "{path}: {} has no documentation", item.name);
        let word = item.word.unwrap_or_else(|| snake(&item.name));
        let _infallible = writeln!(page, "| `{word}` | {} |", cell(&item.text));
    }
}

fn log(page: &mut String) {
    let found = messages::logged();
    assert!(found.len() >= 60, "{}", found.len());
    page.push_str(
        "\n## Log messages\n\n\
         Messages of level `info` and above, with their fields. Text in braces is filled in. A check or an\n\
         endpoint that changes its state is logged as `check NAME: STATE` or `health NAME: STATE`.\n",
    );
    for level in ["error", "warn", "info"] {
        let _infallible = write!(page, "\n### Level `{level}`\n\n| Message | Fields |\n|---|---|\n");
        for message in found.iter().filter(|message| message.level == level) {
            let fields: Vec<_> = message.fields.iter().map(|field| format!("`{field}`")).collect();
            let _infallible = writeln!(page, "| `{}` | {} |", cell_of_code(&message.text), fields.join(", "));
        }
    }
}

/// Replaces backticks, which would end the code span of the message.
fn cell_of_code(text: &str) -> String {
    text.replace('`', "'").replace('|', "\\|")
}
