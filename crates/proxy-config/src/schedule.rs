//! Recurring times in the syntax of cron, and the windows that start at these times.

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use doorbell_config::{Entry, Problem, Text};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

/// Form of a schedule, for help texts.
const SCHEDULE_FORM: &str = "minute, hour, day of month, month, day of week and optionally a time zone, as in \"0 3 * * SUN Europe/Berlin\"";

/// Number of fields of a schedule, without the time zone.
const FIELDS: usize = 5;

/// Maximum number of starts that a search for an open window examines: one per minute of the
/// longest window, plus one.
const STARTS_MAX: usize = 24 * 60 + 1;

/// A cron expression; the default time zone is that of the system.
#[derive(Clone)]
pub struct Schedule {
    text: String,
    crontab: Crontab,
    /// Set if the hour and the minute are fixed.
    fixed: Option<FixedTime>,
}

/// A schedule with a fixed hour and minute. When the clocks change, its starts follow Vixie cron: a
/// skipped start is taken at the moment after the gap, and of a repeated start the first counts.
#[derive(Clone)]
struct FixedTime {
    /// The schedule in UTC, in which no time is skipped or repeated.
    crontab: Crontab,
    zone: TimeZone,
}

/// The default time zone: `TZ`, then `/etc/localtime`, then UTC.
///
/// # Errors
/// The value of `TZ` if it cannot be resolved: UTC is used instead.
pub fn system_zone() -> Result<String, OsString> {
    let named = |zone: &TimeZone| zone.iana_name().unwrap_or("without a name").to_owned();
    match (TimeZone::try_system(), std::env::var_os("TZ")) {
        (Ok(zone), _) => Ok(named(&zone)),
        (Err(_), Some(name)) => Err(name),
        (Err(_), None) => Ok("UTC".to_owned()),
    }
}

/// State of a recurring window at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Start of the open window, in Unix milliseconds; `None` if no window is open.
    pub open_since: Option<u64>,
    /// End of the open window, otherwise start of the next window, in Unix milliseconds; `u64::MAX`
    /// if there is no next window.
    pub changes_at: u64,
}

impl Schedule {
    /// Parses a schedule.
    ///
    /// # Errors
    /// The reason why `text` is not a schedule, as a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        match fields.as_slice() {
            [first, .., last] if fields.len() > FIELDS + 1 || fields.len() > FIELDS && is_field(last) => {
                return Err(format!(
                    "it has an extra field: remove {first:?}; there is no field for seconds"
                ));
            }
            _ if fields.len() < FIELDS => {
                return Err(format!("it has {} of {FIELDS} fields", fields.len()));
            }
            [.., zone] if fields.len() > FIELDS && TimeZone::get(zone).is_err() => {
                return Err(format!("there is no time zone {zone:?}"));
            }
            _ => {}
        }
        let crontab = parse_crontab(text)?;
        let fixed = FixedTime::parse(&fields)?;
        let schedule = Self { text: text.to_owned(), crontab, fixed };
        // A schedule that never occurs, such as February 30, is an error.
        schedule.next(0).ok_or("it never occurs")?;
        Ok(schedule)
    }

    /// Whether the schedule depends on the time zone of the system.
    fn is_local(&self) -> bool {
        self.text.split_ascii_whitespace().count() == FIELDS
    }

    /// Returns the state of a window of this length at a moment.
    pub fn slot(&self, now_unix_ms: u64, length: Duration) -> Slot {
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

    /// Returns the first occurrence after a moment.
    fn next(&self, after_unix_ms: u64) -> Option<u64> {
        let after = Timestamp::from_millisecond(i64::try_from(after_unix_ms).ok()?).ok()?;
        let next = match &self.fixed {
            Some(fixed) => fixed.next(after)?,
            None => self.crontab.find_next(MakeTimestamp(after)).ok()?.timestamp(),
        };
        u64::try_from(next.as_millisecond()).ok()
    }
}

impl FixedTime {
    /// Parses the fields of a schedule; `None` if the hour or the minute is not fixed.
    fn parse(fields: &[&str]) -> Result<Option<Self>, String> {
        let (times, zone) = fields.split_at(FIELDS.min(fields.len()));
        if times.iter().take(2).any(|field| field.starts_with('*')) {
            return Ok(None);
        }
        let zone = zone.first().map_or_else(|| Ok(TimeZone::system()), |name| TimeZone::get(name));
        let zone = zone.map_err(|error| error.to_string())?;
        Ok(Some(Self { crontab: parse_crontab(&format!("{} UTC", times.join(" ")))?, zone }))
    }

    /// Returns the first start after a moment.
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let mut local = self.zone.to_datetime(after);
        // During the second pass of a repeated time, its start is before `after`.
        loop {
            let utc = Offset::UTC.to_timestamp(local).ok()?;
            local = self.crontab.find_next(MakeTimestamp(utc)).ok()?.datetime();
            let start = self.start_at(local)?;
            if start > after {
                return Some(start);
            }
        }
    }

    /// The moment of a local time.
    fn start_at(&self, local: DateTime) -> Option<Timestamp> {
        let moment = self.zone.to_ambiguous_timestamp(local);
        let is_skipped = matches!(moment.offset(), AmbiguousOffset::Gap { .. });
        // For a skipped time, this moment is before the gap.
        let earlier = moment.earlier().ok()?;
        if is_skipped {
            return Some(self.zone.following(earlier).next()?.timestamp());
        }
        Some(earlier)
    }
}

