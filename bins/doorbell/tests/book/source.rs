//! Source files as text, for what only they say: documentation of words, log messages.
//!
//! Does not know about: pages.

use crate::page::files_below;
use std::path::Path;

/// A variant of an enum, or a field of one.
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) text: String,
    /// Where the source says one, as in `Done = "done"`.
    pub(crate) word: Option<String>,
    /// Spaces before it.
    pub(crate) indent: usize,
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Every source file outside tests, each string on one line.
pub(crate) fn all() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["bins/doorbell/src", "crates"] {
        files_below(&root.join(folder), "rs", &mut files);
    }
    files.retain(|file| !file.components().any(|part| part.as_os_str() == "tests"));
    files.sort();
    assert!(files.len() > 300, "{}", files.len());
    files.iter().map(|file| unbroken(&std::fs::read_to_string(file).unwrap())).collect()
}

/// A `\` at the end of a line joins it with the next.
pub(crate) fn unbroken(text: &str) -> String {
    let mut pieces = text.split("\\\n");
    let mut joined = pieces.next().unwrap_or_default().to_owned();
    pieces.for_each(|piece| joined.push_str(piece.trim_start()));
    joined
}

/// What stands between the braces behind `head`, item by item with its documentation.
pub(crate) fn items(source: &str, head: &str) -> Vec<Item> {
    let start = source.find(head).unwrap_or_else(|| panic!("{head} is not there"));
    let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
    let end = " ".repeat(start - line_start) + "}";
    let (mut items, mut text) = (Vec::new(), String::new());
    for line in
        source[start..].lines().skip(1).take_while(|line| !line.starts_with(&*end) || line.trim() != "}")
    {
        let trimmed = line.trim();
        if let Some(doc) = trimmed.strip_prefix("///") {
            text.push_str(doc.trim_end());
        } else if !trimmed.starts_with(['#', '}'])
            && let Some(name) =
                trimmed.split([',', ' ', ':', '(', ';']).next().filter(|name| !name.is_empty())
        {
            let word = trimmed.split_once(" = \"").and_then(|(_, rest)| rest.split('"').next());
            items.push(Item {
                name: name.to_owned(),
                text: std::mem::take(&mut text).trim().to_owned(),
                word: word.map(str::to_owned),
                indent: line.len() - line.trim_start().len(),
            });
        }
    }
    assert!(!items.is_empty(), "{head} has nothing in it");
    items
}

/// `GoingDown` as `going_down`.
pub(crate) fn snake(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}
