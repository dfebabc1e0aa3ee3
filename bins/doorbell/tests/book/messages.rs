//! Log messages: those in the sources, and those quoted by a page.

use crate::page::files_below;
use crate::source::unbroken;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) level: &'static str,
    pub(crate) text: String,
    pub(crate) fields: Vec<String>,
}

/// Folders whose sources write log lines.
const FOLDERS: [&str; 6] = [
    "bins/doorbell/src",
    "crates/checks/src",
    "crates/history/src",
    "crates/http2/src",
    "crates/proxy-server/src",
    "crates/tokio/src",
];

/// All log messages that contain at least two literal words, sorted.
pub(crate) fn logged() -> Vec<Message> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| files_below(&root.join(folder), "rs", &mut files));
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
        let text = unbroken(&std::fs::read_to_string(file).unwrap());
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for level in ["error", "warn", "info"] {
            let head = format!("{level}!(");
            let calls = code.match_indices(&head);
            found.extend(calls.filter_map(|(at, _)| message(level, &code[at + head.len()..])));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Parses the arguments of one log call: fields, the message, and values for its placeholders.
fn message(level: &'static str, rest: &str) -> Option<Message> {
    let arguments = arguments(rest);
    let at = arguments.iter().position(|argument| argument.starts_with('"'))?;
    let text = arguments[at].strip_prefix('"')?.strip_suffix('"')?.replace("\\\"", "\"");
    let is_field = |argument: &&String| !argument.starts_with("target:");
    let field = |argument: &String| {
        let name = argument.split(" =").next().unwrap_or_default();
        name.trim_start_matches(['%', '?']).to_owned()
    };
    let fields = arguments[..at].iter().filter(is_field).map(field).collect();
    let own: String = text.split('{').map(|part| part.split_once('}').map_or(part, |(_, own)| own)).collect();
    let has_words = own.split(' ').filter(|word| word.chars().any(char::is_alphabetic)).count() >= 2;
    has_words.then_some(Message { level, text, fields })
}

/// Splits the arguments up to the closing parenthesis of the call.
fn arguments(rest: &str) -> Vec<String> {
    let (mut arguments, mut argument) = (Vec::new(), String::new());
    let (mut depth, mut in_text, mut is_escaped) = (0, false, false);
    for letter in rest.chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if in_text => is_escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(std::mem::take(&mut argument).trim().to_owned());
                continue;
            }
            _ => {}
        }
        argument.push(letter);
    }
    arguments.push(argument.trim().to_owned());
    arguments
}

/// Messages quoted by a page: the code spans of each paragraph that starts with `**Message:**`.
pub(crate) fn quoted(page: &str) -> Vec<String> {
    let paragraphs = page.split("\n\n").filter_map(|paragraph| paragraph.trim().strip_prefix("**Message:**"));
    let codes = paragraphs.flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    codes.map(|code| code.replace('\n', " ")).collect()
}

/// Reports whether the sources contain all parts of a message in order. Parts are separated by
/// `..`, and at most 400 bytes apart.
pub(crate) fn is_in(message: &str, sources: &str) -> bool {
    let pieces: Vec<&str> = message.split("..").map(str::trim).filter(|piece| !piece.is_empty()).collect();
    let Some((first, rest)) = pieces.split_first() else { return false };
    sources.match_indices(first).any(|(at, _)| {
        let mut at = at + first.len();
        rest.iter().all(|piece| {
            let end = sources.floor_char_boundary(at + 400);
            let found = sources[at..end.max(at)].find(piece);
            at += found.map_or(0, |found| found + piece.len());
            found.is_some()
        })
    })
}

#[test]
fn messages_are_taken_apart() {
    let call = r#"worker = worker.0, %error, "it \"{name}\" is (gone), {}: no more", why(1, 2)); other("x")"#;
    let found = message("warn", call).unwrap();
    assert_eq!(found.fields, ["worker", "error"]);
    assert_eq!(found.text, r#"it "{name}" is (gone), {}: no more"#);
    assert_eq!(message("warn", r#""{place}: {why}", a)"#), None);
    let page = "## A\n\n**Message:** `cannot ..: it is`\nor `x`\n\nNot `this`.\n";
    assert_eq!(quoted(page), ["cannot ..: it is", "x"]);
    assert!(
        is_in("cannot ..: it is", "a cannot {}: it is b")
            && !is_in("cannot ..: it was", "a cannot {}: it is b")
    );
}
