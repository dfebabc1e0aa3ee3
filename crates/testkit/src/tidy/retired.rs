//! Words that identifiers no longer contain, because there is a better word or because the word had
//! several meanings.
//!
//! A word only counts if it is a whole segment of an identifier: `door_code` and `OpenDoor` contain
//! `door`, `doorbell` does not.

use super::complaint::Complaint;
use super::source::Source;

/// A word that identifiers must not contain.
#[derive(Clone, Copy, Debug)]
pub struct Retired {
    /// The word in lower case.
    pub word: &'static str,
    /// The replacement.
    pub instead: &'static str,
    /// Folders and files that may use the word: as a term of a protocol, or until the names that
    /// contain it are changed. This list may only shrink.
    pub allowed: &'static [&'static str],
}

/// Reports retired words in identifiers outside tests, and exceptions that are no longer needed.
pub fn retired_words(sources: &[Source], words: &[Retired]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut needed = vec![false; words.iter().map(|retired| retired.allowed.len()).sum()];
    for source in sources.iter().filter(|source| source.is_rust() && !source.is_test()) {
        for (index, line) in source.code_without_tests().lines().enumerate() {
            let (mut first, lower) = (0, line.to_ascii_lowercase());
            for Retired { word, instead, allowed } in words {
                // `contains` comes first, because splitting every identifier for every word takes a
                // minute.
                if lower.contains(word) && has_segment(line, word) {
                    match allowed.iter().position(|place| source.path.starts_with(place)) {
                        Some(at) => needed[first + at] = true,
                        None => complaints.push(Complaint::new(
                            &source.path,
                            index + 1,
                            format!("`{word}` is retired: {instead}"),
                        )),
                    }
                }
                first += allowed.len();
            }
        }
    }
    let allowances =
        words.iter().flat_map(|retired| retired.allowed.iter().map(move |place| (retired.word, place)));
    complaints.extend(allowances.zip(needed).filter(|(_, needed)| !needed).map(|((word, place), _)| {
        Complaint::new(place, 0, format!("no longer uses `{word}`: remove it from the list"))
    }));
    complaints
}

fn has_segment(line: &str, word: &str) -> bool {
    let identifiers = line.split(|c: char| c != '_' && !c.is_alphanumeric());
    identifiers.flat_map(segments).any(|segment| segment.eq_ignore_ascii_case(word))
}

/// The words of an identifier in snake case, camel case or capitals.
fn segments(identifier: &str) -> impl Iterator<Item = &str> {
    identifier.split('_').flat_map(|part| {
        let bytes = part.as_bytes();
        let starts_word = |at: usize| {
            let is_last_capital = || bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            at == 0
                || (bytes[at].is_ascii_uppercase()
                    && (!bytes[at - 1].is_ascii_uppercase() || is_last_capital()))
        };
        let mut starts: Vec<usize> =
            (0..bytes.len()).filter(|&at| part.is_char_boundary(at) && starts_word(at)).collect();
        starts.push(part.len());
        (1..starts.len()).map(move |at| &part[starts[at - 1]..starts[at]])
    })
}
