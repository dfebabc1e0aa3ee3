//! `max_latency` of `expect` and of `degraded`.

use doorbell_config::{Problem, Section, Table};
use std::time::Duration;

/// Limits on the latency of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct LatencyRule {
    /// Latency above which the check fails. Default: `timeout`.
    #[key(name = "max_latency", table = "expect", range = "1ms..=10m")]
    pub fails_above: Option<Duration>,
    /// Latency above which the result is degraded.
    #[key(name = "max_latency", table = "degraded", range = "1ms..=10m")]
    pub degraded_above: Option<Duration>,
}

impl LatencyRule {
    fn check(&self, at: &Section<'_>) {
        check([self.fails_above, self.degraded_above], at);
    }
}

/// Reports a limit of `degraded` that is not below the limit of `expect`: slower results are down,
/// never degraded.
pub(super) fn check(latencies: [Option<Duration>; 2], at: &Section<'_>) {
    let [expect, degraded] = ["expect.max_latency", "degraded.max_latency"].map(|key| at.right_place(key));
    if let ([Some(down), Some(slow)], Some(expect), Some(degraded)) = (latencies, expect, degraded)
        && slow >= down
    {
        at.problem(
            Problem::error("contradiction", degraded, "slower results are down already, so never degraded")
                .also(expect, "down from here on")
                .help("make `max_latency` of `degraded` the shorter one"),
        );
    }
}
