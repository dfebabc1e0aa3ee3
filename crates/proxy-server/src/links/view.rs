//! Operators' view of a link.

use super::peers::KnownPeer;
use crate::operator::millis;
use doorbell_control::{LinkMinuteView, LinkView, QuantilesView};
use doorbell_link::{LinkCounters, LinkReport, MinuteReport, Quantiles};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) fn of(name: &str, known: &KnownPeer) -> LinkView {
    let LinkReport { connected_for, waiting, round_trip, clock_offset, minute, counters, .. } =
        known.handle.report();
    let remote = known.remote.lock();
    LinkView {
        name: name.to_owned(),
        peer: known.addr().to_owned(),
        connected_ms: connected_for.map(millis),
        last_end: remote.last_end.clone(),
        waiting,
        subjects: remote.states.len() as u64,
        round_trip_us: round_trip.map(micros),
        clock_offset_us: clock_offset.map(|(offset, _)| offset),
        clock_error_us: clock_offset.map(|(_, error)| micros(error)),
        minute: minute.map(minute_view),
        counters: counters_by_name(&counters, remote.states.ignored()),
    }
}

fn counters_by_name(counters: &LinkCounters, ignored: u64) -> BTreeMap<String, u64> {
    [
        ("connections", counters.connections),
        ("duplicates", counters.duplicates),
        ("frames_lost", counters.lost),
        ("frames_received", counters.received),
        ("frames_sent", counters.sent),
        ("receipts_dropped", counters.receipts_dropped),
        ("results_dropped", counters.results_dropped),
        ("results_received", counters.results_received),
        ("statements_ignored", ignored),
        ("transitions_received", counters.transitions_received),
        ("transitions_superseded", counters.superseded),
    ]
    .map(|(name, count)| (name.to_owned(), count))
    .into()
}

fn minute_view(minute: MinuteReport) -> LinkMinuteView {
    LinkMinuteView {
        starts_unix_ms: minute.starts_us / 1000,
        frames: minute.frames,
        round_trip: quantiles(minute.round_trip),
        one_way: quantiles(minute.one_way),
        one_way_error_us: micros(minute.error),
        size_correlation: minute.size_correlation,
        sent_max_bytes_per_s: minute.sent_max_bytes_per_s,
        received_max_bytes_per_s: minute.received_max_bytes_per_s,
    }
}

fn quantiles(of: Quantiles) -> QuantilesView {
    QuantilesView {
        p50_us: micros(of.p50),
        p90_us: micros(of.p90),
        p99_us: micros(of.p99),
        max_us: micros(of.max),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
