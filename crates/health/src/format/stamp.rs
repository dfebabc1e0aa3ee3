//! A point in Unix time as text (RFC 3339).

use std::time::Duration;

/// The last second of the year 9999, the latest that the format can show.
const SECS_MAX: u64 = 253_402_300_799;

/// Appends `2026-11-21T10:07:38Z` (RFC 3339) for a time since 1970; a time after the year 9999 is
/// written as the last second of that year.
pub fn stamp(out: &mut Vec<u8>, unix: Duration) {
    let secs = unix.as_secs().min(SECS_MAX);
    let (year, month, day) = civil(secs / 86_400);
    let of_day = secs % 86_400;
    number(out, year, 4);
    for (mark, value) in
        [(b'-', month), (b'-', day), (b'T', of_day / 3600), (b':', of_day / 60 % 60), (b':', of_day % 60)]
    {
        out.push(mark);
        number(out, value, 2);
    }
    out.push(b'Z');
}

fn number(out: &mut Vec<u8>, value: u64, width: u32) {
    for place in (0..width).rev() {
        let digit = value / 10_u64.pow(place) % 10;
        out.push(b'0' + u8::try_from(digit).unwrap_or_default());
    }
}

/// Year, month and day of a day counted from 1970-01-01 in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Days are counted from 0000-03-01, so that the leap day is the last day of a year. 400 years
    // have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, each group of five months has 153 days.
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        let text = |secs| {
            let mut out = Vec::new();
            stamp(&mut out, Duration::from_secs(secs));
            String::from_utf8(out).unwrap()
        };
        // Expected values from date(1).
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(text(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(text(1_709_164_799), "2024-02-28T23:59:59Z");
        assert_eq!(text(1_795_255_658), "2026-11-21T10:07:38Z");
        assert_eq!(text(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(text(SECS_MAX), "9999-12-31T23:59:59Z");
        assert_eq!(text(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
