//! The knowledge base `levers.md`: puts new figures into its tables and sees to it that it says something of every technique.
//!
//! Does not know about: how figures are measured; what is written beside them is written by people.

mod book;
mod cell;
mod merge;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use crate::ablate;
use crate::error::RigError;
use book::Book;

/// The committed one.
pub(crate) fn default_file() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/levers.md").into()
}

/// What is wrong with `file`, and whether nothing is.
pub(crate) fn check(file: &Path) -> Result<(String, bool), RigError> {
    let text = read(file)?;
    let book = parse(file, &text)?;
    let mut problems = book.problems();
    if book.show() != text {
        problems.push("it is not laid out as `doorbell-rig levers --merge` does it".to_owned());
    }
    let shown = if problems.is_empty() {
        format!(
            "{}: an entry for each technique, and every figure agrees with its percentage\n",
            file.display()
        )
    } else {
        problems.iter().map(|problem| format!("{}: {problem}\n", file.display())).collect()
    };
    Ok((shown, problems.is_empty()))
}

/// Puts the figures of `answers` into `file`, in place of those of the same kernel, driver, load and set. What else it says stays.
pub(crate) fn merge(file: &Path, answers: &[PathBuf]) -> Result<(String, bool), RigError> {
    let mut book = parse(file, &read(file)?)?;
    let mut text = String::new();
    for answer in answers {
        let saved = ablate::saved(answer)?;
        let count = merge::merge(&mut book, &saved).map_err(|detail| wrong(file, detail))?;
        text.push_str(&format!("{}: {count} figures\n", answer.display()));
    }
    fs::write(file, book.show()).map_err(RigError::io(file))?;
    let (checked, is_good) = check(file)?;
    Ok((text + &checked, is_good))
}

fn read(file: &Path) -> Result<String, RigError> {
    fs::read_to_string(file).map_err(RigError::io(file))
}

fn parse(file: &Path, text: &str) -> Result<Book, RigError> {
    Book::parse(text).map_err(|detail| wrong(file, detail))
}

fn wrong(file: &Path, detail: String) -> RigError {
    RigError::Log { path: file.to_owned(), detail }
}
