//! The metric of requests by protocol. The program provides the counts.

use crate::family::Families;

/// Adds the number of requests served, by protocol.
pub fn requests<'p>(counts: impl IntoIterator<Item = (&'p str, u64)>, families: &mut Families) {
    let help = "Requests served, by protocol; `http1` includes the replies of raw listeners.";
    let mut requests = families.counter("doorbell_requests", help);
    for (protocol, count) in counts {
        requests.count([("protocol", protocol)], count);
    }
}
