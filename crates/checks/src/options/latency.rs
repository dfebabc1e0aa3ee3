//! `max_latency` of `expect` and of `degraded`.
//!
//! Does not know about: kinds of checks.

use doorbell_config::{Problem, Section};
use std::time::Duration;

/// Reports a limit of `degraded` above the limit of `expect`: slower results are down, never
/// degraded.
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
