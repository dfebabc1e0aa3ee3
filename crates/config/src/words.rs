//! Words for help texts: suggestions, and lists of alternatives.

/// The known word that a misspelt word resembles most, if it is similar enough to be meant.
pub(crate) fn similar<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // Names in a file may have any length, but distances are worth computing only for short ones. A
    // number is never a misspelling of another number.
    if word.len() > 64 || !word.contains(char::is_alphabetic) {
        return None;
    }
    let word = word.to_lowercase();
    let scored = known.map(|candidate| (strsim::jaro_winkler(&word, candidate), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

/// A suggestion for a misspelt word, as a question.
#[must_use]
pub fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    similar(word, known.iter().copied()).map(|known| format!("did you mean `{known}`?"))
}

/// Formats `"a", "b"`.
#[must_use]
pub fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}
