//! nginx's `stub_status`, for existing exporters and agents.

use super::Scrape;
use crate::stats::server::ItemKind;

/// Renders the text with the same spaces as nginx. The states of connections are unknown: all
/// connections are counted as waiting.
pub(super) fn stub_status(scrape: &Scrape) -> String {
    let active: u64 = scrape.conns_live.values().sum::<u64>() + scrape.http2_live;
    let accepted = scrape.items.iter().filter(|(item, _)| item.kind == ItemKind::Accepted);
    let accepts: u64 = accepted.map(|(_, count)| count).sum();
    let dropped: u64 = scrape.workers.iter().map(|worker| worker.accepts_dropped).sum();
    let handled = accepts.saturating_sub(dropped);
    let http1: u64 = scrape.workers.iter().map(|worker| worker.requests).sum();
    let requests = http1 + scrape.http2.map_or(0, |(_, requests)| requests);
    format!(
        "Active connections: {active} \nserver accepts handled requests\n {accepts} {handled} {requests} \n\
         Reading: 0 Writing: 0 Waiting: {active} \n"
    )
}
