//! `doorbell links`: the links of a running instance as a table.

use super::table::{Cell, Paint, Tone, plain, table};
use super::words::{count, latency, length};
use doorbell_control::LinkView;

pub(super) fn links(links: &[LinkView], wide: bool, paint: Paint) -> String {
    if links.is_empty() {
        return "no links are configured\n".into();
    }
    let mut heads = vec!["LINK", "PEER", "STATE", "FOR", "RTT P50", "P99", "ONE WAY P50", "CLOCK"];
    if wide {
        heads.extend(["MAX", "SIZE CORR", "SENT", "RECEIVED", "SUBJECTS"]);
    }
    heads.extend(["LOST", "DROPPED", "WAITING", "WHY"]);
    table(&heads, &links.iter().map(|link| row(link, wide)).collect::<Vec<_>>(), paint)
}

fn row(link: &LinkView, wide: bool) -> Vec<Cell> {
    let none = || "-".to_owned();
    let state = if link.connected_ms.is_some() { (Tone::Good, "up") } else { (Tone::Bad, "down") };
    let minute = link.minute.as_ref();
    let mut row = vec![
        plain(&link.name),
        plain(if link.peer.is_empty() { "accepted" } else { &link.peer }),
        (state.0, state.1.to_owned()),
        plain(link.connected_ms.map_or_else(none, length)),
        plain(minute.map_or_else(none, |minute| latency(minute.round_trip.p50_us))),
        plain(minute.map_or_else(none, |minute| latency(minute.round_trip.p99_us))),
        plain(minute.map_or_else(none, |minute| {
            format!("{} ± {}", latency(minute.one_way.p50_us), latency(minute.one_way_error_us))
        })),
        plain(link.clock_offset_us.zip(link.clock_error_us).map_or_else(none, |(offset, error)| {
            let sign = if offset < 0 { '-' } else { '+' };
            format!("{sign}{} ± {}", latency(offset.unsigned_abs()), latency(error))
        })),
    ];
    if wide {
        let correlation = minute.and_then(|minute| minute.size_correlation);
        row.extend([
            plain(minute.map_or_else(none, |minute| latency(minute.round_trip.max_us))),
            plain(correlation.map_or_else(none, |correlation| format!("{correlation:.2}"))),
            plain(count(link.count("frames_sent"))),
            plain(count(link.count("frames_received"))),
            plain(count(link.subjects)),
        ]);
    }
    let lost = link.count("frames_lost");
    let dropped = link.count("results_dropped") + link.count("transitions_superseded");
    let warned = |number: u64| (if number == 0 { Tone::Plain } else { Tone::Warn }, count(number));
    row.extend([warned(lost), warned(dropped), plain(count(link.waiting)), plain(&link.last_end)]);
    row
}
