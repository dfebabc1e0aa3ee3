//! Table and columns of each kind of row, and the `RowBinary` encoding of rows.
//!
//! `RowBinary` consists of little-endian numbers, and of strings with their length as a varint
//! prefix.

use crate::buffer::Batch;
use crate::row::{CounterName, FrameId, Kind, Row};

/// Number of counters of a link.
const LINK_COUNTS: usize = 3;

/// Typical size of an encoded row in bytes, for the initial allocation.
const ROW_LEN: usize = 128;

/// Returns the table and the columns of a kind.
pub(super) const fn of(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Link => ("link_minutes", "minute, instance, run, link, sent, lost, dropped"),
        Kind::Minute => (
            "minutes",
            "minute, instance, run, endpoint, up_ms, degraded_ms, down_ms, drain_ms, maintenance_ms",
        ),
        Kind::Operation => {
            ("operations", "time, millis, instance, what, target, is_on, source, reason, until")
        }
        Kind::Prober => (
            "prober_minutes",
            "minute, instance, run, endpoint, prober, up, degraded, down, drain, maintenance",
        ),
        Kind::Receipt => (
            "link_receipts",
            "time, millis, instance, link, incarnation, connection, number, size, round_trip_us, \
             one_way_min_us, one_way_max_us, weight",
        ),
        Kind::Result => ("results", "time, millis, instance, name, outcome, latency_us, weight, reason"),
        Kind::Transition => {
            ("transitions", "time, millis, instance, subject, name, from_state, to_state, cause, reason")
        }
    }
}

/// Encodes the rows of a batch.
pub(super) fn encode(batch: &Batch, instance: &str, run: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(batch.rows().len() * ROW_LEN);
    batch.rows().iter().for_each(|row| add(&mut out, row, instance, run));
    out
}

fn add(out: &mut Vec<u8>, row: &Row, instance: &str, run: u64) {
    match row {
        Row::Increments(row) => {
            of_minute(out, row.minute, instance, run);
            match &row.name {
                CounterName::Link(link) => {
                    texts(out, &[link]);
                    numbers(out, &row.counts[..LINK_COUNTS]);
                }
                CounterName::Prober { endpoint, prober } => {
                    texts(out, &[endpoint, prober]);
                    numbers(out, &row.counts);
                }
            }
        }
        Row::Minute(row) => {
            of_minute(out, row.minute, instance, run);
            texts(out, &[&row.endpoint]);
            numbers(out, &row.ms);
        }
        Row::Operation(row) => {
            time(out, row.at_ms);
            texts(out, &[instance, row.what, &row.target]);
            out.push(u8::from(row.is_on));
            texts(out, &[row.source, &row.reason]);
            numbers(out, &[row.until_ms.map_or(0, |until| seconds(until / 1000))]);
        }
        Row::Receipt(row) => {
            time(out, row.at_ms);
            texts(out, &[instance, &row.link]);
            let FrameId { incarnation, connection, number } = row.frame;
            large_numbers(out, &[incarnation, connection, number]);
            let [min, max] = row.one_way_us;
            numbers(out, &[row.size, row.round_trip_us, min, max, row.weight]);
        }
        Row::Result(row) => {
            time(out, row.at_ms);
            texts(out, &[instance, &row.check, row.outcome]);
            numbers(out, &[row.latency_us, row.weight]);
            texts(out, &[&row.reason]);
        }
        Row::Transition(row) => {
            time(out, row.at_ms);
            texts(out, &[instance, row.subject, &row.name, row.from, row.to, row.cause, &row.reason]);
        }
    }
}

fn of_minute(out: &mut Vec<u8>, minute: u64, instance: &str, run: u64) {
    numbers(out, &[seconds(minute.saturating_mul(60))]);
    texts(out, &[instance]);
    large_numbers(out, &[run]);
}

/// Writes a `DateTime` and the milliseconds within its second.
fn time(out: &mut Vec<u8>, at_ms: u64) {
    numbers(out, &[seconds(at_ms / 1000)]);
    out.extend(u16::try_from(at_ms % 1000).unwrap_or_default().to_le_bytes());
}

fn seconds(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

fn numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
}

fn large_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
}

fn texts(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        let mut len = text.len();
        while len >= 0x80 {
            out.push(len.to_le_bytes()[0] | 0x80);
            len >>= 7;
        }
        out.push(len.to_le_bytes()[0]);
        out.extend(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_follow_their_length() {
        for (len, prefix) in [(0, &[0][..]), (127, &[127]), (128, &[0x80, 1]), (300, &[0xac, 2])] {
            let mut out = Vec::new();
            texts(&mut out, &[&"x".repeat(len)]);
            assert_eq!((&out[..prefix.len()], out.len()), (prefix, prefix.len() + len));
        }
    }

    #[test]
    fn a_time_is_seconds_and_milliseconds() {
        let mut out = Vec::new();
        time(&mut out, 1_800_000_000_123);
        assert_eq!(out, [0x00, 0xd2, 0x49, 0x6b, 123, 0]);
        let mut late = Vec::new();
        time(&mut late, u64::MAX);
        assert_eq!(late[..4], [0xff; 4], "after 2106");
    }
}
