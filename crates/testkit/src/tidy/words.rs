//! Rules about required and forbidden words.

use super::complaint::Complaint;
use super::source::Source;

/// Reports Rust files that do not open with `//!`.
pub fn headers(sources: &[Source]) -> Vec<Complaint> {
    let rust = sources.iter().filter(|source| source.is_rust());
    rust.filter(|source| !source.text.starts_with("//! "))
        .map(|source| {
            Complaint::new(&source.path, 1, "does not open with `//! ` and a sentence about what it owns")
        })
        .collect()
}

/// Reports the word `unsafe` in code outside `crates/ring`.
pub fn unsafe_outside(sources: &[Source]) -> Vec<Complaint> {
    let outside =
        sources.iter().filter(|source| source.is_rust() && !source.path.starts_with("crates/ring/"));
    outside
        .flat_map(|source| {
            lines_where(
                source,
                &source.masked.code,
                |line| has_word(line, "unsafe"),
                "unsafe outside crates/ring",
            )
        })
        .collect()
}

/// Reports crate roots outside `crates/ring` without `#![forbid(unsafe_code)]`.
pub fn forbids_unsafe(sources: &[Source]) -> Vec<Complaint> {
    let roots = sources.iter().filter(|source| {
        (source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs"))
            && !source.path.starts_with("crates/ring/")
    });
    roots
        .filter(|source| !source.masked.code.contains("#![forbid(unsafe_code)]"))
        .map(|source| Complaint::new(&source.path, 0, "lacks #![forbid(unsafe_code)]"))
        .collect()
}

/// Reports unfinished work: placeholder macros in code, reminder words in comments.
pub fn left_open(sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let macros = |line: &str| line.contains("todo!") || line.contains("unimplemented!");
        complaints.extend(lines_where(source, &source.masked.code, macros, "a placeholder macro"));
        let reminder = |line: &str| ["FIXME", "TODO", "XXX"].iter().any(|word| has_word(line, word));
        complaints.extend(lines_where(
            source,
            &source.masked.comments,
            reminder,
            "a reminder: do the work or file an issue",
        ));
    }
    complaints
}

/// Reports `#[ignore]` without a reason.
pub fn ignores(sources: &[Source]) -> Vec<Complaint> {
    let rust = sources.iter().filter(|source| source.is_rust());
    rust.flat_map(|source| {
        lines_where(
            source,
            &source.masked.code,
            |line| line.contains("#[ignore]"),
            "#[ignore] without a reason",
        )
    })
    .collect()
}

/// Reports cited line numbers of another file, which are wrong after the next edit.
pub fn line_citations(sources: &[Source]) -> Vec<Complaint> {
    let prose = sources.iter().filter(|source| source.path.ends_with(".md"));
    prose
        .flat_map(|source| {
            lines_where(source, &source.text, cites_line, "cites a line number; name the item")
        })
        .collect()
}

fn cites_line(line: &str) -> bool {
    [".rs:", ".toml:", ".rs#L", ".c:", ".h:"].iter().any(|mark| {
        line.match_indices(mark)
            .any(|(at, _)| line[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Reports absolute paths of one developer's machine.
pub fn machine_paths(sources: &[Source]) -> Vec<Complaint> {
    // Split, so that this file does not break its own rule.
    let banned =
        [concat!("/wo", "rk/"), concat!("/tmp/", "target"), concat!("/tmp/", "notes"), concat!("/ro", "ot/")];
    sources
        .iter()
        .flat_map(|source| {
            let hit = |line: &str| banned.iter().any(|path| line.contains(path));
            lines_where(source, &source.text, hit, "names a path of one machine")
        })
        .collect()
}

fn lines_where(source: &Source, text: &str, hit: impl Fn(&str) -> bool, what: &str) -> Vec<Complaint> {
    let lines = text.lines().enumerate().filter(|(_, line)| hit(line));
    lines.map(|(index, _)| Complaint::new(&source.path, index + 1, what)).collect()
}

/// Whether `line` contains `word` without a word character on either side.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_word)
            && !line[at + word.len()..].chars().next().is_some_and(is_word)
    })
}
