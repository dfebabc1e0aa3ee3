//! Numbered statements: soundness claims `R-n` of the ring crate and invariants `I-n` of the
//! engine.
//!
//! The rule checks that each cited claim is stated, and that each `SAFETY` comment cites a claim.

use std::collections::BTreeSet;

use super::complaint::Complaint;
use super::source::Source;

/// The stated numbers.
struct Claims {
    /// In the documentation of the ring crate.
    soundness: BTreeSet<u32>,
    /// In the documentation of the engine.
    invariants: BTreeSet<u32>,
}

/// Reports `SAFETY` comments without a claim, and cited numbers that are not stated.
pub fn claims(sources: &[Source]) -> Vec<Complaint> {
    let stated = Claims {
        soundness: stated(sources, "crates/ring/src/", "R-"),
        invariants: stated(sources, "crates/doorbell/src/", "I-"),
    };
    let mut complaints = Vec::new();
    let checked = sources.iter().filter(|source| source.is_rust() && !source.path.contains("/tidy"));
    for source in checked {
        complaints.extend(safety_without_claim(source));
        if source.path.starts_with("crates/ring/") {
            complaints.extend(unknown(source, "R-", &stated.soundness));
        }
        complaints.extend(unknown(source, "I-", &stated.invariants));
    }
    complaints
}

/// Finds statements in the documentation of modules and in the markdown of the package.
fn stated(sources: &[Source], below: &str, prefix: &str) -> BTreeSet<u32> {
    let pages = sources.iter().filter(|source| source.path.starts_with(below));
    pages
        .flat_map(|source| source.text.lines().map(|line| (source.is_rust(), line.trim_start())))
        .filter_map(|(is_rust, line)| {
            statement(if is_rust { line.strip_prefix("//!")? } else { line }, prefix)
        })
        .collect()
}

/// The number at the start of a list item, a table row or a heading.
fn statement(line: &str, prefix: &str) -> Option<u32> {
    let line = line.trim_start();
    let item =
        line.strip_prefix("- ").or_else(|| line.strip_prefix("| ")).or_else(|| line.strip_prefix('#'))?;
    let item = item.trim_start_matches([' ', '*', '#', '`', '[']);
    let digits: String = item.strip_prefix(prefix)?.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn safety_without_claim(source: &Source) -> Vec<Complaint> {
    let lines: Vec<&str> = source.masked.comments.lines().collect();
    let mut complaints = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if !line.contains("SAFETY:") {
            continue;
        }
        let block = lines[index..].iter().take_while(|line| line.trim_start().starts_with("//"));
        if !block.into_iter().any(|line| !cited(line, "R-").is_empty()) {
            complaints.push(Complaint::new(&source.path, index + 1, "SAFETY comment names no claim (R-n)"));
        }
    }
    complaints
}

fn unknown(source: &Source, prefix: &str, stated: &BTreeSet<u32>) -> Vec<Complaint> {
    let numbered = source.text.lines().enumerate();
    numbered
        .flat_map(|(index, line)| cited(line, prefix).into_iter().map(move |number| (index, number)))
        .filter(|(_, number)| !stated.contains(number))
        .map(|(index, number)| {
            Complaint::new(&source.path, index + 1, format!("{prefix}{number} is not stated"))
        })
        .collect()
}

/// The numbers after `prefix` at the start of a word: `I-3` but not `ABI-3`.
fn cited(line: &str, prefix: &str) -> Vec<u32> {
    let hits = line.match_indices(prefix).filter(|(at, _)| {
        !line[..*at].chars().next_back().is_some_and(|c| c == '_' || c == '-' || c.is_alphanumeric())
    });
    hits.filter_map(|(at, _)| {
        let digits: String = line[at + prefix.len()..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
    .collect()
}
