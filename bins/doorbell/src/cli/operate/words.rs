//! Times and numbers as a person reads them.
//!
//! Does not know about: what they are of.

use std::fmt::Write as _;

/// `850ms`, `12s`, `3m12s`, `5h2m`, `12d3h`: two units are exact enough.
pub(super) fn length(ms: u64) -> String {
    let secs = ms / 1000;
    let (mins, hours, days) = (secs / 60, secs / 3600, secs / 86_400);
    let two = |high: u64, high_unit: char, low: u64, low_unit: char| match low {
        0 => format!("{high}{high_unit}"),
        _ => format!("{high}{high_unit}{low}{low_unit}"),
    };
    match () {
        () if secs == 0 => format!("{ms}ms"),
        () if mins == 0 => format!("{secs}s"),
        () if hours == 0 => two(mins, 'm', secs % 60, 's'),
        () if days == 0 => two(hours, 'h', mins % 60, 'm'),
        () => two(days, 'd', hours % 24, 'h'),
    }
}

/// `850us`, `12.3ms`, `1.25s`.
pub(super) fn latency(us: u32) -> String {
    match us {
        0..1_000 => format!("{us}us"),
        1_000..10_000 => format!("{}.{:02}ms", us / 1_000, us % 1_000 / 10),
        10_000..1_000_000 => format!("{}.{}ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{:02}s", us / 1_000_000, us % 1_000_000 / 10_000),
    }
}

/// `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `2026-11-21T18:30:00.123Z` (RFC 3339).
pub(super) fn moment(unix_ms: u64) -> String {
    let (secs, ms) = (unix_ms / 1000, unix_ms % 1000);
    let (year, month, day) = civil(secs / 86_400);
    let (hour, minute, second) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    let mut text = String::new();
    let _ = write!(text, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z");
    text
}

/// The date of a day since 1970, by eras of 400 years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}
