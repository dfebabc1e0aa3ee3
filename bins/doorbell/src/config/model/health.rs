//! `[health.NAME]`: what a set of checks means, and with which codes it is answered.
//!
//! Does not know about: routes, which answer with it.

use doorbell_health::Severity;
pub use doorbell_health::{Codes, OnDrain, OnStale, Quorum};
use std::time::Duration;

/// `[health.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Named by routes.
    pub name: String,
    /// The state of an endpoint without checks.
    pub initial: HealthState,
    /// The checks, in the order in which they are shown; each once.
    pub uses: Vec<CheckUse>,
    /// How many of the checks with `in_quorum` must be up.
    pub quorum: Option<Quorum>,
    /// How long it stays open when all are down.
    pub fail_open: Option<Duration>,
    /// Whether it stays up once it was up.
    pub latch: bool,
    /// What a check counts as whose last result is too old.
    pub on_stale: OnStale,
    /// The status code of each state.
    pub codes: Codes,
    /// What the kubelet, load balancers and all others are told during a drain.
    pub on_drain: [OnDrain; 3],
    /// How a kubelet is told of "degraded".
    pub degraded_via: DegradedVia,
    /// What is said in header fields beside.
    pub fields: StateFields,
    /// The longest body.
    pub body_bytes: u32,
}

/// One check of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckUse {
    /// The position in [`super::Config::checks`].
    pub check: usize,
    /// What it does when it is down.
    pub severity: Severity,
    /// Whether it is one of the quorum.
    pub in_quorum: bool,
    /// What it adds to the weight.
    pub weight: u32,
    /// The code of the endpoint when it is down because of this check.
    pub code: Option<u16>,
}

/// Header fields of an answer that depend on its state; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateFields {
    /// `Retry-After` of every 503, in seconds.
    pub retry_after_secs: Option<u32>,
    /// `x-envoy-degraded: true` while it is degraded and serves.
    pub envoy_degraded: bool,
    /// `X-Load-Balancing-Endpoint-Weight`: the weight of the checks that serve, all of it in a state that is not theirs, 0 while it does not serve.
    pub endpoint_weight: bool,
}

/// How a kubelet is told that an endpoint is degraded. All others are told by the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DegradedVia {
    /// By a redirect that it does not follow: a success of which it makes an event of type `Warning`, with the reason.
    KubeWarning,
    /// By the status, as everybody.
    #[default]
    Status,
}

/// The state of a health endpoint without checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    /// Answered with 503.
    Down,
    /// Answered with 200.
    Up,
}

/// What probers of an endpoint make of it, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whether the process lives: what is down is restarted.
    Liveness,
    /// Whether it takes traffic.
    Readiness,
    /// Whether it has started: until then nothing else is probed, and in the end it is restarted.
    Startup,
}

impl Role {
    /// By the last word of the name of an endpoint, as in `livez` and `app_livez`, or of the last part of a path.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let last = name.rsplit(['_', '-']).next().unwrap_or(name);
        let is_any = |words: &[&str]| words.iter().any(|word| last.eq_ignore_ascii_case(word));
        if is_any(&["livez", "live", "liveness", "alive"]) {
            Self::Liveness
        } else if is_any(&["startupz", "startup", "started"]) {
            Self::Startup
        } else {
            Self::Readiness
        }
    }
}

impl Health {
    /// The default of an endpoint with this name. What is about the process being alive takes no notice of a drain.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let on_drain = if Self::is_readiness(name) { OnDrain::Report } else { OnDrain::Ignore };
        Self {
            name: name.to_owned(),
            initial: HealthState::Up,
            uses: Vec::new(),
            quorum: None,
            fail_open: None,
            latch: false,
            on_stale: OnStale::Down,
            codes: Codes::default(),
            on_drain: [on_drain; 3],
            degraded_via: DegradedVia::default(),
            fields: StateFields::default(),
            body_bytes: 1024,
        }
    }

    /// False for endpoints that stay up while the process lives: see [`Role::of`]. Probers of these restart what is down, and neither a drain
    /// nor maintenance is a reason for that.
    #[must_use]
    pub fn is_readiness(name: &str) -> bool {
        Role::of(name) == Role::Readiness
    }
}

impl CheckUse {
    /// A use with this severity, outside of the quorum, of no weight.
    #[must_use]
    pub const fn new(check: usize, severity: Severity) -> Self {
        Self { check, severity, in_quorum: false, weight: 0, code: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_is_restarted() {
        for (name, expected) in [
            ("livez", false),
            ("startupz", false),
            ("app_livez", false),
            ("app-1-startupz", false),
            ("live", false),
            ("liveness", false),
            ("app_alive", false),
            ("Alive", false),
            ("startup", false),
            ("app-started", false),
            ("starting", true),
            ("live_orders", true),
            ("readyz", true),
            ("app", true),
            ("livez_app", true),
            ("alivez", true),
        ] {
            assert_eq!(Health::is_readiness(name), expected, "{name}");
        }
    }
}
