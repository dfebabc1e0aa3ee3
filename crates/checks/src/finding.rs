//! Result of a run: outcome, latency and reason.

use doorbell_health::Outcome;
use std::time::Duration;

/// Result of one run: outcome, latency and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The outcome of the run.
    pub outcome: Outcome,
    /// Time from the start of the run to its result.
    pub latency: Duration,
    /// Reason of the outcome. After a run, empty for [`Outcome::Success`]; a pushed success may
    /// have a note.
    pub reason: String,
}

/// A finding without its latency; `Ok` is [`Outcome::Success`].
pub(crate) type Verdict = Result<(), Issue>;

/// Reason when a connection ends within a response.
#[cfg(feature = "kinds")]
pub(crate) const CUT: &str = "the connection ended before the response was complete";

/// The beginning of a text, at most `len_max` bytes.
#[cfg(feature = "kinds")]
pub(crate) fn at_most(text: &str, len_max: usize) -> &str {
    let mut ends = (0..=len_max.min(text.len())).rev();
    ends.find_map(|end| text.get(..end)).unwrap_or_default()
}

/// Outcome and reason of a run whose outcome is not [`Outcome::Success`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) outcome: Outcome,
    pub(crate) reason: String,
}

impl Issue {
    /// The target refused, or its response did not meet the expectations.
    pub(crate) fn failure(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failure, reason: reason.into() }
    }

    /// The run could not be carried out.
    pub(crate) fn error(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Error, reason: reason.into() }
    }

    /// A success with a warning.
    #[cfg(feature = "kinds")]
    pub(crate) fn degraded(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Degraded, reason: reason.into() }
    }

    pub(crate) fn timeout(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Timeout, reason: reason.into() }
    }
}

/// Gravity of an outcome. When several outcomes are combined, the one with the highest value wins.
#[cfg(feature = "kinds")]
pub(crate) const fn severity(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Success => 0,
        Outcome::Degraded => 1,
        Outcome::Maintenance => 2,
        Outcome::Unknown => 3,
        Outcome::Error => 4,
        Outcome::Timeout => 5,
        Outcome::Failure => 6,
    }
}

/// The worse of two verdicts; the first if they are equally bad.
#[cfg(feature = "kinds")]
pub(crate) fn worse(first: Verdict, second: Verdict) -> Verdict {
    let rank = |verdict: &Verdict| verdict.as_ref().map_or_else(|issue| severity(issue.outcome), |()| 0);
    if rank(&second) > rank(&first) { second } else { first }
}

/// The text of an error; for a system error, in lower case and without the number.
pub fn cause_of(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_short() {
        let refused = std::io::Error::from_raw_os_error(111);
        assert_eq!(cause_of(&refused), "connection refused");
        assert_eq!(cause_of(&std::io::Error::other("own words")), "own words");
    }

    #[cfg(feature = "kinds")]
    #[test]
    fn texts_end_between_characters() {
        let table =
            [("", 3, ""), ("abc", 3, "abc"), ("abcd", 3, "abc"), ("a\u{e9}b", 2, "a"), ("\u{20ac}", 2, "")];
        for (text, len_max, expected) in table {
            assert_eq!(at_most(text, len_max), expected, "{text:?}");
        }
    }
}
