//! The report of a rule.

use std::fmt;

/// One broken rule: the place, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Path relative to the workspace root.
    pub path: String,
    /// One-based line, or 0 when the complaint is about the whole file.
    pub line: usize,
    /// The complaint, one sentence.
    pub text: String,
}

impl Complaint {
    /// A complaint about a line by its number, from 1, or about the whole file if the number is 0.
    pub fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}
