//! The `Date` field (RFC 9110 5.6.7 and 6.6.1), rendered at most once a second.
//!
//! The caller passes seconds since 1970-01-01 UTC.

/// A cached IMF-fixdate, for instance `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Debug)]
pub struct Date {
    unix_secs: i64,
    line: [u8; LINE_LEN],
}

impl Date {
    /// Renders the date of `unix_secs`. A time outside the years 1 to 9999 becomes the nearest time
    /// of that range.
    pub fn new(unix_secs: i64) -> Self {
        let mut date = Self { unix_secs, line: *TEMPLATE };
        date.render();
        date
    }

    /// Renders the date if `unix_secs` has changed; returns whether it has changed.
    pub fn refresh(&mut self, unix_secs: i64) -> bool {
        let changed = unix_secs != self.unix_secs;
        if changed {
            self.unix_secs = unix_secs;
            self.render();
        }
        changed
    }

    /// The rendered time, in seconds since 1970-01-01 UTC.
    #[inline]
    pub const fn unix_secs(&self) -> i64 {
        self.unix_secs
    }

    /// The 29 bytes of the field value.
    pub const fn as_bytes(&self) -> &[u8; 29] {
        let Some((_, rest)) = self.line.split_first_chunk::<6>() else { return &[0; 29] };
        let Some(value) = rest.first_chunk::<29>() else { return &[0; 29] };
        value
    }

    /// The whole field line, including name and CRLF.
    #[inline]
    pub(crate) const fn line(&self) -> &[u8; LINE_LEN] {
        &self.line
    }

    fn render(&mut self) {
        let secs = self.unix_secs.clamp(SECS_MIN, SECS_MAX);
        let days = secs.div_euclid(86_400);
        let second = secs.rem_euclid(86_400);
        let (year, month, day) = civil(days);
        // 1970-01-01 was a Thursday.
        let weekday = (days + 4).rem_euclid(7);
        put(&mut self.line, 6, name(DAYS, weekday));
        put_digits(&mut self.line, 11, 2, day);
        put(&mut self.line, 14, name(MONTHS, month - 1));
        put_digits(&mut self.line, 18, 4, year);
        put_digits(&mut self.line, 23, 2, second / 3600);
        put_digits(&mut self.line, 26, 2, second / 60 % 60);
        put_digits(&mut self.line, 29, 2, second % 60);
    }
}

/// Converts `days` after 1970-01-01 to year, month (1-12) and day (1-31) in the proleptic Gregorian
/// calendar.
///
/// Days are counted in eras of 400 years that begin on 1 March, so that the leap day is the last
/// day of a year.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// The entry at `index` in a table of three-letter names.
fn name(table: &'static [u8], index: i64) -> &'static [u8] {
    let start = usize::try_from(index * 3).unwrap_or(0);
    table.get(start..start + 3).unwrap_or(b"???")
}

fn put(line: &mut [u8; LINE_LEN], at: usize, bytes: &[u8]) {
    if let Some(place) = line.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn put_digits(line: &mut [u8; LINE_LEN], at: usize, width: usize, mut value: i64) {
    if let Some(place) = line.get_mut(at..at + width) {
        for byte in place.iter_mut().rev() {
            *byte = b'0' + u8::try_from(value % 10).unwrap_or(0);
            value /= 10;
        }
    }
}

const LINE_LEN: usize = 37;
const TEMPLATE: &[u8; LINE_LEN] = b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
const DAYS: &[u8] = b"SunMonTueWedThuFriSat";
const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
/// Seconds at 0001-01-01 00:00:00 and 9999-12-31 23:59:59.
const SECS_MIN: i64 = -62_135_596_800;
const SECS_MAX: i64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unix_secs: i64, expect: &str) {
        assert_eq!(std::str::from_utf8(Date::new(unix_secs).as_bytes()).unwrap(), expect);
    }

    #[test]
    fn known_dates() {
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT");
        check(4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(-1, "Wed, 31 Dec 1969 23:59:59 GMT");
        check(i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
        check(i64::MIN, "Mon, 01 Jan 0001 00:00:00 GMT");
    }

    #[test]
    fn refresh_renders_only_on_change() {
        let mut date = Date::new(0);
        assert!(!date.refresh(0));
        assert!(date.refresh(1));
        assert_eq!(date.as_bytes(), b"Thu, 01 Jan 1970 00:00:01 GMT");
        assert_eq!(date.line(), b"Date: Thu, 01 Jan 1970 00:00:01 GMT\r\n");
    }

    #[test]
    fn days_follow_each_other_for_four_centuries() {
        let (mut year, mut month, mut day) = civil(-1);
        for days in 0..146_097 {
            let next = civil(days);
            let same_month = next == (year, month, day + 1);
            let next_month = next == (year, month + 1, 1) && day >= 28;
            let next_year = next == (year + 1, 1, 1) && (month, day) == (12, 31);
            assert!(same_month || next_month || next_year, "{days}: {next:?}");
            (year, month, day) = next;
        }
    }
}
