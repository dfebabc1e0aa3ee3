//! Draws sentences of comments and API documentation, for readers who do not know the project:
//! `cargo run -p doorbell-testkit --example sentences -- COMMIT`. CONTRIBUTING says what they judge.
//!
//! Prints a line for each sentence: package, file and line of the comment, the sentence before it,
//! and the sentence, separated by tabs. The same sources and COMMIT give the same sentences.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::iter;

use doorbell_testkit::tidy::{Source, load, package};

/// Sentences of a package; a smaller package is drawn whole.
const SENTENCES_MAX: usize = 200;

/// Shorter texts are names or numbers.
const WORDS_MIN: usize = 4;

fn main() -> io::Result<()> {
    let word = std::env::args().nth(1).ok_or_else(|| io::Error::other("expected the hash of a commit"))?;
    let sources = load()?;
    let mut packages: BTreeMap<&str, Vec<(u64, String)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust() && !is_test(&source.path)) {
        let drawn = packages.entry(package(&source.path)).or_default();
        for (line, comment) in comments(source) {
            let sentences = sentences(&comment);
            let before = iter::once("").chain(sentences.iter().map(String::as_str));
            for (before, sentence) in before.zip(&sentences) {
                let place = format!("{}:{line}", source.path);
                let order = hash(&format!("{word} {place} {sentence}"));
                drawn.push((order, format!("{place}\t{before}\t{sentence}")));
            }
        }
    }
    let mut out = io::stdout().lock();
    for (package, mut drawn) in packages {
        drawn.sort_unstable();
        for (_, line) in drawn.iter().take(SENTENCES_MAX) {
            writeln!(out, "{package}\t{line}")?;
        }
    }
    Ok(())
}

/// Unlike in the rules of `tidy`, benches do not count as tests: `benches/` also contains programs,
/// such as the rig.
fn is_test(path: &str) -> bool {
    path.ends_with("tests.rs") || path.split('/').any(|part| matches!(part, "tests" | "fuzz"))
}

/// Paragraphs and list items of the comments outside tests, with the number of their first line.
/// Code, tables and headings are left out.
fn comments(source: &Source) -> Vec<(usize, String)> {
    let code = source.code_without_tests();
    let lines = source.masked.comments.lines().zip(source.masked.code.lines().zip(code.lines()));
    let (mut found, mut open, mut is_code): (Vec<(usize, String)>, bool, bool) = (Vec::new(), false, false);
    for (index, (comment, (whole, kept))) in lines.enumerate() {
        let text = comment.trim_start().trim_start_matches('/').trim_start_matches('!').trim();
        let is_comment = comment.trim_start().starts_with("//") && whole == kept;
        is_code = is_comment && (is_code ^ text.starts_with("```"));
        if !is_comment
            || is_code
            || text.is_empty()
            || text.starts_with("```")
            || text.starts_with(['#', '|'])
        {
            open = false;
            continue;
        }
        match found.last_mut() {
            Some((_, paragraph)) if open && !text.starts_with("- ") => {
                paragraph.push(' ');
                paragraph.push_str(text);
            }
            _ => found.push((index + 1, text.trim_start_matches("- ").to_owned())),
        }
        open = true;
    }
    found
}

/// Splits after a full stop, a question mark or an exclamation mark before a capital letter, a
/// digit or code.
fn sentences(paragraph: &str) -> Vec<String> {
    let (mut sentences, mut current) = (Vec::new(), String::new());
    for word in paragraph.split_whitespace() {
        let begins =
            word.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "`[".contains(c));
        if begins && current.ends_with(['.', '?', '!']) {
            sentences.push(core::mem::take(&mut current));
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
    }
    sentences.push(current);
    sentences.retain(|sentence| sentence.split(' ').count() >= WORDS_MIN);
    sentences
}

/// FNV-1a with 64 bits: stable, so that a drawing can be repeated.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
