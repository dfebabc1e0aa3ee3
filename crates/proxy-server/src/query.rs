//! Values in the path and the query of a request, among them those of a pushed result.

use doorbell_health::Outcome;
use doorbell_proxy_config::parse_duration;
use percent_encoding::percent_decode_str;
use std::time::Duration;

/// Maximum length of a note in bytes; the limit for stored notes is lower.
const NOTE_LEN_MAX: usize = 1024;

/// Returns the decoded value of the first parameter with this name.
pub(crate) fn value(query: &[u8], name: &str) -> Option<String> {
    let mut parts = form_urlencoded::parse(query);
    parts.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

/// Returns the duration in a parameter: `None` without a value, the text if it is not a duration.
/// A number without a unit is in seconds.
pub(crate) fn duration(query: &[u8], name: &str) -> Result<Option<Duration>, String> {
    let Some(text) = value(query, name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let parsed = parse_duration(&text).or_else(|| text.parse().ok().map(Duration::from_secs));
    parsed.map(Some).ok_or(text)
}

/// Returns the outcome of a pushed result from its word in the path.
pub(crate) fn outcome(word: &[u8]) -> Option<Outcome> {
    match word {
        b"fail" => Some(Outcome::Failure),
        b"maintenance" => Some(Outcome::Maintenance),
        b"pass" => Some(Outcome::Success),
        b"warn" => Some(Outcome::Degraded),
        _ => None,
    }
}

/// Returns the note of a pushed result, truncated if it is too long.
pub(crate) fn note(query: &[u8]) -> String {
    let mut note = value(query, "note").unwrap_or_default();
    note.truncate(note.floor_char_boundary(NOTE_LEN_MAX));
    note
}

/// Decodes a segment of a path; `None` if it is not UTF-8.
pub(crate) fn segment(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (query, expect) in [
            ("wait=20s", Some("20s")),
            ("a=b&wait=20s&wait=3s", Some("20s")),
            ("wait", Some("")),
            ("await=1s", None),
            ("", None),
            ("wait=a+b%20c%C3%A9", Some("a b cé")),
            ("wait=%4", Some("%4")),
            ("wait=%ff", Some("\u{fffd}")),
        ] {
            assert_eq!(value(query.as_bytes(), "wait").as_deref(), expect, "{query}");
        }
    }

    #[test]
    fn latencies() {
        for (query, expected) in [
            ("", Some(0)),
            ("latency=", Some(0)),
            ("note=x&latency=250ms", Some(250_000)),
            ("latency=1m2s&latency=3s", Some(62_000_000)),
            ("my_latency=3s", Some(0)),
            ("latency=3", Some(3_000_000)),
            ("latency=-1s", None),
            ("latency=%32s", Some(2_000_000)),
            ("latency=\u{e9}", None),
        ] {
            let latency = duration(query.as_bytes(), "latency").ok().map(Option::unwrap_or_default);
            assert_eq!(latency, expected.map(Duration::from_micros), "{query:?}");
        }
    }

    #[test]
    fn notes() {
        for (query, expected) in [
            ("", ""),
            ("note=", ""),
            ("note=queue+is%20full", "queue is full"),
            ("a=1&note=x%2By&note=z", "x+y"),
            ("note=%c3%A9%", "\u{e9}%"),
            ("note=%zz%4", "%zz%4"),
            ("note=%ff", "\u{fffd}"),
            ("notes=x", ""),
        ] {
            assert_eq!(note(query.as_bytes()), expected, "{query:?}");
        }
        assert_eq!(note(format!("note={}", "x".repeat(9999)).as_bytes()).len(), NOTE_LEN_MAX);
    }
}
