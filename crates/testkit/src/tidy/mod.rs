//! The rules of this workspace that the compiler does not know: layering, file and function length, headers, claims, words.
//!
//! Does not know about: cargo, git, or anything that needs more than the text of the sources. Every rule is a function from
//! sources to complaints, so that `tests/tidy.rs` can run it on the workspace and, against rot, on small bad samples.

mod claims;
mod layering;
mod lengths;
mod lexer;
mod manifest;
mod modules;
mod source;
mod times;
mod words;

use std::fmt;

pub use claims::claims;
pub use layering::{LAYERS, Layer, imports, module_layers};
pub use lengths::{FILE_LINES_MAX, FUNCTION_LINES_MAX, Ratchet, file_lengths, function_lengths, functions};
pub use lexer::{Masked, mask};
pub use manifest::{ARROWS, Arrow, package_arrows};
pub use modules::unreferenced;
pub use source::{Source, load, read_tree};
pub use times::time_bounds;
pub use words::{forbids_unsafe, headers, ignores, left_open, line_citations, machine_paths, unsafe_outside};

/// One broken rule: where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Path from the workspace root.
    pub path: String,
    /// One-based line, or 0 when the complaint is about the whole file.
    pub line: usize,
    /// One sentence.
    pub text: String,
}

impl Complaint {
    /// A complaint about one line (one-based) or, with 0, about the whole file.
    pub fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}
