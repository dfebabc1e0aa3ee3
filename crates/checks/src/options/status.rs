//! Sets of status codes as load balancers write them: `200`, `200-399`, `2xx`.

use doorbell_config::{Entry, Json, Key, TEXTS, Value as _};
use std::fmt;
use std::ops::RangeInclusive;

/// The codes of final responses.
const CODES: RangeInclusive<u16> = 200..=599;

/// An inclusive range of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

/// A set of status codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSet(Vec<StatusRange>);

impl StatusRange {
    /// Parses `200`, `200-399` or `2xx`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let code = |text: &str| {
            let is_code = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|code| is_code && CODES.contains(code))
        };
        let (first, last) = match (text.strip_suffix("xx"), text.split_once('-')) {
            (Some(class), _) => {
                let first: u16 = class.parse::<u16>().ok().filter(|_| class.len() == 1)? * 100;
                (first, first + 99)
            }
            (None, Some((first, last))) => (code(first)?, code(last)?),
            (None, None) => (code(text)?, code(text)?),
        };
        (first <= last && CODES.contains(&first)).then_some(Self { first, last })
    }
}

impl StatusSet {
    /// Parses codes, ranges and classes separated by commas, as in `2xx,304` or `200-299`. `None`
    /// if one is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.split(',').map(|part| StatusRange::parse(part.trim())).collect()
    }

    /// Whether the set contains a code.
    #[must_use]
    pub fn contains(&self, code: u16) -> bool {
        self.0.iter().any(|codes| (codes.first..=codes.last).contains(&code))
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of each range.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

impl FromIterator<StatusRange> for StatusSet {
    fn from_iter<I: IntoIterator<Item = StatusRange>>(codes: I) -> Self {
        Self(codes.into_iter().collect())
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl fmt::Display for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts().join(", "))
    }
}

/// Forms of a set, for help texts.
const FORM: &str = "a code, a range, a class or several, as in \"200\", \"200-399\", \"2xx\" or \"200,204\"";

pub(super) fn read(entry: &Entry<'_>) -> Option<StatusSet> {
    if entry.raw().as_array().is_some_and(|list| list.is_empty()) {
        return entry.refuse(
            "empty-list",
            "a list of codes without a code",
            format!("write {FORM}, or remove it"),
        );
    }
    let sets = entry.list(TEXTS, |entry| {
        let text = entry.string()?;
        let mut ranges = Vec::new();
        // A string may be a list separated by commas, as in load balancer configurations:
        // "200,204".
        for part in text.split(',').map(str::trim) {
            match StatusRange::parse(part) {
                Some(range) => ranges.push(range),
                None => {
                    let message = format!("{part:?} is not a status");
                    entry.refuse::<()>("bad-value", message, format!("write {FORM}, from 200 to 599"));
                }
            }
        }
        Some(ranges)
    });
    sets.map(|sets| sets.into_iter().flatten().collect())
}

pub(super) fn dump(set: &StatusSet) -> Option<Json> {
    match set.texts().as_slice() {
        [] => None,
        [one] => Some(one.as_str().into()),
        several => Some(several.into()),
    }
}

pub(super) fn form(key: &Key) -> Json {
    Vec::<String>::form(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_and_written() {
        for (text, expected) in [
            ("200", Some("200")),
            ("200-399", Some("200-399")),
            ("204-204", Some("204")),
            ("2xx", Some("200-299")),
            ("5xx", Some("500-599")),
            ("599", Some("599")),
            ("", None),
            ("20", None),
            ("2000", None),
            ("600", None),
            ("199", None),
            ("1xx", None),
            ("6xx", None),
            ("xx", None),
            ("22xx", None),
            ("2XX", None),
            ("300-200", None),
            ("200-", None),
            ("-200", None),
            ("200-300-400", None),
            ("+20", None),
            ("200 ", None),
        ] {
            assert_eq!(
                StatusRange::parse(text).map(|codes| codes.to_string()).as_deref(),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_set_holds_what_its_parts_hold() {
        let set = StatusSet::parse("200-204, 3xx,429").unwrap();
        assert_eq!(StatusSet::parse("200,x"), None);
        for code in [200, 204, 300, 399, 429] {
            assert!(set.contains(code), "{code}");
        }
        for code in [0, 199, 205, 400, 428, 430, 503] {
            assert!(!set.contains(code), "{code}");
        }
        assert_eq!(set.to_string(), "200-204, 300-399, 429");
        assert!(!StatusSet::default().contains(200) && StatusSet::default().is_empty());
    }
}
