//! Table and columns of each kind of row, and the `RowBinary` encoding of rows.
//!
//! Does not know about: the statements of the schema, HTTP.
//!
//! `RowBinary` consists of little-endian numbers, and of strings with their length as a varint
//! prefix.

use crate::buffer::Batch;
use crate::row::{CheckResult, CounterName, Increments, Kind, Minute, Operation, Receipt, Row, Transition};

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
            "receipts",
            "time, millis, instance, link, size, round_trip_us, one_way_min_us, one_way_max_us, weight",
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
    for row in batch.rows() {
        match row {
            Row::Increments(row) => increments(&mut out, row, instance, run),
            Row::Minute(row) => minute(&mut out, row, instance, run),
            Row::Operation(row) => operation(&mut out, row, instance),
            Row::Receipt(row) => receipt(&mut out, row, instance),
            Row::Result(row) => result(&mut out, row, instance),
            Row::Transition(row) => transition(&mut out, row, instance),
        }
    }
    out
}

/// Number of counters of a link.
const LINK_COUNTS: usize = 3;

fn increments(out: &mut Vec<u8>, row: &Increments, instance: &str, run: u64) {
    of_minute(out, row.minute, instance, run);
    let counts = match &row.name {
        CounterName::Link(link) => {
            text(out, link);
            &row.counts[..LINK_COUNTS]
        }
        CounterName::Prober { endpoint, prober } => {
            [&**endpoint, prober].into_iter().for_each(|part| text(out, part));
            &row.counts[..]
        }
    };
    counts.iter().for_each(|count| out.extend(count.to_le_bytes()));
}

fn of_minute(out: &mut Vec<u8>, minute: u64, instance: &str, run: u64) {
    out.extend(seconds(minute.saturating_mul(60)).to_le_bytes());
    text(out, instance);
    out.extend(run.to_le_bytes());
}

fn minute(out: &mut Vec<u8>, row: &Minute, instance: &str, run: u64) {
    of_minute(out, row.minute, instance, run);
    text(out, &row.endpoint);
    row.ms.iter().for_each(|ms| out.extend(ms.to_le_bytes()));
}

fn operation(out: &mut Vec<u8>, row: &Operation, instance: &str) {
    time(out, row.at_ms);
    [instance, row.what, &row.target].into_iter().for_each(|part| text(out, part));
    out.push(u8::from(row.is_on));
    [row.source, &row.reason].into_iter().for_each(|part| text(out, part));
    out.extend(row.until_ms.map_or(0, |until| seconds(until / 1000)).to_le_bytes());
}

fn receipt(out: &mut Vec<u8>, row: &Receipt, instance: &str) {
    time(out, row.at_ms);
    [instance, &row.link].into_iter().for_each(|part| text(out, part));
    let [min, max] = row.one_way_us;
    [row.size, row.round_trip_us, min, max, row.weight]
        .into_iter()
        .for_each(|number| out.extend(number.to_le_bytes()));
}

fn result(out: &mut Vec<u8>, row: &CheckResult, instance: &str) {
    time(out, row.at_ms);
    [instance, &row.check, row.outcome].into_iter().for_each(|part| text(out, part));
    out.extend(row.latency_us.to_le_bytes());
    out.extend(row.weight.to_le_bytes());
    text(out, &row.reason);
}

fn transition(out: &mut Vec<u8>, row: &Transition, instance: &str) {
    time(out, row.at_ms);
    [instance, row.subject, &row.name, row.from, row.to, row.cause, &row.reason]
        .into_iter()
        .for_each(|part| text(out, part));
}

/// Writes a `DateTime` and the milliseconds within its second.
fn time(out: &mut Vec<u8>, at_ms: u64) {
    out.extend(seconds(at_ms / 1000).to_le_bytes());
    out.extend(u16::try_from(at_ms % 1000).unwrap_or_default().to_le_bytes());
}

fn seconds(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

fn text(out: &mut Vec<u8>, text: &str) {
    let mut len = text.len();
    while len >= 0x80 {
        out.push(len.to_le_bytes()[0] | 0x80);
        len >>= 7;
    }
    out.push(len.to_le_bytes()[0]);
    out.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_follow_their_length() {
        for (len, prefix) in [(0, &[0][..]), (127, &[127]), (128, &[0x80, 1]), (300, &[0xac, 2])] {
            let mut out = Vec::new();
            text(&mut out, &"x".repeat(len));
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