fn parse_crontab(text: &str) -> Result<Crontab, String> {
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::System;
    parse_crontab_with(text, options).map_err(|error| {
        // The last line of the message gives the reason; the other lines show the position of the
        // error.
        let drawn = error.to_string();
        let why = drawn.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        why.trim_matches(['|', '^', ' ', '~']).to_owned()
    })
}

/// Whether this is a field of a schedule (a day of the week, a number, a star) rather than a time
/// zone.
fn is_field(text: &str) -> bool {
    let days = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    let first = text.split([',', '-', '/', '#', '?']).next().unwrap_or_default();
    let is_number = first.starts_with(|c: char| c.is_ascii_digit() || c == '*');
    is_number || first.is_empty() || days.iter().any(|day| first.eq_ignore_ascii_case(day))
}

impl Text for Schedule {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        let schedule = match Self::parse(&text) {
            Ok(schedule) => schedule,
            Err(why) => {
                let message = format!("{text:?} is not a schedule: {why}");
                return entry.refuse("bad-cron", message, format!("write {SCHEDULE_FORM}"));
            }
        };
        if let (true, Err(zone)) = (schedule.is_local(), system_zone()) {
            let message = format!("TZ is {zone:?}, which is not a time zone: this schedule is in UTC");
            entry
                .problem(Problem::warning("bad-time-zone", entry.span(), message).help(
                    "set TZ to a name such as Europe/Berlin, or append the time zone to this schedule",
                ));
        }
        Some(schedule)
    }

    fn blank() -> Self {
        Self::parse("* * * * * UTC").expect("every minute is a schedule")
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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
        for (text, part) in [
            ("", "0 of 5 fields"),
            ("0 3 * *", "4 of 5 fields"),
            ("61 * * * *", ""),
            ("0 3 * * SUN Nowhere/City", "no time zone \"Nowhere/City\""),
            ("0 0 3 * * SUN", "remove \"0\"; there is no field for seconds"),
            ("30 0 3 * * 1-5", "remove \"30\"; there is no field for seconds"),
            ("0 0 3 * * *", "no field for seconds"),
            ("0 0 3 * * SUN Europe/Berlin", "no field for seconds"),
            ("0 0 30 2 *", "never occurs"),
            ("@daily@", "1 of 5 fields"),
        ] {
            let why = Schedule::parse(text).unwrap_err();
            assert!(!why.is_empty() && !why.contains('\n') && why.contains(part), "{text:?}: {why:?}");
        }
        assert_eq!(Schedule::parse("0 3 * * SUN").unwrap().to_string(), "0 3 * * SUN");
    }

    /// Time zones come from the bundled database, because an image built from scratch has none.
    #[test]
    fn time_zones_come_with_the_program() {
        let bundled = jiff::tz::TimeZoneDatabase::bundled();
        for name in ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"] {
            assert!(bundled.get(name).is_ok(), "{name}");
        }
    }

    /// In Berlin the clocks change from 02:00 to 03:00 on 2026-03-29 and from 03:00 to 02:00 on
    /// 2026-10-25, at 01:00 UTC.
    #[test]
    fn a_skipped_start_is_taken_after_the_gap_and_a_repeated_one_once() {
        const HOUR: u64 = 60 * MINUTE;
        // 2026-03-28 12:00 and 2026-10-24 12:00 UTC.
        let (spring, autumn) = (1_774_699_200_000, 1_792_843_200_000);
        let starts = |text: &str, after: u64| {
            let schedule = Schedule::parse(text).unwrap();
            let starts = std::iter::successors(Some(after), |start| schedule.next(*start)).skip(1);
            starts.take(3).map(|start| (start - after) / MINUTE).collect::<Vec<_>>()
        };
        let nightly = "30 2 * * * Europe/Berlin";
        assert_eq!(starts(nightly, spring), [13 * 60, 36 * 60 + 30, 60 * 60 + 30]);
        assert_eq!(starts(nightly, spring + 13 * HOUR - 1)[0], 0);
        assert_eq!(starts(nightly, autumn), [12 * 60 + 30, 37 * 60 + 30, 61 * 60 + 30]);
        assert_eq!(starts(nightly, autumn + 13 * HOUR)[0], 24 * 60 + 30, "during the second pass");
        // Several skipped starts count as one.
        assert_eq!(starts("0,30 1-3 * * * Europe/Berlin", spring + 12 * HOUR), [30, 60, 90]);
        // Intervals are unaffected.
        for start in [spring, autumn] {
            assert_eq!(starts("*/30 * * * * Europe/Berlin", start + 12 * HOUR), [30, 60, 90]);
            assert_eq!(starts("0,30 */1 * * * Europe/Berlin", start + 12 * HOUR), [30, 60, 90]);
        }
        // In Lord Howe the clocks skip 02:00 to 02:30 on 2026-10-04, at 2026-10-03 15:30 UTC.
        let howe = Schedule::parse("15 2 * * * Australia/Lord_Howe").unwrap();
        assert_eq!(howe.next(1_790_985_600_000), Some(1_791_041_400_000));
    }

    #[test]
    fn a_window_whose_start_is_skipped_is_open_after_the_gap() {
        const GAP: u64 = 1_774_746_000_000;
        let nightly = Schedule::parse("30 2 * * * Europe/Berlin").unwrap();
        let open = Slot { open_since: Some(GAP), changes_at: GAP + 30 * MINUTE };
        assert_eq!([GAP, GAP + 29 * MINUTE].map(|at| nightly.slot(at, HALF_HOUR)), [open; 2]);
        assert_eq!(nightly.slot(GAP - 1, HALF_HOUR), Slot { open_since: None, changes_at: GAP });
    }
}
