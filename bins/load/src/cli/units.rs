//! Numbers with units: `10k`, `500ms`.

use std::time::Duration;

/// Parses a whole number, with `k` or `m` for thousands or millions.
pub(super) fn parse_count(text: &str) -> Result<u64, String> {
    let (digits, factor) = scaled(text);
    let number: Option<u64> = digits.parse().ok();
    number
        .filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| "write a whole number, as in 500, 10k or 2m".to_owned())
}

/// Parses a number of requests per second.
pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = scaled(text);
    let number: Option<f64> = digits.parse().ok();
    #[expect(clippy::cast_precision_loss, reason = "1, 1,000 or 1,000,000")]
    let rate = number.map(|number| number * factor as f64).filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "write a number, as in 0.5, 2000 or 20k".to_owned())
}

/// Parses a number and a unit.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and a unit, as in 200us, 500ms, 2s, 1.5s or 1m".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| wrong())
}

fn scaled(text: &str) -> (&str, u64) {
    match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        for (text, want) in [("0", 0), ("7", 7), ("10k", 10_000), ("2M", 2_000_000)] {
            assert_eq!(parse_count(text), Ok(want));
        }
        for text in ["", "k", "-1", "+1", "1.5", "1kk", "1 k", "99999999999999999999", "99999999999999999k"] {
            assert!(parse_count(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn rates() {
        for (text, want) in [("0.5", 0.5), ("20k", 20_000.0), ("1.5m", 1_500_000.0)] {
            assert_eq!(parse_rate(text), Ok(want));
        }
        for text in ["", "0", "-1", "inf", "nan", "x"] {
            assert!(parse_rate(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn durations() {
        for (text, micros) in
            [("200us", 200), ("500ms", 500_000), ("1.5s", 1_500_000), ("2m", 120_000_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)));
        }
        for text in ["", "5", "s", "-1s", "1 s", "1.2.3s", "1d", "1e3s", "99999999999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }
}
