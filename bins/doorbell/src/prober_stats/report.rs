//! The prober statistics as operators see them.
//!
//! Does not know about: who asks for it.

use super::{ProberStats, Row};
use crate::http::Time;
use crate::http::prober::Prober;
use crate::wire::ProberView;
use doorbell::time::{Clock as _, OsClock};

impl ProberStats {
    /// Who probes, by endpoint, those that are known first.
    pub(crate) fn probers(&self) -> Vec<ProberView> {
        let now = OsClock.now();
        let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let view = |row: Row| ProberView {
            endpoint: row.endpoint.to_string(),
            prober: row.prober_name().to_owned(),
            count: row.count(),
            age_ms: millis(now.since(row.last)),
            interval_ms: row.interval.map(millis),
            verdict: row.told_last.into(),
            their_view: self.their_view(&row, now),
        };
        self.rows().into_iter().map(view).collect()
    }

    /// What the load balancers of this kind say, of all that there are at the endpoint.
    fn their_view(&self, row: &Row, now: Time) -> Option<String> {
        // Nobody else says it.
        let (_, views) = self.views(now).find(|(name, _)| *name == &*row.endpoint)?;
        let said: Vec<String> = views.iter().map(ToString::to_string).collect();
        (row.prober == Some(Prober::Haproxy) && !said.is_empty()).then(|| said.join(", "))
    }
}
