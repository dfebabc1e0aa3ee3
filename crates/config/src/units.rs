//! Durations, sizes, rates and numbers in human-readable form, and back.

use std::fmt;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// Form of a duration, for help texts.
pub(crate) const DURATION_FORM: &str = "a number and a unit, as in \"250ms\", \"5s\", \"1m30s\" or \"2h\"";

/// Form of a size, for help texts.
pub(crate) const SIZE_FORM: &str = "a number and a unit, as in \"512B\", \"16KiB\" or \"1MiB\"";

/// Form of a rate, for help texts.
pub(crate) const RATE_FORM: &str = "a number and a time, as in \"20/s\", \"600/m\" or \"1000/h\"";

/// A number of requests per second, minute or hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// At least 1.
    pub requests: u32,
    /// One second, minute or hour.
    pub period: Duration,
}

const DURATION_UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Parses `1m30s`; units from large to small, each at most once.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut left = text;
    let mut micros: u64 = 0;
    let mut largest = u64::MAX;
    while !left.is_empty() {
        let (number, rest) = split_number(left)?;
        let unit_len = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(unit_len);
        let &(_, scale) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
        if scale >= largest {
            return None;
        }
        largest = scale;
        micros = micros.checked_add(number.checked_mul(scale)?)?;
        left = rest;
    }
    (!text.is_empty()).then(|| Duration::from_micros(micros))
}

/// Formats `1m30s`, with the largest possible units; fractions of a microsecond are dropped.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, scale) in DURATION_UNITS {
        if left >= scale {
            text.push_str(&format!("{}{unit}", left / scale));
            left %= scale;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// Parses `16KiB`.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text)?;
    let &(_, scale) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(scale)
}

/// The form with the largest unit that divides the size.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let (unit, scale) = SIZE_UNITS
        .into_iter()
        .find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale))
        .unwrap_or(("B", 1));
    format!("{}{unit}", bytes / scale)
}

/// Parses `20/s`, `600/m` or `1000/h`; the caller must refuse zero.
#[must_use]
pub fn parse_rate(text: &str) -> Option<Rate> {
    let (requests, unit) = split_number(text)?;
    let secs = match unit {
        "/h" => 3600,
        "/m" => 60,
        "/s" => 1,
        _ => return None,
    };
    Some(Rate { requests: u32::try_from(requests).ok()?, period: Duration::from_secs(secs) })
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = format_duration(self.period);
        write!(f, "{}/{}", self.requests, period.trim_start_matches('1'))
    }
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    Some((digits.parse().ok()?, rest))
}

/// The whole number that a text of digits stands for.
pub(crate) fn parse_number(text: &str) -> Option<DeValue<'_>> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    is_number.then(|| DeValue::parse(text).ok()).flatten().map(Spanned::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, expected) in [
            ("250ms", Some(Duration::from_millis(250))),
            ("5s", Some(Duration::from_secs(5))),
            ("1m30s", Some(Duration::from_secs(90))),
            ("2h", Some(Duration::from_secs(7200))),
            ("14d12h", Some(Duration::from_secs(14 * 86_400 + 12 * 3600))),
            ("1h1m1s1ms1us", Some(Duration::from_micros(3_661_001_001))),
            ("0s", Some(Duration::ZERO)),
            ("10us", Some(Duration::from_micros(10))),
            ("", None),
            ("5", None),
            ("s", None),
            ("5 s", None),
            ("5S", None),
            ("-5s", None),
            ("+5s", None),
            ("1.5s", None),
            ("5s5s", None),
            ("5s1m", None),
            ("5sec", None),
            ("99999999999999999999s", None),
            ("99999999999999h", None),
            ("٥s", None),
        ] {
            assert_eq!(parse_duration(text), expected, "{text:?}");
        }
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("512B", Some(512)),
            ("16KiB", Some(16384)),
            ("1MiB", Some(1 << 20)),
            ("0B", Some(0)),
            ("", None),
            ("16", None),
            ("16KB", None),
            ("16k", None),
            ("16 KiB", None),
            ("-1B", None),
            ("99999999999999999999B", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(parse_size(text), expected, "{text:?}");
        }
    }

    #[test]
    fn rates() {
        for (text, expected) in [
            ("20/s", Some((20, 1))),
            ("600/m", Some((600, 60))),
            ("1000/h", Some((1000, 3600))),
            ("0/s", Some((0, 1))),
            ("", None),
            ("20", None),
            ("/s", None),
            ("20/", None),
            ("20/d", None),
            ("20 /s", None),
            ("-1/s", None),
            ("1.5/s", None),
            ("4294967296/s", None),
        ] {
            let found = parse_rate(text);
            assert_eq!(found.map(|rate| (rate.requests, rate.period.as_secs())), expected, "{text:?}");
            assert_eq!(found.map(|rate| rate.to_string()).unwrap_or_else(|| text.into()), text);
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for micros in [0, 1, 999, 1000, 90_000_000, 3_600_000_000, 86_400_000_001] {
            let duration = Duration::from_micros(micros);
            assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }
        for bytes in [0, 1, 512, 1023, 1024, 1025, 1 << 20, 3 << 30] {
            assert_eq!(parse_size(&format_size(bytes)), Some(bytes));
        }
        assert_eq!(format_duration(Duration::from_secs(90)), "1m30s");
        assert_eq!(format_size(16384), "16KiB");
    }
}
