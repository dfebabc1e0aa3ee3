//! Metrics of the history.

use doorbell_history::{Kind, Stats};
use doorbell_metrics::{Families, as_f64};

pub(super) fn gather(stats: Option<&Stats>, families: &mut Families) {
    let rows = || stats.into_iter().flat_map(|stats| Kind::ALL.iter().zip(stats.rows));
    let mut written = families.counter("doorbell_history_rows_written", "Rows that were stored, by kind.");
    for (kind, counts) in rows() {
        written.count([("kind", kind.as_str())], counts.written);
    }
    let help = "Rows that were not stored, by kind and reason.";
    let mut dropped = families.counter("doorbell_history_rows_dropped", help);
    for (kind, counts) in rows() {
        let reasons = [("ended", counts.ended), ("full", counts.full), ("refused", counts.refused)];
        for (reason, count) in reasons {
            dropped.count([("kind", kind.as_str()), ("reason", reason)], count);
        }
    }
    let mut buffered =
        families.gauge("doorbell_history_rows_buffered", "Rows that wait for the store, by kind.");
    for (kind, counts) in rows() {
        buffered.add([("kind", kind.as_str())], as_f64(counts.live));
    }
    let Some(stats) = stats else { return };
    let help = "Memory of rows that wait for the store.";
    families.gauge("doorbell_history_buffer_bytes", help).add([], as_f64(stats.bytes_live as u64));
    let help = "Failed attempts to store rows.";
    families.counter("doorbell_history_batches_failed", help).count([], stats.batches_failed);
    let help = "1 if the last attempt to store rows succeeded.";
    families.gauge("doorbell_history_up", help).add([], if stats.failure.is_none() { 1.0 } else { 0.0 });
}
