//! File and function length, each with a ratchet: a list of known offenders that may only shrink.
//!
//! Test code has no limit.

use super::complaint::Complaint;
use super::source::Source;
use super::source::closing_brace;

/// Maximum number of lines of a file outside tests.
pub const FILE_LINES_MAX: usize = 600;
/// Maximum number of code lines of a function body outside tests; clippy's `too_many_lines` counts
/// the same way.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Known offenders with their lengths.
///
/// An entry must neither grow nor be stale: the list may only shrink. The name is a path, or for
/// functions `path::name`.
pub type Ratchet<'a> = &'a [(&'a str, usize)];

/// Reports files over the limit, and ratchet entries that no longer hold.
pub fn file_lengths(sources: &[Source], ratchet: Ratchet<'_>) -> Vec<Complaint> {
    let lengths = sources
        .iter()
        .filter(|source| source.is_rust() && !source.is_test())
        .map(|source| (source.path.clone(), source.path.clone(), 0, source.text.lines().count()));
    compare(lengths, FILE_LINES_MAX, ratchet)
}

/// Reports functions over the limit, and ratchet entries that no longer hold.
pub fn function_lengths(sources: &[Source], ratchet: Ratchet<'_>) -> Vec<Complaint> {
    let lengths = sources.iter().filter(|source| source.is_rust() && !source.is_test()).flat_map(|source| {
        functions(&source.code_without_tests())
            .into_iter()
            .map(|(name, line, lines)| (format!("{}::{name}", source.path), source.path.clone(), line, lines))
    });
    compare(lengths, FUNCTION_LINES_MAX, ratchet)
}

/// The functions with a body in `code` (comments and literals already blanked): name, number of the
/// first line (from 1), number of code lines.
pub fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find("fn ").map(|n| from + n) {
        from = at + 3;
        let starts_word = at == 0 || !(bytes[at - 1] == b'_' || bytes[at - 1].is_ascii_alphanumeric());
        let name: String = code[from..].chars().take_while(|&c| c == '_' || c.is_alphanumeric()).collect();
        if !starts_word || name.is_empty() {
            continue;
        }
        if let Some(open) = body_open(code, from) {
            let line = code[..at].matches('\n').count() + 1;
            let body = &code[open + 1..closing_brace(code, open) - 1];
            let lines = body.lines().filter(|line| !line.trim().is_empty()).count();
            found.push((name, line, lines));
        }
    }
    found
}

/// The opening brace of the body; `None` for a declaration. A `;` inside an array type does not end
/// the declaration.
fn body_open(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn compare(
    lengths: impl Iterator<Item = (String, String, usize, usize)>,
    limit: usize,
    ratchet: Ratchet<'_>,
) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut seen = vec![0_usize; ratchet.len()];
    for (name, path, line, lines) in lengths {
        match ratchet.iter().position(|(known, _)| *known == name) {
            Some(index) => seen[index] = seen[index].max(lines),
            None if lines > limit => {
                complaints.push(Complaint::new(
                    &path,
                    line,
                    format!("{name} has {lines} lines, the limit is {limit}"),
                ));
            }
            None => {}
        }
    }
    for ((name, recorded), lines) in ratchet.iter().zip(seen) {
        if lines > *recorded {
            complaints.push(Complaint::new(name, 0, format!("grew from {recorded} to {lines} lines")));
        } else if lines <= limit {
            complaints.push(Complaint::new(name, 0, "is within the limit: remove it from the ratchet"));
        } else if lines < *recorded {
            complaints.push(Complaint::new(name, 0, format!("shrank: lower its ratchet entry to {lines}")));
        }
    }
    complaints
}
