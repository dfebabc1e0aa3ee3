//! `[limit.NAME]` resolved: rate and burst that go together.
//!
//! Does not know about: who is limited.

use super::super::model::{Limit, LimitKey, Rate};
use super::super::written;
use super::or;
use crate::http::limit::{BURST_MAX, Quota};
use doorbell_config::{Problem, Problems};
use std::ops::Range;
use std::time::Duration;

pub(super) fn resolve(written: &written::Limit, problems: &Problems) -> Limit {
    let name = &written.name.value;
    if !written.has_rate {
        let message = format!("limit `{name}` does not say how much it lets through");
        problems.add(
            Problem::error("missing-key", written.header.clone(), message).help("add `rate = \"20/s\"`"),
        );
    }
    let rate = or(&written.rate, Rate { requests: 1, period: Duration::from_secs(1) });
    let burst = or(&written.burst, rate.requests.min(BURST_MAX));
    if let Some(at) = &written.rate {
        let span = written.burst.as_ref().map_or(&at.span, |burst| &burst.span);
        check_quota(rate, burst, span, problems);
    }
    Limit {
        name: name.clone(),
        key: or(&written.key, LimitKey::Ip),
        rate,
        burst,
        table: or(&written.table, Limit::TABLE),
        exempt_probes: or(&written.exempt_probes, false),
        headers: or(&written.headers, true),
    }
}

/// Whether the limiter can count this.
pub(super) fn check_quota(rate: Rate, burst: u32, span: &Range<usize>, problems: &Problems) {
    if let Err(error) = Quota::new(burst, rate.requests, rate.period) {
        let message = format!("{rate} with a burst of {burst} cannot be counted: {error}");
        problems.add(
            Problem::error("out-of-range", span.clone(), message)
                .help(format!("a burst is at most {BURST_MAX}, and comes back within a year")),
        );
    }
}
