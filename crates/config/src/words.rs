//! Words for help texts: what was probably meant, and lists of what there is.
//!
//! Does not know about: tables, problems.

/// A word that was probably meant, as a question.
#[must_use]
pub fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    // Names of any length may stand in a file, but distances are worth computing only for short ones.
    // Of two numbers none was meant for the other.
    if word.len() > 64 || !word.contains(char::is_alphabetic) {
        return None;
    }
    let scored =
        known.iter().map(|candidate| (strsim::jaro_winkler(&word.to_lowercase(), candidate), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then(|| format!("did you mean `{}`?", best.1))
}

/// `"a", "b"`.
#[must_use]
pub fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}
