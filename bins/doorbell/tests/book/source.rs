//! Source files as text, for content that only they define: the documentation of enums, and log
//! messages.

use crate::page::files_below;
use std::path::Path;

/// A variant of an enum, or a field of a variant.
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) text: String,
    /// Explicit value in the source, as in `Done = "done"`.
    pub(crate) word: Option<String>,
    /// Indentation of the line in spaces.
    pub(crate) indent: usize,
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Concatenates all source files outside tests, with each string on one line.
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

/// Joins lines that end with `\` with the next line.
pub(crate) fn unbroken(text: &str) -> String {
    let mut pieces = text.split("\\\n");
    let mut joined = pieces.next().unwrap_or_default().to_owned();
    pieces.for_each(|piece| joined.push_str(piece.trim_start()));
    joined
}

/// Items between the braces after `head`, each with its documentation.
pub(crate) fn items(source: &str, head: &str) -> Vec<Item> {
    let start = source.find(head).unwrap_or_else(|| panic!("{head} not found"));
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
    assert!(!items.is_empty(), "{head} has no items");
    items
}

/// Converts `GoingDown` to `going_down`.
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
