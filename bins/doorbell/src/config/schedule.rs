//! Times that come again and again, as cron writes them.
//!
//! Does not know about: what happens then.

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use std::fmt;
use std::time::Duration;

/// What one looks like, for help texts.
pub(crate) const SCHEDULE_FORM: &str = "minute, hour, day of month, month, day of week and perhaps a time zone, as in \"0 3 * * SUN Europe/Berlin\"";

/// Beginnings of one window that are looked at: one every minute of the longest window, and one more.
const STARTS_MAX: usize = 24 * 60 + 1;

/// A cron expression; without a time zone in that of the system.
#[derive(Clone)]
pub struct Schedule {
    text: String,
    crontab: Crontab,
}

/// A window at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// When the one began that is open, in Unix milliseconds.
    pub(crate) open_since: Option<u64>,
    /// When it ends, or the next one begins.
    pub(crate) changes_at: u64,
}

impl Schedule {
    /// A schedule, or why it is none.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::System;
        let crontab = parse_crontab_with(text, options).map_err(|error| {
            // What comes before is a drawing of where it is wrong.
            let drawn = error.to_string();
            let why = drawn.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            why.trim_matches(['|', '^', ' ', '~']).to_owned()
        })?;
        let schedule = Self { text: text.to_owned(), crontab };
        // One that never comes is a mistake, as the 30th of February.
        schedule.next(0).ok_or("it never comes")?;
        Ok(schedule)
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What a window of this length is at a moment.
    pub(crate) fn slot(&self, now_unix_ms: u64, length: Duration) -> Slot {
        let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let never = Slot { open_since: None, changes_at: u64::MAX };
        let Some(first) = self.next(now_unix_ms.saturating_sub(length)) else { return never };
        if first > now_unix_ms {
            return Slot { open_since: None, changes_at: first };
        }
        let starts = std::iter::successors(Some(first), |start| self.next(*start));
        let last = starts.take(STARTS_MAX).take_while(|start| *start <= now_unix_ms).last().unwrap_or(first);
        Slot { open_since: Some(last), changes_at: last.saturating_add(length) }
    }

    /// The first one after a moment.
    fn next(&self, after_unix_ms: u64) -> Option<u64> {
        let after = MakeTimestamp::from_millisecond(i64::try_from(after_unix_ms).ok()?).ok()?;
        u64::try_from(self.crontab.find_next(after).ok()?.timestamp().as_millisecond()).ok()
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Schedule {}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;
    const HALF_HOUR: Duration = Duration::from_secs(1800);
    /// Sunday, 2026-11-22, 03:00 UTC.
    const SUNDAY: u64 = 1_795_316_400_000;
    const WEEK: u64 = 7 * 24 * 60 * MINUTE;

    #[test]
    fn a_window_is_open_from_its_beginning_for_its_length() {
        let weekly = Schedule::parse("0 3 * * SUN UTC").unwrap();
        let slot = |at| weekly.slot(at, HALF_HOUR);
        let closed = |changes_at| Slot { open_since: None, changes_at };
        let open = Slot { open_since: Some(SUNDAY), changes_at: SUNDAY + 30 * MINUTE };
        assert_eq!(slot(SUNDAY - 1), closed(SUNDAY));
        assert_eq!([slot(SUNDAY), slot(SUNDAY + 30 * MINUTE - 1)], [open; 2]);
        assert_eq!(slot(SUNDAY + 30 * MINUTE), closed(SUNDAY + WEEK));
    }

    #[test]
    fn windows_that_meet_are_one_after_the_other() {
        let often = Schedule::parse("*/10 * * * * UTC").unwrap();
        let slot = often.slot(SUNDAY + 25 * MINUTE, HALF_HOUR);
        assert_eq!(slot, Slot { open_since: Some(SUNDAY + 20 * MINUTE), changes_at: SUNDAY + 50 * MINUTE });
    }

    #[test]
    fn mistakes_are_told_in_a_sentence() {
        for text in ["", "0 3 * *", "61 * * * *", "0 3 * * SUN Nowhere/City", "0 0 30 2 *", "@daily@"] {
            let why = Schedule::parse(text).unwrap_err();
            assert!(!why.is_empty() && !why.contains('\n'), "{text:?}: {why:?}");
        }
        assert_eq!(Schedule::parse("0 3 * * SUN").unwrap().as_str(), "0 3 * * SUN");
    }
}
