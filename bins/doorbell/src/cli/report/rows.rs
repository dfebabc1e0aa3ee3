//! Rows of the history database, decoded from lines of JSON.
//!
//! Old servers write large integers as strings, and current servers may write NaN and infinity as
//! strings.

use serde::Serialize;
use serde_json::Value;

/// A link of one instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Link {
    pub(super) instance: String,
    pub(super) link: String,
}

/// Frame counts of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Loss {
    #[serde(flatten)]
    pub(super) of: Link,
    pub(super) frames: u64,
    pub(super) frames_lost: u64,
    pub(super) frames_dropped: u64,
}

/// Latency of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Latency {
    #[serde(flatten)]
    pub(super) of: Link,
    pub(super) receipts: u64,
    /// Median, 90th and 99th percentile, maximum.
    pub(super) round_trip_us: [f64; 4],
    /// Median and 99th percentile.
    pub(super) one_way_us: [f64; 2],
    pub(super) one_way_error_us: f64,
    /// `None` if sizes or round trips did not vary.
    pub(super) size_correlation: Option<f64>,
}

/// The round trip of a link in one step of the period.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Course {
    pub(super) of: Link,
    pub(super) at_unix_s: u32,
    /// Median and 99th percentile.
    pub(super) round_trip_us: [f64; 2],
}

/// The values of a row, by column.
pub(in crate::cli) struct Row(Value);

impl Row {
    pub(in crate::cli) fn of(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok().map(Self)
    }

    pub(in crate::cli) fn text(&self, name: &str) -> Option<String> {
        Some(self.0.get(name)?.as_str()?.to_owned())
    }

    fn link(&self) -> Option<Link> {
        Some(Link { instance: self.text("instance")?, link: self.text("link")? })
    }

    pub(in crate::cli) fn number(&self, name: &str) -> Option<f64> {
        let value = self.0.get(name)?;
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
        number.is_finite().then_some(number)
    }

    pub(in crate::cli) fn integer(&self, name: &str) -> Option<u64> {
        let value = self.0.get(name)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    }
}

impl Loss {
    pub(super) fn read(line: &str) -> Option<Self> {
        let row = Row::of(line)?;
        let (frames_lost, frames_dropped) = (row.integer("frames_lost")?, row.integer("frames_dropped")?);
        Some(Self { of: row.link()?, frames: row.integer("frames")?, frames_lost, frames_dropped })
    }

    /// The loss in percent with three decimals, rounded up, so that 0 means no lost frame.
    pub(super) fn percent(&self) -> String {
        match (self.frames, self.frames_lost) {
            (_, 0) => "0 %".to_owned(),
            (0, _) => "-".to_owned(),
            (frames, lost) => format!("{:.3} %", (lost as f64 * 100_000.0 / frames as f64).ceil() / 1_000.0),
        }
    }
}

impl Latency {
    pub(super) fn read(line: &str) -> Option<Self> {
        let row = Row::of(line)?;
        Some(Self {
            of: row.link()?,
            receipts: row.integer("receipts")?,
            round_trip_us: [
                row.number("p50")?,
                row.number("p90")?,
                row.number("p99")?,
                row.number("slowest")?,
            ],
            one_way_us: [row.number("one_way_p50")?, row.number("one_way_p99")?],
            one_way_error_us: row.number("one_way_error")?,
            size_correlation: row.number("size_correlation"),
        })
    }
}

impl Course {
    pub(super) fn read(line: &str) -> Option<Self> {
        let row = Row::of(line)?;
        let at_unix_s = u32::try_from(row.integer("at")?).ok()?;
        Some(Self { of: row.link()?, at_unix_s, round_trip_us: [row.number("p50")?, row.number("p99")?] })
    }
}

/// A number of microseconds, rounded.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
pub(super) fn whole(us: f64) -> u64 {
    us.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_old_and_new_servers() {
        let of = Link { instance: "a".to_owned(), link: "eu".to_owned() };
        let loss = Loss { of: of.clone(), frames: 9, frames_lost: 1, frames_dropped: 0 };
        for line in [
            r#"{"instance":"a","link":"eu","frames":"9","frames_lost":"1","frames_dropped":"0"}"#,
            r#"{"instance":"a","link":"eu","frames":9,"frames_lost":1,"frames_dropped":0}"#,
        ] {
            assert_eq!(Loss::read(line), Some(loss.clone()));
        }
        let latency = r#"{"instance":"a","link":"eu","receipts":9,"p50":1,"p90":2,"p99":3,"slowest":4,"one_way_p50":0.5,"one_way_p99":1,"one_way_error":0.5,"size_correlation":X}"#;
        for (correlation, expected) in [("null", None), ("nan", None), ("\"nan\"", None), ("0.5", Some(0.5))]
        {
            let read = Latency::read(&latency.replace('X', correlation));
            // `nan` without quotes is no JSON.
            let expected = (correlation != "nan").then_some(expected);
            assert_eq!(read.map(|row| row.size_correlation), expected, "{correlation}");
        }
        let course = r#"{"instance":"a","link":"eu","at":120,"p50":1,"p99":3,"p90":2,"slowest":4}"#;
        assert_eq!(Course::read(course), Some(Course { of, at_unix_s: 120, round_trip_us: [1.0, 3.0] }));
        assert_eq!(Course::read("Code: 60"), None);
    }

    #[test]
    fn a_loss_is_never_rounded_to_0() {
        let of = Link { instance: String::new(), link: String::new() };
        for (frames, frames_lost, text) in
            [(0, 0, "0 %"), (10, 0, "0 %"), (0, 1, "-"), (1_000_000_000, 1, "0.001 %"), (4, 1, "25.000 %")]
        {
            assert_eq!(Loss { of: of.clone(), frames, frames_lost, frames_dropped: 0 }.percent(), text);
        }
    }
}
