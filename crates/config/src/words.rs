//! Words for help texts: suggestions, and lists of alternatives.
//!
//! Does not know about: tables, problems.

/// A suggestion for a misspelt word, as a question.
#[must_use]
pub fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    // Names in a file may have any length, but distances are worth computing only for short ones. A
    // number is never a misspelling of another number.
    if word.len() > 64 || !word.contains(char::is_alphabetic) {
        return None;
    }
    let scored =
        known.iter().map(|candidate| (strsim::jaro_winkler(&word.to_lowercase(), candidate), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then(|| format!("did you mean `{}`?", best.1))
}

/// Formats `"a", "b"`.
#[must_use]
pub fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}
