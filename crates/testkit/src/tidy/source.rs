//! The text files of the workspace, read once.
//!
//! Skips build output, hidden folders other than `.ci`, `.github`, `.config` and `.cargo`, and fuzz
//! corpora.

use std::fs;
use std::io;
use std::path::Path;

use super::lexer::{Masked, mask};

/// One text file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path relative to the workspace root, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// Code, comments and literals separately; only meaningful for Rust files.
    pub masked: Masked,
}

impl Source {
    /// Creates a source from its parts, for the bad samples of the tests.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), masked: mask(text) }
    }

    /// Whether this is a Rust file.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether all of this file is test code: `tests/`, `tests.rs`, fuzz targets, benches.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs")
            || self.path.split('/').any(|part| matches!(part, "tests" | "fuzz" | "benches"))
    }

    /// The code with every `#[cfg(test)] mod name { .. }` blanked.
    pub fn code_without_tests(&self) -> String {
        let code = &self.masked.code;
        let mut kept = code.clone();
        let mut from = 0;
        while let Some(found) = code[from..].find("#[cfg(test)]") {
            let start = from + found;
            from = start + "#[cfg(test)]".len();
            let Some(open) = code[from..].find(['{', ';']).map(|n| from + n) else { break };
            if code.as_bytes()[open] == b'{' {
                let end = closing_brace(code, open);
                let blank: String =
                    code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
                kept.replace_range(start..end, &blank);
                from = end;
            }
        }
        kept
    }
}

/// One past the brace that closes the one at `open`, or the end of the text.
pub(super) fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// The workspace this crate belongs to.
///
/// # Errors
/// When a folder or file cannot be read.
pub fn load() -> io::Result<Vec<Source>> {
    read_tree(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")))
}

/// Every text file below `root`.
///
/// # Errors
/// When a folder or file cannot be read.
pub fn read_tree(root: &Path) -> io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    walk(root, "", &mut sources)?;
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn walk(folder: &Path, prefix: &str, sources: &mut Vec<Source>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if wanted_folder(&name) {
                walk(&entry.path(), &path, sources)?;
            }
        // In a worktree of git, `.git` is a file with the path of the repository.
        } else if kind.is_file() && !matches!(&*name, ".git" | "Cargo.lock") {
            // Binary files such as corpora have no rules.
            if let Ok(text) = fs::read_to_string(entry.path()) {
                sources.push(Source::new(&path, &text));
            }
        }
    }
    Ok(())
}

fn wanted_folder(name: &str) -> bool {
    let hidden = name.starts_with('.') && !matches!(name, ".cargo" | ".ci" | ".config" | ".github");
    !hidden && !matches!(name, "artifacts" | "corpus" | "coverage" | "proptest-regressions" | "target")
}
