//! Formatting of times and numbers.

use std::time::Duration;

/// Formats a duration with at most two units: `850ms`, `12s`, `3m12s`, `5h2m`, `12d3h`.
pub(in crate::cli) fn length(ms: u64) -> String {
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

/// Formats a latency: `850us`, `12.3ms`, `1.25s`.
pub(in crate::cli) fn latency(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}us"),
        1_000..10_000 => format!("{}.{:02}ms", us / 1_000, us % 1_000 / 10),
        10_000..1_000_000 => format!("{}.{}ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{:02}s", us / 1_000_000, us % 1_000_000 / 10_000),
    }
}

/// Formats a number with separated thousands: `1,234,567`.
pub(in crate::cli) fn count(number: u64) -> String {
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

/// Formats a time as in `2026-11-21T18:30:00.123Z` (RFC 3339).
pub(in crate::cli) fn moment(unix_ms: u64) -> String {
    let mut text = Vec::new();
    doorbell_health::stamp(&mut text, Duration::from_millis(unix_ms));
    let seconds = String::from_utf8_lossy(&text);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), unix_ms % 1000)
}
