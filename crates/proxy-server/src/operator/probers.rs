//! Prober statistics for operators and for the history.

use crate::operator::clock::millis;
use doorbell::http::Time;
use doorbell::http::prober::Prober;
use doorbell::time::{Clock as _, OsClock};
use doorbell_control::ProberView;
use doorbell_health::EndpointState;
use doorbell_history::{Counter, CounterName, STATES};
use doorbell_probes::{ProberRow, ProberStats};

/// All probers by endpoint, recognized kinds first.
pub(super) fn views(stats: &ProberStats) -> Vec<ProberView> {
    let now = OsClock.now();
    let view = |row: ProberRow| ProberView {
        endpoint: row.endpoint.to_string(),
        prober: row.prober_name().to_owned(),
        count: row.count(),
        age_ms: millis(now.since(row.last)),
        interval_ms: row.interval.map(millis),
        verdict: row.state_last.into(),
        their_view: reported_states(stats, &row, now),
    };
    stats.rows().into_iter().map(view).collect()
}

/// The numbers of replies to each prober by state, in the order of [`STATES`].
pub(super) fn counters(stats: &ProberStats) -> Vec<Counter> {
    let counter = |row: ProberRow| {
        let prober = row.prober_name();
        let count = |word| {
            let at = EndpointState::ALL.iter().position(|state| state.as_str() == word);
            at.map_or(0, |at| row.states[at])
        };
        let counts = STATES.map(count);
        Counter { name: CounterName::Prober { endpoint: row.endpoint, prober }, counts }
    };
    stats.rows().into_iter().map(counter).collect()
}

/// Summarizes the server states that the load balancers of a row report; `None` if there are none.
fn reported_states(stats: &ProberStats, row: &ProberRow, now: Time) -> Option<String> {
    // Only HAProxy reports server states.
    let (_, views) = stats.views(now).find(|(name, _)| *name == &*row.endpoint)?;
    let reported: Vec<String> = views.iter().map(ToString::to_string).collect();
    (row.prober == Some(Prober::Haproxy) && !reported.is_empty()).then(|| reported.join(", "))
}
